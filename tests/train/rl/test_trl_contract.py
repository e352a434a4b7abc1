from __future__ import annotations

from typing import Any

import pytest

from vlagent.errors import UserError
from vlagent.train.rl.trl_contract import OVERRIDDEN, base_trainer, check_methods, check_version


@pytest.mark.parametrize("installed", ["1.16", "1.16.0", "1.16.3"])
def test_the_series_that_it_was_written_for_is_taken(installed: str) -> None:
    check_version(installed)


@pytest.mark.parametrize("installed", ["1.15.2", "1.17.0", "1.160.0", "2.16.0", "0.9"])
def test_another_trl_is_refused_with_what_to_install(installed: str) -> None:
    with pytest.raises(UserError, match=rf"trl {installed} is installed .* pip install 'trl>=1\.16,<1\.17'"):
        check_version(installed)


def test_the_installed_trl_has_every_method_that_is_replaced() -> None:
    trainer = base_trainer()
    assert trainer.__name__ == "GRPOTrainer"


def test_a_method_that_is_gone_or_called_otherwise_is_named() -> None:
    class Gone:
        """Nothing."""

    class Changed(base_trainer()):  # type: ignore[misc]
        """Another parameter."""

        def _compute_loss(self, model: Any, inputs: Any, extra: Any) -> Any: ...

    with pytest.raises(UserError, match=f"{next(iter(OVERRIDDEN))} is gone"):
        check_methods(Gone)
    with pytest.raises(UserError, match=r"_compute_loss takes self, model, inputs, extra, self, model, inputs are"):
        check_methods(Changed)


def test_every_replaced_method_is_really_ours() -> None:
    from vlagent.train.rl.trainer import PolicyTrainer

    assert set(OVERRIDDEN) <= set(vars(PolicyTrainer))
