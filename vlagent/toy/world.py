"""Write a toy world to a folder, in the formats that real data sets come in.

    DIR/manifest.json            one entry a split
    DIR/card.json                what is in it, and each kind's guess level
    DIR/world.json               the settings it was made with
    DIR/<split>/rows.jsonl       questions
    DIR/<split>/scenes/*.png     their pictures
    DIR/<split>/corpus.jsonl     passages (Search-R1 form)
    DIR/<split>/pictures/*.png   titled pictures for image search
    DIR/<split>/search           the text and picture index, for `--search`

All but `search` is the same to the byte whenever the settings are. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_json, write_atomic, write_json
from vlagent.search.picture_build import index_images
from vlagent.search.text_build import index_text
from vlagent.toy.corpus import corpus
from vlagent.toy.lexicon import KINDS, LEVELS, SPLITS
from vlagent.toy.pictures import draw_picture, titles
from vlagent.toy.splits import Split, make_split, row_of, scene_of, slots
from vlagent.types import Record

Progress = Callable[[str, int, int], None]
"""Told (what is being made, how many are done, of how many)."""

SYSTEM_PROMPT = "Answer the question about the photo. <tools>image_crop text_search image_search</tools>"
"""A prompt short enough for a tiny model; real models get their dialect's own."""


class WorldConfig(Record):
    """Everything that decides what a world holds."""

    version: Literal[1] = 1
    seed: int
    level: int = 2
    per_kind: dict[str, int]
    """Questions of each kind, by split; a split that is not named is not made."""
    canvas: int = 640
    """Pixels a side of every scene."""
    system_prompt: str | None = None
    """Put into the manifest; None leaves the prompt to the dialect."""


class SplitCard(Record):
    """What one split holds."""

    rows: int
    passages: int
    pictures: int
    guess_levels: dict[str, float]
    """Kind -> share of its most frequent answer: what an agent scores that always gives the same answer."""


class Card(Record):
    """What a world holds, by split."""

    config: WorldConfig
    splits: dict[str, SplitCard]


def make_world(folder: Path, config: WorldConfig, progress: Progress | None = None, *, index: bool = True) -> Card:
    """Write a world, or the rest of one that was begun; without `index`, all but the search indexes.

    Raises `UserError` where the folder holds another.
    """
    _check(config)
    _claim(folder, config)
    told = progress or (lambda *_: None)
    cards = {name: _write_split(folder / name, name, config, told) for name in SPLITS if config.per_kind.get(name)}
    _refuse_shared_scenes(folder, list(cards))
    for name in cards if index else ():
        _index(folder / name, told)
    card = Card(config=config, splits=cards)
    write_json(folder / "manifest.json", manifest(config, {name: each.rows for name, each in cards.items()}))
    write_json(folder / "card.json", card)
    return card


def manifest(config: WorldConfig, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The manifest of a world in the published form; roots are relative to the manifest."""
    return {
        f"toy_{name}": {
            "root": name,
            "annotation": f"{name}/rows.jsonl",
            "length": length,
            "repeat_time": 1,
            "reward_fn": ["em_score", "format_score"],
            "unused_reward_fn": [],
            "input_template": {
                "name": "default",
                "arguments": {
                    "system_prompt": config.system_prompt or "",
                    "format_instruction": "",
                    "add_image_path": False,
                },
            },
            "comment": f"toy world, level {config.level}, seed {config.seed}",
        }
        for name, length in lengths.items()
    }


def guess_levels(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Kind -> share of its most frequent answer."""
    answers: dict[str, Counter[str]] = {}
    for row in rows:
        answers.setdefault(row["kind"], Counter())[row["reward_model"]["ground_truth"]] += 1
    return {kind: round(max(c.values()) / c.total(), 4) for kind, c in answers.items()}


def _check(config: WorldConfig) -> None:
    if config.level not in LEVELS:
        raise UserError(f"level {config.level}: there are {', '.join(map(str, LEVELS))}")
    if not 320 <= config.canvas <= 8192:
        raise UserError(f"canvas {config.canvas}: from 320 to 8192 pixels")
    unknown = sorted(set(config.per_kind) - set(SPLITS))
    if unknown:
        raise UserError(f"split {unknown[0]!r}: there are {', '.join(SPLITS)}")
    if not any(config.per_kind.values()) or min(config.per_kind.values()) < 0:
        raise UserError(f"per kind {config.per_kind}: at least one question of each kind in some split")


def _claim(folder: Path, config: WorldConfig) -> None:
    """A folder holds one world; another one is never mixed into it."""
    path = folder / "world.json"
    if path.exists():
        if read_json(path) != config.model_dump():
            raise UserError(f"{folder}: holds a toy world made with other settings ({path}); take another folder")
        return
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: not empty and not a toy world; take another folder")
    write_json(path, config)


def _write_split(folder: Path, name: str, config: WorldConfig, progress: Progress) -> SplitCard:
    split = make_split(name, config.seed, config.level, config.canvas)
    rows = _write_rows(folder, split, config.per_kind[name], progress)
    passages = corpus(split.facts, split.seed, name)
    _write_lines(folder / "corpus.jsonl", passages)
    shown = {slot.place for slot in slots(split, config.per_kind[name])}
    pictures = _write_pictures(folder / "pictures", split, shown, progress)
    return SplitCard(rows=len(rows), passages=len(passages), pictures=pictures, guess_levels=guess_levels(rows))


def _write_rows(folder: Path, split: Split, per_kind: int, progress: Progress) -> list[dict[str, Any]]:
    """The lines go last: where they are, every scene is."""
    path, total = folder / "rows.jsonl", per_kind * len(KINDS)
    if path.exists():
        return list(iter_jsonl(path))
    rows = []
    for done, slot in enumerate(slots(split, per_kind), 1):
        scene = scene_of(split, slot)
        row = row_of(split, slot, scene)
        _write_picture(folder / row["image"], scene.image)
        rows.append(row)
        progress(f"{split.name}: scenes", done, total)
    _write_lines(path, rows)
    return rows


def _write_pictures(folder: Path, split: Split, shown: set[str], progress: Progress) -> int:
    names = titles([place for place in split.places if place in shown], split.seed)
    for done, title in enumerate(names, 1):
        path = folder / f"{title}.png"
        if not path.exists():
            _write_picture(path, draw_picture(title, split.seed, split.name))
        progress(f"{split.name}: pictures", done, len(names))
    return len(names)


def _index(folder: Path, progress: Progress) -> None:
    name, search = folder.name, folder / "search"
    index_text(
        [folder / "corpus.jsonl"], search, progress=lambda done, total, _: progress(f"{name}: text index", done, total)
    )
    index_images(
        [folder / "pictures"], search, progress=lambda done, total, _: progress(f"{name}: image index", done, total)
    )


def _write_picture(path: Path, image: Image.Image) -> None:
    if path.exists():
        return
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=6)
    write_atomic(path, buffer.getvalue())


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomic(path, text)


def _refuse_shared_scenes(folder: Path, names: Sequence[str]) -> None:
    """No scene is in two splits, nor twice in one."""
    owner: dict[str, str] = {}
    for name in names:
        for row in iter_jsonl(folder / name / "rows.jsonl"):
            other = owner.setdefault(row["scene_hash"], row["id"])
            if other != row["id"]:
                raise RuntimeError(f"{row['id']} shows the same scene as {other}")
