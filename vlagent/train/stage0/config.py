"""Every choice of stage 0 (no torch here)."""

from __future__ import annotations

from pydantic import Field

from vlagent.types import Record


class PictureStage(Record):
    """The scenes that are drawn beforehand."""

    scenes: int = 3000
    held_scenes: int = 200
    crops_a_sign: int = 2
    """The best window and others near it."""
    spare_names: float = 0.4
    """Share of signs whose name is not in the lexicon (never one of `test_open`)."""
    thumbnails: int = 48


class VisionStage(Record):
    """Training of the tower alone."""

    steps: int = 1000
    crops: int = 28
    """A step."""
    overviews: int = 10
    others: int = 2
    """Pictures without any sign, a step."""
    lr: float = 2e-3
    muon_lr: float = 0.02
    early_step: int = 640
    """The weights after this step go into the base checkpoint: it sees, but not well."""


class Mix(Record):
    """How often each kind of row is drawn; weights."""

    read: float = 0.2
    fact: float = 0.15
    place: float = 0.15
    brand: float = 0.2
    both: float = 0.15
    locate: float = 0.15
    """Only the first turn of a row that crops."""


class Phase(Record):
    """A part of the decoder's training."""

    steps: int
    """At most."""
    until: float | None = None
    """The phase ends early once this share of coordinates is right in fresh rows of its kind."""
    rows: int = 24
    drills: int = 64
    """Short rows of subtraction, a step."""
    noise: float = 0.2
    """Standard deviation of the codes' noise."""
    mix: Mix = Mix()


class DecoderStage(Record):
    """Training of the decoder on codes in place of pictures. The rate is full but in the last phase, where it falls."""

    phases: tuple[Phase, ...] = (
        Phase(steps=600, until=0.97, rows=40, drills=0, noise=0.1, mix=Mix(locate=10.0)),
        Phase(steps=600),
    )
    lr: float = 2e-3
    muon_lr: float = 0.02
    coordinate_weight: float = 3.0
    """Of coordinate tokens in the loss; every other token counts 1."""
    difference_weight: float = 3.0
    """Of the tokens of differences."""


class JoinStage(Record):
    """Both together, on pixels."""

    steps: int = 500
    rows: int = 16
    crops: int = 12
    """Further crops for the tower alone, a step."""
    drills: int = 32
    """Short rows of subtraction, a step."""
    lr: float = 1e-3
    muon_lr: float = 0.01
    lm_weight: float = 2.0
    code_weight: float = 0.3
    mix: Mix = Mix(read=0.2, fact=0.12, place=0.13, brand=0.25, both=0.3, locate=0.0)
    processes: int = 2
    """Each takes its share of every step; gradients are averaged."""


class Stage0Config(Record):
    """A whole run of stage 0."""

    seed: int = 0
    level: int = 2
    top_k: int = Field(default=1, ge=1, le=5)
    """Search results that the model learns to read."""
    pictures: PictureStage = PictureStage()
    vision: VisionStage = VisionStage()
    decoder: DecoderStage = DecoderStage()
    join: JoinStage = JoinStage()
    checkpoint_s: float = 60.0
    log_s: float = 20.0
