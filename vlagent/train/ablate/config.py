"""What an ablation is: arms, data mixes and cold starts, as changes to one base configuration. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vlagent.bench.ablation import BEFORE
from vlagent.types import Record

Changes = dict[str, Any]
"""Tables of an `rl` configuration, of which every value wins over the base's."""


class PrepareConfig(Record):
    """A command that has to run once before everything else: a world, demonstrations, a cold start."""

    run: str
    """What follows `vlagent` on a command line."""
    makes: str
    """The file that is there when it is done; then it is not run again."""
    resume: str | None = None
    """Run folder of an `sft` or `rl` command: where it exists, the command goes on with it."""
    fresh: str | None = None
    """A folder inside the ablation's own that is emptied before the command starts again."""


class EvaluationConfig(Record):
    """What every run is asked when it is trained."""

    data: str
    """Manifest (`manifest.json:entry`)."""
    search: str | None = None
    limit: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """The tiny model's greedy answers flip; 1 measures what is trained."""
    seed: int = 0
    weights: Literal["last", "best"] = "last"
    """`last` compares equal numbers of steps; `best` those that validation chose."""
    concurrency: int = Field(default=64, ge=1)


class LimitConfig(Record):
    """What a run may cost."""

    core_minutes: float = Field(default=4.0, gt=0, le=1e6)
    """Processor time of one training; a run that needs more is ended and counts as failed."""
    parallel: int | None = Field(default=None, ge=1)
    """Runs at one time; None is one a core."""


class GridConfig(Record):
    """Which cells are run: every combination of the names."""

    arms: tuple[str, ...] = Field(min_length=1)
    mixes: tuple[str, ...] = Field(min_length=1)
    starts: tuple[str, ...] = Field(min_length=1)


class AblateConfig(Record):
    """One ablation."""

    verb: Literal["ablate"] = "ablate"
    run: str
    """Work folder: run folders, logs. May be lost; results are kept elsewhere."""
    results: str
    """Folder of the small files that are kept: one result a run, table, page."""
    base: str
    """Configuration of `vlagent rl` that all runs start from."""
    seeds: tuple[int, ...] = Field(min_length=1)
    common: Changes = Field(default_factory=dict)
    arms: dict[str, Changes] = Field(min_length=1)
    mixes: dict[str, Changes] = Field(min_length=1)
    starts: dict[str, Changes] = Field(min_length=1)
    grid: tuple[GridConfig, ...] = Field(min_length=1)
    evaluation: EvaluationConfig
    prepare: tuple[PrepareConfig, ...] = ()
    limits: LimitConfig = LimitConfig()

    @model_validator(mode="after")
    def _names_what_there_is(self) -> Self:
        for grid in self.grid:
            for known, used in ((self.arms, grid.arms), (self.mixes, grid.mixes), (self.starts, grid.starts)):
                for name in used:
                    if name not in known:
                        raise ValueError(f"grid: no {name!r}; there are {', '.join(known)}")
        if twice := [seed for seed in self.seeds if self.seeds.count(seed) > 1]:
            raise ValueError(f"seeds: {twice[0]} is named twice; a seed is one run")
        for name in (*self.arms, *self.mixes, *self.starts):
            if name == BEFORE or not name.replace("_", "").isalnum():
                raise ValueError(f"{name!r} cannot be a name: use letters, digits and _ , and not {BEFORE!r}")
        return self

    @model_validator(mode="after")
    def _empties_only_its_own(self) -> Self:
        for step in self.prepare:
            if step.fresh and Path(self.run).resolve() not in Path(step.fresh).resolve().parents:
                raise ValueError(f"prepare.fresh = {step.fresh}: only folders inside run = {self.run} are emptied")
        return self
