"""Advantages by name: ours, and those that other packages bring by the entry-point group `vlagent.advantages`."""

from __future__ import annotations

from vlagent.errors import UserError
from vlagent.plugins import loaded, plugins
from vlagent.train.rl.algorithms.base import AdvantageFn
from vlagent.train.rl.algorithms.bn_gspo import bn_gspo
from vlagent.train.rl.algorithms.dr_grpo import dr_grpo
from vlagent.train.rl.algorithms.gdpo import gdpo
from vlagent.train.rl.algorithms.grpo import grpo
from vlagent.train.rl.algorithms.reinforce_pp import reinforce_pp, reinforce_pp_baseline

GROUP = "vlagent.advantages"
ADVANTAGES: dict[str, AdvantageFn] = {
    "grpo": grpo,
    "gspo": grpo,
    "bn_gspo": bn_gspo,
    "gdpo": gdpo,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
    "dr_grpo": dr_grpo,
}


def advantage_names() -> list[str]:
    """Every advantage that can be asked for."""
    return [*ADVANTAGES, *sorted(set(plugins(GROUP)) - set(ADVANTAGES))]


def get_advantage(name: str) -> AdvantageFn:
    """The advantage function of this name. Raises `UserError` where there is none."""
    if name in ADVANTAGES:
        return ADVANTAGES[name]
    found = plugins(GROUP).get(name)
    if found is None:
        raise UserError(f"advantage {name!r}: no such algorithm; there are {', '.join(advantage_names())}")
    function = loaded(f"advantage {name!r}", found)
    if not callable(function):
        raise UserError(
            f"advantage {name!r}: {found.value} must be a function (Rewards, AdvantageConfig) -> Advantages"
        )
    return function  # type: ignore[no-any-return]
