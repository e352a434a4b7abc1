"""A run folder as cards: one a trajectory, with what the page shows and what its filters look at."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlagent.agent.store import TRAJECTORIES
from vlagent.bench.runs import STOPPED, read_rows
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_json, read_records
from vlagent.rewards.rubric import FAILURES
from vlagent.types import EvalRow, ImageRef, Outcome, Sample, Trajectory, Turn


@dataclass(frozen=True)
class Mark:
    """A box drawn on a picture, in that picture's own pixels."""

    turn: int
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Card:
    """One trajectory of the page."""

    number: int
    """From 1, in the order of the file."""
    trajectory: Trajectory
    sample: Sample | None
    row: EvalRow | None

    @property
    def outcome(self) -> str:
        """What it counts as; an episode that nobody scored is unscored unless it failed or was stopped."""
        if self.row:
            return str(self.row.outcome)
        if self.trajectory.stop in FAILURES:
            return str(Outcome.FAILED)
        return str(Outcome.NOT_COUNTED if self.trajectory.stop in STOPPED else Outcome.UNSCORED)

    @property
    def is_judged(self) -> bool:
        """Whether an outcome says anything: a question that a person asked has no right answer to hold it against."""
        return self.row is not None or self.outcome != Outcome.UNSCORED or self.suite != "ask"

    @property
    def question(self) -> str:
        return self.sample.question if self.sample else self.trajectory.prompt

    @property
    def inputs(self) -> tuple[ImageRef, ...]:
        return self.sample.images if self.sample else self.trajectory.images[:1]

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that it called, once each."""
        return tuple(dict.fromkeys(turn.call.name for turn in self.trajectory.turns if turn.call))

    @property
    def suite(self) -> str:
        return self.row.suite if self.row else (self.sample.source if self.sample else "")

    @property
    def where(self) -> str:
        """What stands before its name in the list."""
        return ""

    @property
    def accepted(self) -> tuple[str, ...]:
        """Answers that count as right."""
        return self.row.answers if self.row else (self.sample.answers if self.sample else ())

    def facet(self, name: str) -> tuple[str, ...]:
        """Its values of one filter: `outcome`, `tools`, `stop` or `suite`."""
        value = self.trajectory.stop if name == "stop" else getattr(self, name)
        return value if isinstance(value, tuple) else (str(value),)

    @property
    def names(self) -> list[str]:
        """What it is told apart by besides what it did: identity, question, answers, slices."""
        slices = [f"{key}:{value}" for key, value in self.row.slices.items()] if self.row else []
        said = self.trajectory.answer or ""
        return [self.trajectory.sample_id, self.question, said, self.suite, *self.accepted, *slices]

    @property
    def words(self) -> str:
        """Everything that the free-text search looks in, lower case."""
        parts = self.names
        for turn in self.trajectory.turns:
            parts += [turn.text, *turn.repairs, turn.observation.text if turn.observation else ""]
            parts += [str(value) for value in turn.call.arguments.values()] if turn.call else []
        return " ".join(" ".join(parts).split()).lower()

    def marks_on(self, picture: ImageRef) -> tuple[Mark, ...]:
        """Where the crops of this episode lie in a picture that holds them."""
        found = []
        for number, turn in enumerate(self.trajectory.turns, 1):
            crops = turn.observation.images if turn.observation and is_crop(turn) else ()
            found += [mark for crop in crops if (mark := _mark(number, crop, picture))]
        return tuple(found)


def is_crop(turn: Turn) -> bool:
    """Whether the pictures that came back are regions of a picture of the context."""
    return bool(turn.call and turn.call.name == "image_crop")


def _mark(number: int, crop: ImageRef, picture: ImageRef) -> Mark | None:
    if crop.box is None or crop.path != picture.path:
        return None
    left, top = picture.box[:2] if picture.box else (0, 0)
    x, y = crop.box[0] - left, crop.box[1] - top
    inside = x >= 0 and y >= 0 and x + crop.width <= picture.width and y + crop.height <= picture.height
    return Mark(number, x, y, crop.width, crop.height) if inside else None


@dataclass(frozen=True)
class RunContents:
    """All that a page is made of."""

    folder: Path
    cards: tuple[Card, ...]
    config: str
    """The resolved configuration as indented JSON; empty if there is none."""
    summary: dict[str, Any]

    def facets(self, selects: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
        """For the outcome and each (name, label): how many cards have each value, most frequent first."""
        names = ("outcome", *(name for name, _ in selects))
        counts = {name: Counter(value for card in self.cards for value in card.facet(name)) for name in names}
        return {name: dict(count.most_common()) for name, count in counts.items()}


def read_run(run: Path) -> RunContents:
    """Read a run folder. Raises `UserError` if it is none."""
    _check_run(run)
    samples, rows = _samples(run), read_rows(run)
    # a resumed run retries failed episodes: the last record of a key is the one that counts
    last = {(t.sample_id, t.rollout): t for t in read_records(run / TRAJECTORIES, Trajectory)}
    cards = tuple(
        Card(number, trajectory, samples.get(key[0]), rows.get(key))
        for number, (key, trajectory) in enumerate(last.items(), 1)
    )
    return RunContents(run, cards, _config_of(run), _summary_of(run))


def last_lines(run: Path) -> list[int]:
    """The lines of trajectories.jsonl that count: of several attempts at one episode the last. From 0.

    Raises `UserError` where the folder is no run.
    """
    _check_run(run)
    last: dict[tuple[object, object], int] = {}
    for number, value in enumerate(iter_jsonl(run / TRAJECTORIES, ours=True)):
        last[value.get("sample_id"), value.get("rollout")] = number
    return sorted(last.values())


def iter_cards(run: Path, lines: Sequence[int]) -> Iterator[Card]:
    """The cards of some lines, one after another, so that a run of any length fits into memory."""
    samples, rows = _samples(run), read_rows(run)
    wanted, number = set(lines), 0
    for at, value in enumerate(iter_jsonl(run / TRAJECTORIES, ours=True)):
        if at in wanted:
            number += 1
            trajectory = Trajectory.model_validate(value)
            key = (trajectory.sample_id, trajectory.rollout)
            yield Card(number, trajectory, samples.get(key[0]), rows.get(key))


def read_head(run: Path) -> RunContents:
    """The run without its cards."""
    return RunContents(run, (), _config_of(run), _summary_of(run))


def _check_run(run: Path) -> None:
    if not (run / TRAJECTORIES).exists():
        raise UserError(f"{run}: not a run folder (it has no {TRAJECTORIES})")


def _samples(run: Path) -> dict[str, Sample]:
    """By id; a run of single questions may have none."""
    return {sample.id: sample for sample in read_records(run / "samples.jsonl", Sample)}


def _config_of(run: Path) -> str:
    path = run / "config.json"
    return json.dumps(read_json(path), indent=2, ensure_ascii=False) if path.exists() else ""


def _summary_of(run: Path) -> dict[str, Any]:
    path = run / "summary.json"
    value = read_json(path) if path.exists() else {}
    return value if isinstance(value, dict) else {}
