"""One row of a published data set -> one `Sample`. Stray fields are kept in `extra`; nothing of them is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlagent.data.choices import choices_of
from vlagent.errors import UserError
from vlagent.images import probe
from vlagent.types import CachedImageSearch, ImageRef, Sample

PLACEHOLDER = "<image>"
READ = frozenset({"prompt", "image", "reward_model", "id", "index", "choices"})
SEARCH_COLUMNS = ("image_search_title_list", "image_search_thumbnail_list", "image_search_summary")
LONG_PATH = 255
"""Characters; what is longer and has no suffix was meant as a picture in base64, and is damaged."""
SHOWN = 3
"""Missing pictures named in the message; the rest are counted."""


@dataclass(frozen=True)
class Origin:
    """What the rows of one file have in common."""

    source: str
    root: Path
    """Picture paths are relative to it."""
    file: Path
    system_prompt: str | None = None
    format_instruction: str = ""
    reward_fn: tuple[str, ...] = ()


@dataclass
class Pictures:
    """Finds pictures, each once, and remembers those that cannot be used so that they are reported together."""

    found: dict[Path, ImageRef] = field(default_factory=dict)
    unusable: dict[Path, str] = field(default_factory=dict)

    def find(self, path: Path) -> ImageRef | None:
        if path not in self.found and path not in self.unusable:
            try:
                self.found[path] = probe(path, decode=False)
            except UserError as error:
                self.unusable[path] = str(error)
        return self.found.get(path)

    def check(self) -> None:
        """Raise `UserError` with the first few pictures that cannot be used and their count."""
        if not self.unusable:
            return
        total = len(self.found) + len(self.unusable)
        first = "; ".join(list(self.unusable.values())[:SHOWN])
        more = f"; and {len(self.unusable) - SHOWN} more" if len(self.unusable) > SHOWN else ""
        raise UserError(
            f"{len(self.unusable)} of {total} pictures are missing or unreadable: {first}{more}; "
            "put them there or correct `root`"
        )


def read_row(row: Mapping[str, Any], number: int, origin: Origin, pictures: Pictures) -> Sample | None:
    """A row (`prompt`, `image`, `reward_model`) as a sample; None if a picture is unusable (`pictures` knows why).

    `number` counts from 1. Raises `UserError` that names file, row and key where the row cannot be understood.
    """
    where = f"{origin.file}: row {number}"
    system, content = _prompt(row.get("prompt"), where)
    paths = _paths(row.get("image"), where)
    question = _question(content, len(paths), where)
    images = [pictures.find(origin.root / path) for path in paths]
    if not all(images):
        return None
    answers = _answers(row.get("reward_model"), where)
    choices = _choices(row.get("choices"), where)
    if not choices and "em_score_mcq" in origin.reward_fn:
        choices = choices_of(question, answers)
    extra = {k: v for k, v in row.items() if k not in READ and k not in SEARCH_COLUMNS}
    if origin.reward_fn:
        extra["reward_fn"] = list(origin.reward_fn)
    return Sample(
        id=id_of(row.get("id", row.get("index")), number, origin.source),
        source=origin.source,
        question=question,
        instruction=origin.format_instruction.strip(),
        images=tuple(image for image in images if image),
        answers=answers,
        choices=choices,
        image_search=cached_search(row, origin.root),
        system_prompt=system or origin.system_prompt,
        extra=extra,
    )


def id_of(value: Any, number: int, source: str) -> str:
    """A row's own id; a bare number means something only within its source."""
    if isinstance(value, str) and value.strip() and not value.strip().isdigit():
        return value.strip()
    return f"{source}/{number if value is None or value == '' else value}"


def _prompt(value: Any, where: str) -> tuple[str | None, str]:
    """(system prompt, text of the user message)."""
    if value is None:
        raise UserError(f"{where}: prompt: there is none; a row has a `question`, or a `prompt` as published")
    if isinstance(value, str):
        return None, value
    texts: dict[str, list[str]] = {"system": [], "user": []}
    for message in value if isinstance(value, list) else []:
        if not isinstance(message, dict) or message.get("role") not in texts:
            raise UserError(f"{where}: prompt: messages of role system and user are expected, not {message!r:.80}")
        texts[message["role"]].append(_text(message.get("content")))
    if not any(text.strip() for text in texts["user"]):
        raise UserError(f"{where}: prompt: a user message with text is expected, this is {value!r:.80}")
    return "\n".join(texts["system"]) or None, "\n".join(texts["user"])


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content]
        return "".join(PLACEHOLDER if part.get("type") == "image" else str(part.get("text", "")) for part in parts)
    return content if isinstance(content, str) else ""


