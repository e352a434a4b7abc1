"""Stage 6: the agreed questions in the layout of HR-MMSearch, with a card, a canary, and answers sealed on request.

OUT/hr_mmsearch/hr_mmsearch.jsonl   a row a question; suite `hr_mmsearch` reads it: --data OUT
OUT/hr_mmsearch/images/             the pictures, without what their files say of place and camera
OUT/hr_mmsearch/benchmark.json      canary, rows, how answers are sealed; checked whenever the rows are read
OUT/hr_mmsearch/README.md           the card
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlagent import images
from vlagent.curate.bench.book import problems, standing
from vlagent.curate.bench.card import Shown, write_card
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.records import Checked, Item, Picture
from vlagent.data.sealed import COLUMN, FILE, WARNING, Seal, new_salt, read_seal, seal_row
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, write_atomic, write_json
from vlagent.images.stored import stored_jpeg
from vlagent.types import Record

SUITE = "hr_mmsearch"
UNLICENSED = "no licence of its picture is known: collect it again with --licence"
REQUIRED = ("leak", "blind", "no_tools")
"""Checks without which a question is not published, besides `evidence` where it has links."""
PICTURE = re.compile(r"[0-9a-f]{12}\.(?:jpg|png)")
"""Files that `publish` writes below images/."""
HIDDEN = ("ground_truth", "box", "evidence")
"""Columns that go under the password."""


@dataclass(frozen=True)
class Options:
    """How to publish."""

    unchecked: bool = False
    """Publish questions that lack automatic checks or a difficulty; a failed check or a dispute always holds back."""
    password: str = ""
    """Seals the answers; empty leaves them open."""


class Published(Record):
    """What was written, and what was held back."""

    folder: str
    questions: int
    canary: str
    held_back: dict[str, str]
    """Question -> why."""


def publish(bench: Bench, out: Path, options: Options | None = None) -> Published:
    """Write the set. Raises `UserError` where nothing can be published, or `out` holds another benchmark.

    Pictures of an earlier release that no question is about any more are removed from `out`.
    """
    options, folder = options or Options(), out / SUITE
    held = held_back(bench, unchecked=options.unchecked)
    items = [item for item in bench.items().values() if item.id not in held]
    if not items:
        raise UserError(f"{bench.folder}: no question can be published; {_first(held)}")
    seal = _seal(bench, len(items), options, folder)
    pictures, levels = bench.pictures(), bench.difficulty()
    shown = [Shown(item, pictures[item.picture], levels.get(item.id)) for item in items]
    rows = [_row(each, seal.canary) for each in shown]
    for each in shown:
        _write_picture(bench, each.picture, folder)
    # benchmark.json goes last and away first: a kill in between leaves a set that says it is not whole.
    (folder / FILE).unlink(missing_ok=True)
    sealed = [seal_row(row, options.password, seal) for row in rows] if options.password else rows
    write_atomic(folder / f"{SUITE}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in sealed))
    write_card(bench, folder, shown, seal)
    write_json(folder / FILE, seal)
    _remove_others(folder, {_picture_name(each.picture) for each in shown})
    return Published(folder=str(folder), questions=len(items), canary=seal.canary, held_back=held)


def held_back(bench: Bench, *, unchecked: bool = False) -> dict[str, str]:
    """Why each question that is not published is not."""
    reviews, checks, levels = bench.reviews(), bench.checks(), bench.difficulty()
    pictures, usable, config = bench.pictures(), bench.usable(), bench.config
    held: dict[str, str] = {}
    for item in bench.items().values():
        where = standing(item, reviews[item.id], config)
        why = [] if where == "agreed" else [f"it is {where}" + (" for reviews" if where == "waiting" else "")]
        why += problems(item, pictures[item.picture], config) if where == "agreed" else []
        why += [] if pictures[item.picture].licence else [UNLICENSED]
        why += [] if item.picture in usable else ["the filter refuses its picture"]
        why += _unchecked(item, checks[item.id], unchecked=unchecked)
        why += [] if unchecked or item.id in levels else ["its difficulty is not measured"]
        if why:
            held[item.id] = "; ".join(why)
    return held


def _unchecked(item: Item, checks: dict[str, Checked], *, unchecked: bool) -> list[str]:
    failed = [f"{name}: {each.why}" for name, each in checks.items() if each.ok is False]
    if unchecked:
        return failed
    wanted = [*REQUIRED, *(["evidence"] if item.evidence else [])]
    missing = [name for name in wanted if name not in checks or checks[name].ok is None]
    return failed + ([f"not checked: {', '.join(missing)}"] if missing else [])


def _first(held: dict[str, str]) -> str:
    if not held:
        return "there is none; write some: vlagent curate bench annotate"
    counts = Counter(held.values()).most_common(1)[0]
    return f"{len(held)} are held back, {counts[1]} of them because: {counts[0]}"


def _seal(bench: Bench, rows: int, options: Options, folder: Path) -> Seal:
    """The canary is drawn once for a benchmark; all its releases carry the same."""
    config = bench.config
    kept = bench.folder / "canary.txt"
    if not kept.exists():
        write_atomic(kept, f"{WARNING} {config.name} canary GUID {uuid.uuid4()}\n")
    canary = kept.read_text(encoding="utf-8").strip()
    _refuse_others(folder, config.name, canary)
    return Seal(
        name=config.name,
        release=config.version,
        canary=canary,
        rows=rows,
        salt=new_salt() if options.password else "",
        columns=HIDDEN if options.password else (),
    )


def _refuse_others(folder: Path, name: str, canary: str) -> None:
    """`UserError` where the folder holds what this benchmark did not write, such as the published HR-MMSearch."""
    try:
        given = read_seal(folder / f"{SUITE}.jsonl")
    except UserError:
        raise UserError(f"{folder / FILE}: damaged; remove this file, and publish again") from None
    if given is not None and given.name != name:
        raise UserError(f"{folder}: holds the benchmark {given.name!r}, this is {name!r}; choose another folder")
    if given is not None and given.canary != canary:
        raise UserError(f"{folder}: holds another benchmark of the name {name!r}; choose another folder")
    rows = folder / f"{SUITE}.jsonl"
    if given is None and rows.exists() and next(iter_jsonl(rows), {}).get(COLUMN) != canary:
        raise UserError(f"{rows}: is not of this benchmark; choose another folder")


def _remove_others(folder: Path, names: set[str]) -> None:
    for path in (folder / "images").iterdir():
        if path.name not in names and PICTURE.fullmatch(path.name):
            path.unlink()


def _row(shown: Shown, canary: str) -> dict[str, Any]:
    """The columns of HR-MMSearch, then ours."""
    item, picture = shown.item, shown.picture
    answers: str | Sequence[str] = item.answers[0] if len(item.answers) == 1 else list(item.answers)
    share = item.share(picture)
    return {
        "sample_id": item.id,
        "query": item.question,
        "query_image": f"images/{_picture_name(picture)}",
        "ground_truth": answers,
        "difficulty": shown.difficulty.level if shown.difficulty else "",
        "category": item.domain,
        "tools": list(item.tools),
        "box": list(item.box or ()),
        "object_share": None if share is None else round(share, 6),
        "evidence": list(item.evidence),
        "date": picture.date,
        "image_licence": picture.licence,
        "image_source": picture.page or (picture.source if "://" in picture.source else ""),
        COLUMN: canary,
    }


def _picture_name(picture: Picture) -> str:
    """JPEG stays JPEG; anything else becomes PNG, without loss."""
    return f"{picture.id}.{'jpg' if picture.file.endswith('.jpg') else 'png'}"


def _write_picture(bench: Bench, picture: Picture, folder: Path) -> None:
    """The pixels only: files say where and by whom they were taken."""
    path = folder / "images" / _picture_name(picture)
    if path.exists():
        return
    ref = bench.ref(picture)
    raw = stored_jpeg(ref, (ref.width, ref.height)) if path.suffix == ".jpg" else None
    write_atomic(path, raw or images.encode(images.load(ref), "JPEG" if path.suffix == ".jpg" else "PNG"))
