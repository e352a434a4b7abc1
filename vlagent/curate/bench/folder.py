"""A benchmark under construction is a folder; every stage appends lines, and the last line about a thing counts.

    BENCH/bench.toml              the rules
    BENCH/pictures.jsonl          what was collected (`Picture`); BENCH/pictures/ holds the files as they came
    BENCH/refused.jsonl           what was not taken, and why (`Refused`)
    BENCH/filter.jsonl            measures and verdicts of the filter (`Sieved`)
    BENCH/annotations/NAME.jsonl  every save of one annotator (`Item`)
    BENCH/reviews/NAME.jsonl      what one reviewer says (`Review`)
    BENCH/checks.jsonl            automatic checks (`Checked`)
    BENCH/difficulty.jsonl        pass@k (`Difficulty`)
    BENCH/plays/                  the episodes behind checks and difficulty, a run folder each

A kill at any moment loses at most the line that was being written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from vlagent.curate.bench.config import BenchConfig, read_config
from vlagent.curate.bench.records import Checked, Difficulty, Item, Picture, Refused, Review, Sieved
from vlagent.errors import UserError
from vlagent.files import read_records
from vlagent.types import ImageRef

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


@dataclass(frozen=True)
class Bench:
    """Reads a benchmark's folder. Nothing is kept in memory: another process may write."""

    folder: Path

    @property
    def config(self) -> BenchConfig:
        return read_config(self.folder)

    def pictures(self) -> dict[str, Picture]:
        """All that was collected, by id."""
        return {each.id: each for each in read_records(self.folder / "pictures.jsonl", Picture)}

    def refused(self) -> dict[str, Refused]:
        """By source."""
        return {each.source: each for each in read_records(self.folder / "refused.jsonl", Refused)}

    def sieved(self) -> dict[str, Sieved]:
        """By picture."""
        return {each.id: each for each in read_records(self.folder / "filter.jsonl", Sieved)}

    def usable(self) -> dict[str, Picture]:
        """Pictures that the filter keeps, and those that it has not seen."""
        sieved = self.sieved()
        return {name: each for name, each in self.pictures().items() if name not in sieved or sieved[name].kept}

    def history(self, author: str) -> list[Item]:
        """Every save of one annotator, in order."""
        return list(read_records(self.annotations_of(author), Item))

    def names_taken(self) -> set[str]:
        """Of every question that anybody ever saved, deleted ones too."""
        authors = [path.stem for path in (self.folder / "annotations").glob("*.jsonl")]
        return {each.id for author in authors for each in self.history(author)}

    def items(self) -> dict[str, Item]:
        """The last revision of every question, deleted ones left out, in the order of their first save."""
        last: dict[str, Item] = {}
        for path in sorted((self.folder / "annotations").glob("*.jsonl")):
            last |= {each.id: each for each in read_records(path, Item)}
        return {name: each for name, each in last.items() if each.state != "deleted"}

    def reviews(self) -> dict[str, list[Review]]:
        """By question: what each reviewer said last of its present content."""
        items = self.items()
        found: dict[str, dict[str, Review]] = {name: {} for name in items}
        for path in sorted((self.folder / "reviews").glob("*.jsonl")):
            for each in read_records(path, Review):
                if each.item in items and each.content == items[each.item].content:
                    found[each.item][each.reviewer] = each
        return {name: list(said.values()) for name, said in found.items()}

    def checks(self) -> dict[str, dict[str, Checked]]:
        """By question and name of the check, of its present content."""
        items = self.items()
        found: dict[str, dict[str, Checked]] = {name: {} for name in items}
        for each in read_records(self.folder / "checks.jsonl", Checked):
            if each.item in items and each.content == items[each.item].content_for(each.check):
                found[each.item][each.check] = each
        return found

    def difficulty(self) -> dict[str, Difficulty]:
        """By question, of its present content."""
        items = self.items()
        known = read_records(self.folder / "difficulty.jsonl", Difficulty)
        return {each.item: each for each in known if each.item in items and each.content == items[each.item].content}

    def ref(self, picture: Picture) -> ImageRef:
        """The address of a picture's file."""
        return picture.ref(str(self.folder.absolute()))

    def annotations_of(self, author: str) -> Path:
        """The file that one annotator's saves are appended to."""
        return self.folder / "annotations" / f"{checked_name(author)}.jsonl"

    def reviews_of(self, reviewer: str) -> Path:
        """The same for reviews."""
        return self.folder / "reviews" / f"{checked_name(reviewer)}.jsonl"


def open_bench(folder: Path) -> Bench:
    """A benchmark with pictures. `UserError` where there are none."""
    if not (folder / "pictures.jsonl").exists():
        raise UserError(f"{folder}: no pictures in it; collect some: vlagent curate bench collect SOURCE... {folder}")
    return Bench(folder)


def checked_name(name: str) -> str:
    """A person's name as a file name."""
    if not NAME.fullmatch(name):
        raise UserError(f"{name!r}: a name has 1 to 40 letters (a to z), digits, dots, dashes or underscores")
    return name


def question_name(text: str) -> str:
    """Another program's id of a question as one of ours, which stands in addresses."""
    return "".join(letter if letter.isalnum() or letter in "_.-" else "-" for letter in text).strip(".") or "question"


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
