"""The card of a data set: what is in it, from where, under which licence; as Markdown with plots, and as JSON.

The Markdown begins with the YAML header that a hub reads, so a folder can be published as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from vlagent.bench.evaluate import slices_of
from vlagent.curate.card_plots import bars
from vlagent.data.training_sets import TRAINING_SETS
from vlagent.files import write_atomic, write_json
from vlagent.types import EvalRow, Record, Sample, Trajectory

NOT_STATED = "not stated"
BANDS = 8
"""Of pass rates: eighths, as eight rollouts give them."""
Scored = tuple[Sample, Trajectory | None, EvalRow | None]
"""A question, and where there is one its episode and its score."""


class Spread(Record):
    """How a length is distributed."""

    lowest: float
    median: float
    mean: float
    p95: float
    highest: float


class Card(Record):
    """What a set holds."""

    version: Literal[1] = 1
    name: str
    kind: Literal["episodes", "questions"]
    items: int
    """Episodes, or questions where there are no episodes."""
    questions: int
    pictures: int
    """Different files that the questions show."""
    sources: dict[str, int]
    """Items by data set."""
    licences: dict[str, str]
    """By data set."""
    slices: dict[str, dict[str, int]] = Field(default_factory=dict)
    """kind, difficulty, category, ... -> value -> items."""
    tools: dict[str, int] = Field(default_factory=dict)
    """Calls by tool."""
    tool_episodes: dict[str, int] = Field(default_factory=dict)
    """Episodes that call it at least once."""
    turns: dict[str, int] = Field(default_factory=dict)
    """Turns -> episodes."""
    lengths: dict[str, Spread] = Field(default_factory=dict)
    """Letters of questions, answers and turns; tokens where they are known."""
    outcomes: dict[str, int] = Field(default_factory=dict)
    pass_rates: dict[str, int] = Field(default_factory=dict)
    """Band -> questions whose pass rate was measured."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Why others are not in it."""
    forms: tuple[str, ...] = ()
    altered: int = 0
    """Texts in which the sharegpt form changes a word that it would take for a picture."""


def card_of(
    items: Sequence[Scored], name: str, licences: Mapping[str, str], rates: Mapping[str, float] | None = None
) -> Card:
    """Count. `licences` wins over what is known of the training sets, `rates` over what questions carry themselves."""
    samples = {sample.id: sample for sample, _, _ in items}
    played = [trajectory for _, trajectory, _ in items if trajectory is not None]
    sources = Counter(sample.source for sample, _, _ in items)
    return Card(
        name=name,
        kind="episodes" if played else "questions",
        items=len(items),
        questions=len(samples),
        pictures=len({ref.path for sample in samples.values() for ref in sample.images}),
        sources=dict(sources.most_common()),
        licences={source: licence_of(source, licences) for source in sources},
        slices=_slices(sample for sample, _, _ in items),
        tools=dict(_calls(played).most_common()),
        tool_episodes=dict(Counter(tool for each in played for tool in set(_calls([each]))).most_common()),
        turns={str(turns): count for turns, count in sorted(Counter(len(each.turns) for each in played).items())},
        lengths=_lengths(samples.values(), played),
        outcomes=dict(Counter(row.outcome.value for _, _, row in items if row is not None)),
        pass_rates=_bands(samples.values(), rates or {}),
    )


def licence_of(source: str, given: Mapping[str, str]) -> str:
    """By the user's word, else by what is known of the set; parts of a set (`deepeyes_4k_mcq`) are as the whole."""
    if source in given:
        return given[source]
    found = [name for name in TRAINING_SETS if source.startswith(name)]
    return TRAINING_SETS[max(found, key=len)].licence if found else NOT_STATED


