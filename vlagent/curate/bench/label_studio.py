"""Label Studio's JSON, both ways. Format as documented at labelstud.io/guide/export and /tags/rectanglelabels:
boxes in percent of the picture, one task a picture, one annotation a question.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import quoteattr

from vlagent.curate.bench.config import BenchConfig
from vlagent.curate.bench.folder import Bench, now, question_name
from vlagent.curate.bench.records import Item, Picture
from vlagent.errors import UserError
from vlagent.files import read_json, write_atomic
from vlagent.types import Box

TEXTS = ("question", "answers", "evidence", "notes")
CHOICES = {"domain": "domain", "tools": "tools"}
LABEL = "object"


def interface(config: BenchConfig) -> str:
    """The labelling configuration that the tasks are made for."""
    choices = {
        "domain": ("single-radio", config.domains),
        "tools": ("multiple", config.tools),
    }
    lines = ["<View>", '  <Image name="image" value="$image" zoom="true"/>']
    lines.append(f'  <RectangleLabels name="box" toName="image"><Label value="{LABEL}"/></RectangleLabels>')
    for name in TEXTS:
        lines.append(f'  <Header value="{name}"/>')
        many = ' maxSubmissions="1"' if name in ("question", "notes") else ""
        lines.append(f'  <TextArea name="{name}" toName="image"{many}/>')
    for name, (kind, values) in choices.items():
        inner = "".join(f"<Choice value={quoteattr(value)}/>" for value in values)
        lines.append(f'  <Header value="{name}"/>')
        lines.append(f'  <Choices name="{name}" toName="image" choice="{kind}">{inner}</Choices>')
    return "\n".join([*lines, "</View>", ""])


def export_tasks(bench: Bench, out: Path, root: str = "/data/local-files/?d=") -> int:
    """Write every picture with its questions as tasks, and the labelling configuration beside them as `.xml`.

    `root` goes before each picture's path: that of Label Studio's local storage, or an address. Returns the questions.
    Raises `UserError` for a name that the configuration needs.
    """
    if out.suffix == ".xml":
        raise UserError(f"{out}: the configuration goes there; give the tasks a name that ends in .json")
    items = bench.items()
    tasks = [
        _task(number, picture, [item for item in items.values() if item.picture == picture.id], root)
        for number, picture in enumerate(bench.usable().values(), 1)
    ]
    write_atomic(out, json.dumps(tasks, indent=1, ensure_ascii=False) + "\n")
    write_atomic(out.with_suffix(".xml"), interface(bench.config))
    return sum(len(task["annotations"]) for task in tasks)


def _task(number: int, picture: Picture, items: Sequence[Item], root: str) -> dict[str, Any]:
    data = {"image": root + picture.file, "picture": picture.id, "title": picture.title, "date": picture.date}
    annotations = [
        {
            "id": number * 1000 + index,
            "unique_id": item.id,
            "completed_by": {"email": item.author},
            "was_cancelled": False,
            "ground_truth": item.state == "done",
            "result": list(_results(item, picture)),
        }
        for index, item in enumerate(items)
    ]
    return {"id": number, "data": data, "annotations": annotations, "predictions": []}


def _results(item: Item, picture: Picture) -> Iterator[dict[str, Any]]:
    if item.box:
        left, top, right, bottom = item.box
        value = {
            "x": 100 * left / picture.width,
            "y": 100 * top / picture.height,
            "width": 100 * (right - left) / picture.width,
            "height": 100 * (bottom - top) / picture.height,
            "rotation": 0,
            "rectanglelabels": [LABEL],
        }
        size = {"original_width": picture.width, "original_height": picture.height, "image_rotation": 0}
        yield {**_result("box", "rectanglelabels", value, item), **size}
    for name in TEXTS:
        said = getattr(item, name)
        texts = list(said) if isinstance(said, tuple) else [said] if said else []
        if texts:
            yield _result(name, "textarea", {"text": texts}, item)
    for name, chosen in {"domain": [item.domain] if item.domain else [], "tools": list(item.tools)}.items():
        if chosen:
            yield _result(name, "choices", {"choices": chosen}, item)


def _result(name: str, kind: str, value: dict[str, Any], item: Item) -> dict[str, Any]:
    return {
        "id": f"{item.id}-{name}",
        "from_name": name,
        "to_name": "image",
        "type": kind,
        "origin": "manual",
        "value": value,
    }


def read_tasks(bench: Bench, path: Path) -> tuple[list[Item], list[str]]:
    """(questions, what was left out and why) of an export of Label Studio (JSON, not JSON-MIN).

    A task belongs to the picture that `data.picture` names, else to that whose file bears the name of `data.image`.
    Questions come as drafts: finish them on the page, where the rules are checked. A turned box, or another shape, is
    not taken: it is to be drawn anew. Raises `UserError`.
    """
    tasks = read_json(path)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise UserError(f"{path}: a JSON list of tasks is expected (Label Studio's export JSON)")
    items, left_out, pictures = [], [], bench.pictures().values()
    for number, task in enumerate(tasks, 1):
        picture = _picture_of(task, pictures)
        if picture is None:
            left_out.append(f"task {task.get('id', number)}: none of our pictures ({_image(task) or 'no image'})")
            continue
        for index, value in enumerate(_listed(task.get("annotations")), 1):
            try:
                annotation = _table(value, "the annotation")
                if not annotation.get("was_cancelled"):
                    items.append(_item(annotation, picture, index))
            except UserError as error:
                left_out.append(f"task {task.get('id', number)}, annotation {index}: {error}")
    return items, left_out


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{what}: an object is expected, this is {value!r:.60}")
    return value


def _image(task: dict[str, Any]) -> str:
    data = task.get("data")
    return str(data.get("image", "")) if isinstance(data, dict) else ""


def _picture_of(task: dict[str, Any], pictures: Iterable[Picture]) -> Picture | None:
    data = task.get("data") if isinstance(task.get("data"), dict) else {}
    address = urlsplit(_image(task))
    path = (parse_qs(address.query).get("d") or [unquote(address.path)])[0]
    names = {Path(path).name, Path(path).name.partition("-")[2]}  # an upload gets a prefix: 8 letters and a dash
    for picture in pictures:
        if picture.id == (data or {}).get("picture"):
            return picture
        if Path(picture.file).name in names or Path(picture.source).name in names:
            return picture
    return None


def _item(annotation: dict[str, Any], picture: Picture, index: int) -> Item:
    found: dict[str, Any] = {}
    for each in _listed(annotation.get("result")):
        result = _table(each, "a result")
        name = result.get("from_name")
        value = _table(result.get("value") or {}, f"{name}: its value")
        if result.get("type") in ("rectanglelabels", "rectangle") and "x" in value and not value.get("rotation"):
            found["box"] = _box(value, picture)
        elif name in ("answers", "evidence"):
            found[name] = tuple(str(text) for text in _listed(value.get("text")))
        elif name in ("question", "notes"):
            found[name] = "\n".join(str(text) for text in _listed(value.get("text")))
        elif name == "domain" and value.get("choices"):
            found["domain"] = str(_listed(value["choices"])[0])
        elif name == "tools":
            found["tools"] = tuple(str(choice) for choice in _listed(value.get("choices")))
    name = question_name(str(annotation.get("unique_id") or f"{picture.id[:8]}-ls{annotation.get('id', index)}"))
    return Item(id=name, picture=picture.id, author=_author(annotation), revision=1, saved_at=now(), **found)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _box(value: dict[str, Any], picture: Picture) -> Box:
    """In pixels, cut at the edge of the picture."""
    sides = [value.get(name) for name in ("x", "y", "width", "height")]
    if not all(is_number(side) for side in sides):
        raise UserError(f"box: four numbers in percent are expected, these are {sides}")
    x, y, width, height = (min(1e4, max(-1e4, side)) / 100 for side in sides if is_number(side))
    left, top = max(0, round(x * picture.width)), max(0, round(y * picture.height))
    right = min(picture.width, max(left + 1, round((x + width) * picture.width)))
    bottom = min(picture.height, max(top + 1, round((y + height) * picture.height)))
    if width <= 0 or height <= 0 or x + width <= 0 or y + height <= 0 or left >= right or top >= bottom:
        raise UserError(f"box: {sides} percent cover nothing of the picture")
    return left, top, right, bottom


def is_number(value: Any) -> TypeGuard[float]:
    """JSON as Python reads it knows NaN and Infinity."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _author(annotation: dict[str, Any]) -> str:
    """Who made it, as a name that can be a file's."""
    who = annotation.get("completed_by")
    said = (who.get("email") or who.get("id") or "") if isinstance(who, dict) else who or ""
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in str(said)).strip("-")[:40]
    return name or "label-studio"
