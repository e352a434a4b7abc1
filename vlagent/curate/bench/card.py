"""The card of a published benchmark: what is in it, how it was made, how far its makers agreed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment, StrictUndefined

from vlagent.curate.bench.book import tally
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.records import PERSON, Difficulty, Item, Picture
from vlagent.data.sealed import PASSWORD, Seal
from vlagent.files import write_atomic

BINS = ((0.0, 0.001), (0.001, 0.005), (0.005, 0.01), (0.01, 0.02), (0.02, 0.05), (0.05, 1.0))
"""Shares of the picture that the asked-for object covers."""
BAR = 24


@dataclass(frozen=True)
class Shown:
    """A question as it is published."""

    item: Item
    picture: Picture
    difficulty: Difficulty | None


def write_card(bench: Bench, folder: Path, shown: Sequence[Shown], seal: Seal) -> None:
    """`README.md`, with the front matter that dataset hubs read."""
    text = (files("vlagent.curate.bench") / "templates" / "card.md.jinja").read_text(encoding="utf-8")
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["cell"] = _cell
    write_atomic(folder / "README.md", environment.from_string(text).render(**_facts(bench, shown, seal)))


def _facts(bench: Bench, shown: Sequence[Shown], seal: Seal) -> dict[str, Any]:
    shares = [share for each in shown if (share := each.item.share(each.picture)) is not None]
    pictures = {each.picture.id: each.picture for each in shown}
    dates = sorted(each.date for each in pictures.values() if each.date)
    agreed = tally(bench)
    return {
        "config": bench.config,
        "seal": seal,
        "password": PASSWORD,
        "questions": len(shown),
        "pictures": len(pictures),
        "domains": _by_domain(shown),
        "tools": _counted(" + ".join(each.item.tools) for each in shown),
        "licences": _counted(each.licence for each in pictures.values()),
        "dates": (dates[0], dates[-1]) if dates else None,
        "undated": sum(not each.date for each in pictures.values()),
        "sizes": _sizes(pictures.values()),
        "median_share": f"{median(shares):.2%}" if shares else "none drawn",
        "bins": _bins(shares),
        "models": sorted({each.difficulty.model for each in shown if each.difficulty}),
        "k": sorted({each.difficulty.k for each in shown if each.difficulty}),
        "agreed": agreed,
        "authors": len({each.item.author for each in shown}),
        "checks": _checks(bench, shown),
    }


def _by_domain(shown: Sequence[Shown]) -> list[tuple[str, int, int, int]]:
    """(domain, questions, hard, easy), the most questions first."""
    counts = Counter(each.item.domain for each in shown)
    levels = Counter((each.item.domain, each.difficulty.level) for each in shown if each.difficulty)
    return [(name, count, levels[name, "hard"], levels[name, "easy"]) for name, count in counts.most_common()]


def _counted(values: Iterable[str]) -> list[tuple[str, int]]:
    return Counter(values).most_common()


def _sizes(pictures: Iterable[Picture]) -> str:
    sides = sorted((each.width * each.height, f"{each.width} x {each.height}") for each in pictures)
    return sides[0][1] if sides[0] == sides[-1] else f"{sides[0][1]} to {sides[-1][1]}"


def _bins(shares: Sequence[float]) -> list[tuple[str, int, str]]:
    """(range, questions, bar)."""
    counts = [sum(low < share <= high for share in shares) for low, high in BINS]
    most = max([*counts, 1])
    return [
        (f"{low:.1%} to {high:.1%}", count, "█" * round(BAR * count / most))
        for (low, high), count in zip(BINS, counts, strict=True)
        if count or high <= BINS[-2][1]
    ]


def _checks(bench: Bench, shown: Sequence[Shown]) -> list[tuple[str, int, int, int]]:
    """(check, questions that passed it, that somebody accepted against it, that were not checked)."""
    known = bench.checks()
    counts = []
    for name in ("leak", "blind", "no_tools", "evidence"):
        said = [found for each in shown if (found := known[each.item.id].get(name)) is not None and found.ok]
        accepted = sum(each.by == PERSON for each in said)
        counts.append((name, len(said) - accepted, accepted, len(shown) - len(said)))
    return counts


def _cell(text: object) -> str:
    """A text of strangers inside a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