def _question(content: str, pictures: int, where: str) -> str:
    """The text without its picture slots; slots within the text become references, since pictures come first."""
    slots = content.count(PLACEHOLDER)
    if slots not in (0, pictures):
        raise UserError(f"{where}: {slots} {PLACEHOLDER} in the prompt but {pictures} pictures in `image`")
    before = re.match(rf"(?:\s*{PLACEHOLDER})*", content)
    start = before.end() if before else 0
    body = re.sub(rf"(?:\s*{PLACEHOLDER})+\s*$", "", content[start:])
    number = content[:start].count(PLACEHOLDER)
    for index in range(number + 1, slots + 1):
        body = body.replace(PLACEHOLDER, f"[picture {index} of {slots}]", 1)
    return body.strip()


def _paths(value: Any, where: str) -> list[str]:
    paths = value if isinstance(value, list) else [] if value in (None, "") else [value]
    for path in paths:
        if not isinstance(path, str) or not path:
            raise UserError(f"{where}: image: a path or a list of paths is expected, this is {value!r:.80}")
        if len(path) > LONG_PATH and "." not in path[-6:]:
            start = f"{path[:40]!r}... ({len(path)} characters)"
            raise UserError(f"{where}: image: {start} is no path, and no whole picture in base64")
    return paths


def _answers(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    truth = value.get("ground_truth") if isinstance(value, dict) else value
    truths = truth if isinstance(truth, list) else [] if truth is None else [truth]
    if not all(isinstance(each, str | int | float) for each in truths):
        raise UserError(f"{where}: ground_truth: a text or a list of texts is expected, this is {truth!r:.80}")
    return tuple(str(each) for each in truths if str(each).strip())


def _choices(value: Any, where: str) -> dict[str, str]:
    if not value:
        return {}
    if not isinstance(value, dict) or not all(len(key) == 1 and key.isalpha() for key in value):
        raise UserError(f"{where}: choices: an object of option letter -> text is expected, this is {value!r:.80}")
    return {key.upper(): str(text) for key, text in value.items()}


def cached_search(row: Mapping[str, Any], root: Path) -> CachedImageSearch | None:
    """The published reverse image search of the row's picture: each title keeps its own thumbnail or none."""
    titles, thumbnails, summary = (row.get(column) for column in SEARCH_COLUMNS)
    if titles is None and thumbnails is None and not summary:
        return None
    named = [str(title) for title in titles] if isinstance(titles, list) else []
    given = thumbnails if isinstance(thumbnails, list) else []
    paths = [_thumbnail(path, root) for path in given[: len(named)]]
    return CachedImageSearch(
        titles=tuple(named),
        thumbnails=tuple(paths + [None] * (len(named) - len(paths))),
        summary=summary if isinstance(summary, str) else "",
    )


def _thumbnail(path: Any, root: Path) -> str | None:
    if not isinstance(path, str) or not path or not (root / path).is_file():
        return None
    return str((root / path).absolute())


def with_unique_ids(samples: Sequence[Sample]) -> list[Sample]:
    """Ids that two sources share get their source in front; a repeat within one source is numbered (`id~2`)."""
    sources: dict[str, set[str]] = {}
    for sample in samples:
        sources.setdefault(sample.id, set()).add(sample.source)
    seen: dict[str, int] = {}
    taken: set[str] = set()
    unique = []
    for sample in samples:
        name = first = f"{sample.source}/{sample.id}" if len(sources[sample.id]) > 1 else sample.id
        while name in taken or (name != first and name in sources):
            seen[first] = seen.get(first, 1) + 1
            name = f"{first}~{seen[first]}"
        taken.add(name)
        unique.append(sample if name == sample.id else sample.model_copy(update={"id": name}))
    return unique
