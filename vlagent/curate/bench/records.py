"""What a benchmark under construction is made of. Every record is a line of a file in its folder (`folder.py`)."""

from __future__ import annotations

import hashlib
from typing import Literal, Self

from pydantic import Field, model_validator

from vlagent.types import Box, ImageRef, Record

Verdict = Literal["agree", "dispute", "keep", "drop"]
"""Of a reviewer: agree or dispute; of an expert, whose word is final for this revision: keep or drop."""
State = Literal["draft", "done", "deleted"]
CheckName = Literal["blind", "no_tools", "evidence", "leak"]
PERSON = "person"
"""What decided, where somebody overruled a check."""


class Picture(Record):
    """One collected picture."""

    version: Literal[1] = 1
    id: str
    """The first 12 letters of its file's SHA-256."""
    file: str
    """Below the benchmark's folder."""
    width: int = Field(gt=0)
    """Pixels, after EXIF orientation."""
    height: int = Field(gt=0)
    source: str
    """The file or address that it was taken from."""
    page: str = ""
    """The page that showed it."""
    title: str = ""
    date: str = ""
    """ISO date; empty where nothing says when it was made or published."""
    date_from: str = ""
    """`list`, `feed`, `sitemap`, `page`, `exif`; empty where there is no date."""
    licence: str = ""
    licence_from: str = ""

    def ref(self, folder: str) -> ImageRef:
        """Its address."""
        return ImageRef(path=f"{folder}/{self.file}", width=self.width, height=self.height)


class Refused(Record):
    """A source that is not taken, and will not be asked again."""

    version: Literal[1] = 1
    source: str
    why: str


class Sieved(Record):
    """What the filter measured on a picture, and what it says."""

    version: Literal[1] = 1
    id: str
    kept: bool
    why: tuple[str, ...] = ()
    """Why not."""
    sharpness: float
    """Contrast of the finest detail in the sharpest parts, in grey levels."""
    small: int
    """Small objects or words in it."""
    smallest: float | None = None
    """Share of the picture that the smallest of them covers."""
    like: str = ""
    """The picture, or the question of another set, that it is a copy of."""
    rules: str
    """Digest of the rules that were applied: changed rules are applied anew."""


class Item(Record):
    """One question as its author saved it. An edit is a new line with the next revision."""

    version: Literal[1] = 1
    id: str
    picture: str
    author: str
    revision: int = Field(ge=1)
    state: State = "draft"
    box: Box | None = None
    """The asked-for object: left, top, right, bottom in pixels of the upright picture."""
    question: str = ""
    answers: tuple[str, ...] = ()
    domain: str = ""
    tools: tuple[str, ...] = ()
    """What is needed to answer it."""
    evidence: tuple[str, ...] = ()
    """Addresses or files in which the answer stands."""
    notes: str = ""
    saved_at: str = ""

    @model_validator(mode="after")
    def _has_an_area(self) -> Self:
        if self.box and not (0 <= self.box[0] < self.box[2] and 0 <= self.box[1] < self.box[3]):
            raise ValueError(f"box {self.box} has no area")
        return self

    @property
    def content(self) -> str:
        """Digest of what reviews, checks and rollouts refer to: a change of it makes them void."""
        parts = [self.picture, str(self.box), self.question, *self.answers]
        return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=6).hexdigest()

    def content_for(self, check: CheckName) -> str:
        """The same for one check: other links need the evidence to be looked at anew."""
        if check != "evidence":
            return self.content
        return hashlib.blake2b("\x1f".join([self.content, *self.evidence]).encode(), digest_size=6).hexdigest()

    def share(self, picture: Picture) -> float | None:
        """Part of the picture that the box covers; None without a box."""
        if self.box is None:
            return None
        left, top, right, bottom = self.box
        return (right - left) * (bottom - top) / (picture.width * picture.height)


class Review(Record):
    """What another person says of a question. The own answer is given before the accepted ones are shown."""

    version: Literal[1] = 1
    item: str
    content: str
    """`Item.content` that was reviewed."""
    reviewer: str
    answer: str
    """The reviewer's own, given blind."""
    matched: bool
    """Whether the rules find it among the accepted ones."""
    verdict: Verdict | None = None
    """None between the blind answer and the verdict."""
    why: str = ""
    saved_at: str = ""


class Checked(Record):
    """One automatic check of one question."""

    version: Literal[1] = 1
    item: str
    content: str
    """`Item.content_for` the check."""
    check: CheckName
    ok: bool | None
    """None where it could not be decided; such a check is made again."""
    why: str = ""
    by: str = ""
    """Digest of what decided (model, number of tries, other sets); another one is asked anew."""


class Difficulty(Record):
    """pass@k of one question."""

    version: Literal[1] = 1
    item: str
    content: str
    k: int
    right: int
    model: str

    @property
    def level(self) -> Literal["easy", "hard"]:
        """Hard: none of the k answers is right."""
        return "hard" if self.right == 0 else "easy"
