"""Every choice of stage 0 (no torch here)."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from vlagent.types import Record

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class PictureStage(Record):
    """The scenes that are drawn beforehand."""

    scenes: int = Field(default=3000, ge=2)
    held_scenes: int = Field(default=200, ge=1)
    crops_a_sign: int = Field(default=2, ge=1)
    """The best window and others near it."""
    spare_names: float = Field(default=0.4, ge=0, le=1)
    """Share of signs whose name is not in the lexicon (never one of `test_open`)."""
    thumbnails: int = Field(default=48, ge=1)


class VisionStage(Record):
    """Training of the tower alone."""

    steps: int = Field(default=1000, ge=1)
    crops: int = Field(default=28, ge=1)
    """A step."""
    overviews: int = Field(default=10, ge=1)
    others: int = Field(default=2, ge=0)
    """Pictures without any sign, a step."""
    lr: Rate = 2e-3
    muon_lr: Rate = 0.02
    early_step: int = Field(default=640, ge=1)
    """The weights after this step go into the base checkpoint: it sees, but not well."""

    @model_validator(mode="after")
    def _passes_its_early_step(self) -> Self:
        if self.early_step > self.steps:
            raise ValueError(f"early_step = {self.early_step} is never reached in steps = {self.steps}; lower it")
        return self


class Mix(Record):
    """How often each kind of row is drawn; weights."""

    read: Weight = 0.2
    fact: Weight = 0.15
    place: Weight = 0.15
    brand: Weight = 0.2
    both: Weight = 0.15
    locate: Weight = 0.15
    """Only the first turn of a row that crops."""

    @model_validator(mode="after")
    def _draws_something(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("every kind of row has weight 0; give one of them more")
        return self


class Phase(Record):
    """A part of the decoder's training."""

    steps: int = Field(ge=1)
    """At most."""
    until: float | None = None
    """The phase ends early once this share of coordinates is right in fresh rows of its kind."""
    rows: int = Field(default=24, ge=1)
    drills: int = Field(default=64, ge=0)
    """Short rows of subtraction, a step."""
    noise: float = Field(default=0.2, ge=0, allow_inf_nan=False)
    """Standard deviation of the codes' noise."""
    mix: Mix = Mix()


class DecoderStage(Record):
    """Training of the decoder on codes in place of pictures. The rate is full but in the last phase, where it falls."""

    phases: tuple[Phase, ...] = Field(
        default=(
            Phase(steps=600, until=0.97, rows=40, drills=0, noise=0.1, mix=Mix(locate=10.0)),
            Phase(steps=600),
        ),
        min_length=1,
    )
    lr: Rate = 2e-3
    muon_lr: Rate = 0.02
    coordinate_weight: Rate = 3.0
    """Of coordinate tokens in the loss; every other token counts 1."""
    difference_weight: Rate = 3.0
    """Of the tokens of differences."""


class JoinStage(Record):
    """Both together, on pixels."""

    steps: int = Field(default=500, ge=1)
    rows: int = Field(default=16, ge=1)
    crops: int = Field(default=12, ge=1)
    """Further crops for the tower alone, a step."""
    drills: int = Field(default=32, ge=0)
    """Short rows of subtraction, a step."""
    lr: Rate = 1e-3
    muon_lr: Rate = 0.01
    lm_weight: Weight = 2.0
    code_weight: Weight = 0.3
    mix: Mix = Mix(read=0.2, fact=0.12, place=0.13, brand=0.25, both=0.3, locate=0.0)
    processes: int = Field(default=2, ge=1, le=16)
    """Each takes its share of every step; gradients are averaged."""

    @model_validator(mode="after")
    def _feeds_every_process(self) -> Self:
        if self.rows < self.processes:
            raise ValueError(f"rows = {self.rows} are too few for processes = {self.processes}; one each is the least")
        return self


class Stage0Config(Record):
    """A whole run of stage 0."""

    seed: int = 0
    level: int = Field(default=2, ge=1, le=2)
    """Of the toy world; the codes have no room for the finer grid of level 3."""
    top_k: int = Field(default=1, ge=1, le=5)
    """Search results that the model learns to read."""
    pictures: PictureStage = PictureStage()
    vision: VisionStage = VisionStage()
    decoder: DecoderStage = DecoderStage()
    join: JoinStage = JoinStage()
    checkpoint_s: Weight = 60.0
    log_s: Weight = 20.0
