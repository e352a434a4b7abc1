"""Conversations in the forms that other trainers read, and back: what was written can be read and compared.

TRL: a column `messages` of [{role, content: [{type: text | image, text}]}] and a column `images`, as
`DataCollatorForVisionLanguageModeling` of TRL 1.16 takes them. `datasets`: the same columns in parquet, with the
pictures inside.
LLaMA-Factory: the sharegpt form of its data/README.md (`conversations` of {from, value} in which human and gpt take
turns, `system`, `images`; as many `<image>` as pictures) with its `dataset_info.json`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from vlagent.data.tables import read_parquet
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_json, write_atomic, write_json

Role = Literal["system", "user", "assistant"]
SLOT = "<image>"
SHARD = 256
"""Conversations of one parquet file."""
PLACEHOLDER = re.compile(r"<(?=(?:image|video|audio)>)")
"""LLaMA-Factory takes these words for media wherever they stand."""
LOOK_ALIKE = "‹"
SPEAKERS: dict[Role, str] = {"user": "human", "assistant": "gpt"}
INSTALL = "the form datasets needs the package datasets: pip install 'datasets>=3.0'"


@dataclass(frozen=True)
class Said:
    """One message: texts and pictures in their order, a picture as its path below the folder."""

    role: Role
    parts: tuple[str | Path, ...]

    @property
    def pictures(self) -> list[Path]:
        return [part for part in self.parts if isinstance(part, Path)]


@dataclass(frozen=True)
class Conversation:
    """One episode in messages."""

    id: str
    source: str
    messages: tuple[Said, ...]

    @property
    def pictures(self) -> list[Path]:
        return [path for said in self.messages for path in said.pictures]


def write_forms(out: Path, talks: Sequence[Conversation], forms: Sequence[str], name: str) -> int:
    """Write the forms; returns how many texts had to be changed (a model's own word `<image>` in the sharegpt form)."""
    return sum(FORMS[form][0](out, talks, name) for form in sorted(forms))


def read_form(out: Path, form: str) -> Iterator[Conversation]:
    """The conversations of a form that was written, in their order. Raises `UserError` where there are none."""
    if form not in FORMS:
        raise UserError(f"form {form!r}: there are {', '.join(FORMS)}")
    yield from FORMS[form][1](out)


def _write_trl(out: Path, talks: Sequence[Conversation], _: str) -> int:
    lines = (json.dumps(_columns(talk) | {"images": _texts(talk.pictures)}, ensure_ascii=False) for talk in talks)
    write_atomic(out / "trl.jsonl", "".join(line + "\n" for line in lines))
    return 0


def _columns(talk: Conversation) -> dict[str, Any]:
    messages = [{"role": said.role, "content": [_part(part) for part in said.parts]} for said in talk.messages]
    return {"id": talk.id, "source": talk.source, "messages": messages}


def _part(part: str | Path) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "text": None}


def _texts(paths: Sequence[Path]) -> list[str]:
    return [path.as_posix() for path in paths]


def _read_trl(out: Path) -> Iterator[Conversation]:
    for row in iter_jsonl(out / "trl.jsonl"):
        yield _from_columns(row, [Path(path) for path in row["images"]])


def _from_columns(row: dict[str, Any], pictures: Sequence[Path]) -> Conversation:
    waiting = iter(pictures)
    messages = tuple(
        Said(
            message["role"],
            tuple(next(waiting) if part["type"] == "image" else str(part["text"]) for part in message["content"]),
        )
        for message in row["messages"]
    )
    return Conversation(row["id"], row["source"], messages)


def _write_sharegpt(out: Path, talks: Sequence[Conversation], name: str) -> int:
    rows, altered = [], 0
    for talk in talks:
        system, turns = "", []
        for said in talk.messages:
            text, changed = _value(said)
            altered += changed
            if said.role == "system":
                system = text
            else:
                turns.append({"from": SPEAKERS[said.role], "value": text})
        row = {"id": talk.id, "source": talk.source, "conversations": turns, "images": _texts(talk.pictures)}
        rows.append({**row, "system": system})
    write_json(out / "sharegpt.json", rows)
    columns = {"messages": "conversations", "system": "system", "images": "images"}
    entry = {"file_name": "sharegpt.json", "formatting": "sharegpt", "columns": columns}
    write_json(out / "dataset_info.json", {name: entry})
    return altered


def _value(said: Said) -> tuple[str, bool]:
    texts = [part if isinstance(part, str) else None for part in said.parts]
    safe = [None if text is None else PLACEHOLDER.sub(LOOK_ALIKE, text) for text in texts]
    return "".join(SLOT if text is None else text for text in safe), safe != texts


def _read_sharegpt(out: Path) -> Iterator[Conversation]:
    roles = {speaker: role for role, speaker in SPEAKERS.items()}
    for row in read_json(out / "sharegpt.json"):
        waiting = iter(row["images"])
        system = [Said("system", (row["system"],))] if row["system"] else []
        turns = [Said(roles[turn["from"]], _slots(turn["value"], waiting)) for turn in row["conversations"]]
        yield Conversation(row["id"], row["source"], tuple(system + turns))


def _slots(value: str, waiting: Iterator[str]) -> tuple[str | Path, ...]:
    parts = re.split(f"({SLOT})", value)
    return tuple(Path(next(waiting)) if part == SLOT else part for part in parts if part)


def _write_datasets(out: Path, talks: Sequence[Conversation], _: str) -> int:
    datasets = _datasets()
    text = datasets.Value("string")
    features = datasets.Features(
        {
            "id": text,
            "source": text,
            "messages": [{"role": text, "content": [{"type": text, "text": text}]}],
            "images": datasets.Sequence(datasets.Image()),
        }
    )
    shards = max(1, -(-len(talks) // SHARD))
    datasets.disable_progress_bars()  # it would draw one a file
    for number in range(shards):
        part = talks[number * SHARD : (number + 1) * SHARD]
        rows = [_columns(talk) | {"images": [_inside(out, path) for path in talk.pictures]} for talk in part]
        path = out / "data" / f"train-{number:05d}-of-{shards:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_list(rows, features=features).to_parquet(str(path))
    return 0


def _inside(out: Path, path: Path) -> dict[str, Any]:
    return {"bytes": (out / path).read_bytes(), "path": path.name}


def _read_datasets(out: Path) -> Iterator[Conversation]:
    files = sorted((out / "data").glob("train-*.parquet"))
    if not files:
        raise UserError(f"{out / 'data'}: holds no train-*.parquet")
    for file in files:
        for row in read_parquet(file):
            yield _from_columns(row, [Path("images") / cell["path"] for cell in row["images"]])


def _datasets() -> ModuleType:
    try:
        return importlib.import_module("datasets")
    except ImportError:
        raise UserError(INSTALL) from None


FORMS: dict[
    str,
    tuple[Callable[[Path, Sequence[Conversation], str], int], Callable[[Path], Iterator[Conversation]]],
] = {
    "trl": (_write_trl, _read_trl),
    "sharegpt": (_write_sharegpt, _read_sharegpt),
    "datasets": (_write_datasets, _read_datasets),
}
"""Name -> what writes it, and what reads it back."""
