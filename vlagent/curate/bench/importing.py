"""Questions that exist already: another set in any layout that we read, or tasks of Label Studio."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vlagent.curate.bench.collect import Given, collect
from vlagent.curate.bench.config import BenchConfig
from vlagent.curate.bench.folder import Bench, checked_name, now, question_name
from vlagent.curate.bench.label_studio import is_number, read_tasks
from vlagent.curate.bench.records import Item
from vlagent.files import append_jsonl, only_writer, sha256_of
from vlagent.types import Box, Record, Sample


class Imported(Record):
    """What was taken over."""

    new: int
    known: int
    """Questions that are there already."""
    left_out: tuple[str, ...] = ()


async def import_samples(bench: Bench, samples: Sequence[Sample], author: str, given: Given) -> Imported:
    """Take a set's pictures and its questions, as drafts of `author` (a box and tools are often missing).

    Questions with several pictures or none, and those with options, are left out.
    """
    checked_name(author)
    fit = [sample for sample in samples if len(sample.images) == 1 and not sample.choices]
    left_out = [f"{each.id}: it has options, or not one picture" for each in samples if each not in fit]
    await collect(bench, sorted({sample.images[0].path for sample in fit}), given)
    known = bench.pictures()
    items = []
    for sample in fit:
        picture = known.get(sha256_of(Path(sample.images[0].path))[:12])
        if picture is None:
            left_out.append(f"{sample.id}: its picture was refused")
            continue
        items.append(_item(sample, picture.id, author, bench.config))
    new = _add(bench, items)
    return Imported(new=new, known=len(items) - new, left_out=tuple(left_out))


def import_tasks(bench: Bench, path: Path) -> Imported:
    """Take the annotations of Label Studio, as drafts of those who made them."""
    items, left_out = read_tasks(bench, path)
    new = _add(bench, items)
    return Imported(new=new, known=len(items) - new, left_out=tuple(left_out))


def _add(bench: Bench, items: Sequence[Item]) -> int:
    """Append what nobody has yet: an import is never allowed to overwrite a person's work."""
    with only_writer(bench.folder / "annotations"):
        return _append(bench, items)


def _append(bench: Bench, items: Sequence[Item]) -> int:
    taken = bench.names_taken()
    new = [item for item in _each_its_own(items) if item.id not in taken]
    for item in new:
        append_jsonl(bench.annotations_of(item.author), item)
    return len(new)


def _each_its_own(items: Sequence[Item]) -> Iterator[Item]:
    """Questions whose names became the same are numbered in their order: none is taken for a later save of another."""
    seen: Counter[str] = Counter()
    for item in items:
        seen[item.id] += 1
        yield item if seen[item.id] == 1 else item.model_copy(update={"id": f"{item.id}-again{seen[item.id]}"})


def _item(sample: Sample, picture: str, author: str, config: BenchConfig) -> Item:
    extra = sample.extra
    domain = str(extra.get("category") or "")
    tools = extra.get("tools")
    return Item(
        id=question_name(sample.id),
        picture=picture,
        author=author,
        revision=1,
        box=_box(extra.get("box")),
        question=sample.question,
        answers=sample.answers,
        domain=domain if domain in config.domains else "",
        tools=tuple(str(tool) for tool in tools if tool in config.tools) if isinstance(tools, list) else (),
        evidence=tuple(str(link) for link in extra["evidence"]) if isinstance(extra.get("evidence"), list) else (),
        notes="" if domain in config.domains or not domain else f"domain of the imported set: {domain}",
        saved_at=now(),
    )


def _box(value: Any) -> Box | None:
    if not isinstance(value, list) or len(value) != 4 or not all(is_number(side) for side in value):
        return None
    left, top, right, bottom = (round(side) for side in value)
    return (left, top, right, bottom) if 0 <= left < right and 0 <= top < bottom else None
