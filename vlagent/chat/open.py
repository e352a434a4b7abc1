"""A chat model from its name and address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vlagent.chat.base import ChatModel
from vlagent.errors import UserError, first_problem

SCRIPT = "scripted:"


def open_chat(model: str, base_url: str | None = None, **options: Any) -> ChatModel:
    """`scripted:FILE` plays a JSON list of lines; anything else is a model behind an OpenAI-compatible endpoint.

    `options` are the fields of `http.HttpOptions`. Raises `UserError`.
    """
    if not model.strip():
        raise UserError("model: a name is needed")
    if model.startswith(SCRIPT):
        return _scripted(Path(model.removeprefix(SCRIPT)))
    from vlagent.chat.http import HttpChat, HttpOptions

    given = {**options, **({"base_url": base_url} if base_url else {})}
    try:
        return HttpChat(model, HttpOptions.model_validate(given))
    except ValidationError as error:
        known = ", ".join(HttpOptions.model_fields)
        raise UserError(f"model option {first_problem(error).line()}; known are {known}") from None


def _scripted(path: Path) -> ChatModel:
    from vlagent.chat.scripted import Scripted
    from vlagent.files import read_json

    lines = read_json(path)
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise UserError(f"{path}: a JSON list of texts is expected, one a turn")
    return Scripted(lines, name=path.stem)
