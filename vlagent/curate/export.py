"""Episodes of run folders for training elsewhere, in four forms side by side, with a data card.

    OUT/README.md  card.json  plots/     the card
    OUT/rows/                            a run folder, as `vlagent sft` reads it
    OUT/trl.jsonl                        TRL: conversations with picture slots, `images` beside them
    OUT/sharegpt.json dataset_info.json  LLaMA-Factory: OUT is its `dataset_dir`
    OUT/data/train-*.parquet             Hugging Face `datasets`: `load_dataset(OUT)`, pictures inside
    OUT/images/                          the pictures of the two JSON forms, by their content

Every form holds the messages as the model saw them, word for word, and the pictures at the size it saw them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from vlagent import images
from vlagent.agent.config import AgentConfig
from vlagent.agent.conversation import RewriteError, Style, conversation
from vlagent.bench.runs import write_run
from vlagent.bench.selection import Selection, agent_of, episodes
from vlagent.chat.base import ImagePart, Message, TextPart
from vlagent.curate.card import Card, card_of, write_card
from vlagent.curate.export_forms import FORMS, Conversation, Said, write_forms
from vlagent.curate.filling import filling, leftovers
from vlagent.data.sealed import refuse_canaries
from vlagent.errors import UserError
from vlagent.files import write_atomic
from vlagent.types import EvalRow, Sample, Trajectory

Form = Literal["rows", "trl", "sharegpt", "datasets"]
ROWS = "rows"
IMAGES = "images"
OURS = (ROWS, IMAGES, "data", "plots", "trl.jsonl", "sharegpt.json", "dataset_info.json", "README.md", "card.json")


class ExportOptions(Selection):
    """What is exported, and how."""

    forms: tuple[Form, ...] = ("rows", "trl", "sharegpt", "datasets")
    dialect: str | None = None
    """Write the turns in this dialect; None keeps them as they were written."""
    limit: int | None = Field(default=None, ge=1)
    """Episodes of each run at most, the first ones."""
    pictures: Literal["view", "original"] = "view"
    """The size at which the model saw them, or that of their source."""
    picture_format: Literal["PNG", "JPEG"] = "PNG"
    """PNG loses nothing; JPEG is a tenth of the size."""
    name: str = "episodes"
    """Of the set, in LLaMA-Factory's list and on the card."""
    licences: dict[str, str] = Field(default_factory=dict)
    """Data set -> licence; those of the known training sets need not be given."""


@dataclass(frozen=True)
class Episode:
    """One episode that is exported."""

    sample: Sample
    trajectory: Trajectory
    row: EvalRow | None
    agent: AgentConfig


@dataclass
class Chosen:
    """The episodes of all runs, and why the others were left out."""

    episodes: list[Episode] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def export(runs: Sequence[Path], out: Path, options: ExportOptions, rates: dict[str, float] | None = None) -> Card:
    """Write the episodes of run folders to an empty folder; the card that lies there too is returned.

    What an export that was killed left in the folder is made anew.
    `rates` are measured pass rates by question, for the card. Raises `UserError` where a folder is no run, nothing is
    left, a question carries a benchmark's canary, the folder is not empty, or a form needs a package that is missing.
    """
    left = leftovers(out, OURS)
    chosen = choose(runs, options)
    with filling(out, left):
        store = _Pictures(out, options)
        made = list(_conversations(chosen, options, store))
        if not made:
            why = ", ".join(f"{reason}: {count}" for reason, count in chosen.left_out.most_common()) or "they are empty"
            raise UserError(f"{', '.join(map(str, runs))}: no episode to export ({why})")
        if "rows" in options.forms:
            write_rows(out / ROWS, [episode for episode, _ in made])
        altered = write_forms(out, [talk for _, talk in made], tuple(set(options.forms) & FORMS.keys()), options.name)
        items = [(each.sample, each.trajectory, each.row) for each, _ in made]
        facts = {"left_out": dict(chosen.left_out), "forms": options.forms, "altered": altered}
        card = card_of(items, options.name, options.licences, rates).model_copy(update=facts)
        write_card(out, card)
    return card