def _slices(samples: Iterable[Sample]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for sample in samples:
        for name, value in slices_of(sample).items():
            found.setdefault(name, Counter())[value] += 1
    return {name: dict(counts.most_common()) for name, counts in found.items()}


def _calls(played: Iterable[Trajectory]) -> Counter[str]:
    return Counter(turn.call.name for each in played for turn in each.turns if turn.call is not None)


def _lengths(samples: Iterable[Sample], played: Sequence[Trajectory]) -> dict[str, Spread]:
    asked = list(samples)
    turns = [turn for each in played for turn in each.turns]
    tokens = [len(turn.tokens.ids) for turn in turns if turn.tokens is not None]
    found = {
        "question, letters": [len(sample.question) for sample in asked],
        "answer, letters": [len(answer) for sample in asked for answer in sample.answers[:1]],
        "turn, letters": [len(turn.text) for turn in turns],
        "turn, tokens": tokens,
        "episode, pictures": [len(each.images) for each in played],
    }
    return {name: _spread(values) for name, values in found.items() if values}


def _spread(values: Sequence[int]) -> Spread:
    low, median, p95, high = np.percentile(values, [0, 50, 95, 100])
    mean = round(float(np.mean(values)), 2)
    return Spread(lowest=float(low), median=float(median), mean=mean, p95=float(p95), highest=float(high))


def rate_of(sample: Sample, rates: Mapping[str, float]) -> float | None:
    """The measured pass rate of a question; what mining wrote into its row where none is given.

    Where two data sets share an id, it stands behind the name of its set; rates measured on one set alone know it bare.
    """
    names = (sample.id, f"{sample.source}/{sample.id}", sample.id.removeprefix(f"{sample.source}/"))
    own = sample.extra.get("pass_rate")
    measured = next((rates[name] for name in names if name in rates), None)
    return float(own) if measured is None and isinstance(own, int | float) else measured


def _bands(samples: Iterable[Sample], rates: Mapping[str, float]) -> dict[str, int]:
    known = [rate for sample in samples if (rate := rate_of(sample, rates)) is not None]
    counts = Counter(round(rate * BANDS) for rate in known)
    return {f"{band}/{BANDS}": counts[band] for band in range(BANDS + 1)} if known else {}


def write_card(out: Path, card: Card) -> None:
    """`README.md`, `card.json` and `plots/`."""
    write_json(out / "card.json", card)
    plots = _plots(card)
    for name, svg in plots.items():
        write_atomic(out / "plots" / f"{name}.svg", svg)
    write_atomic(out / "README.md", markdown(card, list(plots)))


def _plots(card: Card) -> dict[str, str]:
    wanted = {
        "sources": ("Items by data set", card.sources),
        "tools": ("Calls by tool", card.tools),
        "turns": ("Episodes by turns", card.turns),
        "pass_rates": ("Questions by pass rate", card.pass_rates),
    }
    return {name: bars(title, counts) for name, (title, counts) in wanted.items() if counts}


def markdown(card: Card, plots: Sequence[str] = ()) -> str:
    """The card as a page, for people and for a hub."""
    tables: list[tuple[str, Sequence[str], Sequence[Sequence[object]]]] = [
        ("By data set", ("data set", card.kind, "licence"), _source_rows(card)),
        ("Tools", ("tool", "calls", "episodes with it"), _tool_rows(card)),
        ("Turns", ("turns", "episodes"), list(card.turns.items())),
        ("Lengths", ("", "lowest", "median", "mean", "95 %", "highest"), _length_rows(card)),
        ("Outcomes", ("outcome", "episodes"), list(card.outcomes.items())),
        ("Pass rates", ("right of eight", "questions"), list(card.pass_rates.items())),
        *((f"By {name}", (name, card.kind), list(counts.items())) for name, counts in card.slices.items()),
        ("Left out", ("why", "items"), list(card.left_out.items())),
    ]
    parts = [_header(card), f"# {card.name}\n", _summary(card)]
    parts += [_table(title, head, rows) for title, head, rows in tables if rows]
    parts += [f"![{name.replace('_', ' ')}](plots/{name}.svg)\n" for name in plots]
    return "\n".join(part for part in [*parts, _reading(card)] if part)


def _header(card: Card) -> str:
    licences = set(card.licences.values())
    licence = licences.pop() if len(licences) == 1 else "other"
    lines = [
        f"license: {licence if licence.replace('-', '').replace('.', '').isalnum() else 'other'}",
        "task_categories:\n- image-text-to-text\n- visual-question-answering",
        f"pretty_name: {card.name}",
    ]
    if "datasets" in card.forms:
        files = "data_files:\n  - split: train\n    path: data/train-*.parquet"
        lines.append(f"configs:\n- config_name: default\n  {files}")
    return "---\n" + "\n".join(lines) + "\n---\n"


def _summary(card: Card) -> str:
    what = (
        f"{card.items} {card.kind} of {card.questions} questions"
        if card.kind == "episodes"
        else (f"{card.items} questions")
    )
    altered = f" {card.altered} messages differ by one look-alike bracket in the sharegpt form." if card.altered else ""
    return f"{what}, {card.pictures} different pictures in the questions.{altered}\n"


def _source_rows(card: Card) -> list[tuple[object, ...]]:
    return [(source, count, card.licences[source]) for source, count in card.sources.items()]


def _tool_rows(card: Card) -> list[tuple[object, ...]]:
    return [(tool, count, card.tool_episodes[tool]) for tool, count in card.tools.items()]


def _length_rows(card: Card) -> list[tuple[object, ...]]:
    return [(name, *(f"{value:g}" for value in each.model_dump().values())) for name, each in card.lengths.items()]


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


READING = {
    "rows": "- `rows/`: a run folder for `vlagent sft CONFIG 'sources=[{run=\"rows\"}]'`; pictures by address.",
    "trl": "- `trl.jsonl`: TRL. `load_dataset('json', data_files='trl.jsonl')`, run in this folder, then "
    "`cast_column('images', Sequence(Image()))`.",
    "sharegpt": "- `sharegpt.json`, `dataset_info.json`: LLaMA-Factory; `dataset_dir` is this folder.",
    "datasets": "- `data/`: `load_dataset('path/to/this/folder')`; columns as TRL takes them, pictures inside.",
}


def _reading(card: Card) -> str:
    lines = [READING[form] for form in READING if form in card.forms]
    return "## How to read it\n\n" + "\n".join(lines) + "\n" if lines else ""
