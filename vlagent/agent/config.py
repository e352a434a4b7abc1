"""How episodes run: workflow, dialect, limits, sampling, pictures (protocol.md, section Limits)."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from vlagent.chat.base import Sampling
from vlagent.config import make_config
from vlagent.errors import UserError
from vlagent.render.dialects import DIALECTS
from vlagent.render.prompts import Prompts
from vlagent.render.sizing import LIMITS, PixelLimits
from vlagent.types import Record

Workflow = Literal["direct", "rag", "agent"]


class AgentConfig(Record):
    """Everything that decides what an episode may do. The limits are those of SenseNova-MARS (arXiv 2512.24330)."""

    workflow: Workflow = "agent"
    """`direct`: one turn, no tools; `rag`: an image and a text search first, then one turn; `agent`: the loop."""
    dialect: str = "default"
    max_turns: int = Field(default=10, ge=1)
    """Model turns, invalid ones and the answer included."""
    max_tokens_turn: int = Field(default=8192, ge=1)
    """New tokens of one turn."""
    max_tokens_total: int = Field(default=32768, ge=1)
    """Tokens of the whole trajectory: prompt, pictures, turns and observations."""
    time_limit_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Wall time of an episode, waiting for a slot included, the hook's thinking excluded."""
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Of one episode, by the cost that the model reports."""
    max_invalid: int = Field(default=3, ge=1)
    """Invalid actions in a row that end the episode."""
    max_world_faults: int = Field(default=3, ge=1)
    """Failed tool services in a row, past their retries, that end the episode."""
    warn_last_turn: bool = True
    """Tell the model one turn before the limit that the next turn must answer."""
    sampling: Sampling = Sampling()
    """`max_tokens` is set by the loop, turn by turn."""
    pixels: PixelLimits = LIMITS["qwen3-vl"]
    crop_source: Literal["original", "view"] = "original"
    tools: tuple[str, ...] = ("text_search", "image_search", "image_crop")
    """Used by the workflow `agent`; `rag` uses the two searches of the tools that it is given."""
    top_k: int = Field(default=5, ge=1, le=5)
    """Results of a search at most."""
    seed: int = 0
    """Of the run; every draw is keyed by (seed, sample id, rollout, turn)."""
    prompts: Prompts | None = None

    @field_validator("dialect")
    @classmethod
    def _is_a_dialect(cls, name: str) -> str:
        if name not in DIALECTS:
            raise ValueError(f"no such dialect; there are {', '.join(DIALECTS)}")
        return name

    @field_validator("tools")
    @classmethod
    def _are_named_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError("a tool is named twice")
        return names

    @model_validator(mode="after")
    def _leaves_tokens_to_the_loop(self) -> Self:
        if self.sampling.max_tokens not in (Sampling().max_tokens, self.max_tokens_turn):
            raise ValueError("sampling.max_tokens is set by the loop: set max_tokens_turn instead")
        return self


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"sampling": {"temperature": 0.0}, "top_k": 5, "max_turns": 10, "warn_last_turn": False},
    "released": {
        "sampling": {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "presence_penalty": 1.5},
        "top_k": 3,
        "max_turns": 10,
        "warn_last_turn": False,
        "seed": 3407,
    },
}
"""The published evaluation settings. The dialect is the checkpoint's matter and not part of them.

Several rollouts at temperature 0 (`paper` with Avg@8) measure engine noise only."""


def preset(name: str, **changes: Any) -> AgentConfig:
    """A published setting with some values changed; a mistake is a `UserError` that names the key."""
    if name not in PRESETS:
        raise UserError(f"preset {name!r}: there are {', '.join(PRESETS)}")
    return make_config(AgentConfig, PRESETS[name] | changes)