def choose(runs: Sequence[Path], options: ExportOptions) -> Chosen:
    """The wanted episodes of all runs in their order; an episode of a question that was taken before is renumbered."""
    chosen = Chosen()
    known: dict[str, Sample] = {}
    taken: Counter[str] = Counter()
    for run in runs:
        agent, count = agent_of(run), 0
        for sample, trajectory, row in episodes(run, options, chosen.left_out):
            if options.limit is not None and count >= options.limit:
                chosen.left_out["more than limit"] += 1
                continue
            count += 1
            refuse_canaries([sample], str(run))
            name = _name_of(sample, known)
            change = {"sample_id": name, "rollout": taken[name]}
            taken[name] += 1
            chosen.episodes.append(
                Episode(
                    known[name],
                    trajectory.model_copy(update=change),
                    row.model_copy(update=change) if row else None,
                    agent,
                )
            )
    return chosen


def _name_of(sample: Sample, known: dict[str, Sample]) -> str:
    """The id under which a question is exported: two runs may use one id for two questions."""
    name, number = sample.id, 1
    while name in known and known[name] != sample.model_copy(update={"id": name}):
        number += 1
        name = f"{sample.id}~{number}"
    known.setdefault(name, sample.model_copy(update={"id": name}))
    return name


def _conversations(chosen: Chosen, options: ExportOptions, store: _Pictures) -> Iterator[tuple[Episode, Conversation]]:
    for episode in chosen.episodes:
        style = Style(episode.agent, episode.agent.pixels, (), options.dialect)
        try:
            messages = conversation(episode.sample, episode.trajectory, style)
        except RewriteError as error:
            chosen.left_out[str(error)] += 1
            continue
        name = f"{episode.sample.id}#{episode.trajectory.rollout}"
        said = tuple(_said(message, store) for message in messages)
        yield episode, Conversation(name, episode.sample.source, said)


def _said(message: Message, store: _Pictures) -> Said:
    parts: list[str | Path] = []
    for part in message.parts:
        parts.append(part.text if isinstance(part, TextPart) else store.keep(part))
    assert message.role != "tool", "native conversations are rewritten or left out"
    return Said(message.role, tuple(parts))


class _Pictures:
    """Keeps each picture once, under its content."""

    def __init__(self, out: Path, options: ExportOptions) -> None:
        self._out, self._options = out, options
        self._kept: dict[ImagePart, Path] = {}
        self._needed = bool(set(options.forms) & FORMS.keys())

    def keep(self, part: ImagePart) -> Path:
        """The path of a picture below the folder. Raises `ServiceError` where it cannot be read any more."""
        if not self._needed:
            return Path(part.ref.path)
        if part not in self._kept:
            self._kept[part] = self._write(part)
        return self._kept[part]

    def _write(self, part: ImagePart) -> Path:
        size = part.view if self._options.pictures == "view" else None
        raw = images.encode(images.load(part.ref, size), self._options.picture_format)
        suffix = {"PNG": "png", "JPEG": "jpg"}[self._options.picture_format]
        path = Path(IMAGES) / f"{hashlib.sha256(raw).hexdigest()[:32]}.{suffix}"
        if not (self._out / path).exists():
            write_atomic(self._out / path, raw)
        return path


def write_rows(run: Path, chosen: Sequence[Episode]) -> None:
    """A run folder of these episodes; pictures stay where they are.

    Raises `UserError` where they were played with settings that one folder cannot hold.
    """
    agent = chosen[0].agent
    for episode in chosen:
        if episode.agent != agent:
            known = agent.model_dump(), episode.agent.model_dump()
            key = next(name for name in known[0] if known[0][name] != known[1][name])
            raise UserError(
                f"agent.{key} = {known[0][key]} in one run and {known[1][key]} in another: one run folder has one "
                "setting; export them apart, or leave out the form rows"
            )
    config = {"verb": "export", "agent": agent.model_dump(mode="json")}
    write_run(run, config, [(each.sample, each.trajectory, each.row) for each in chosen])
