"""Models by the name that a user types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlagent.chat.base import ChatModel
from vlagent.errors import UserError
from vlagent.types import Sample


def open_model(
    name: str | None,
    base_url: str | None = None,
    *,
    samples: Sequence[Sample] = (),
    dialect: str = "default",
    **options: Any,
) -> ChatModel:
    """A model by name: `toy:oracle`, `toy:random`, `toy:direct`, or what an OpenAI-compatible endpoint serves.

    Without a name it is the one model that the endpoint serves. A toy policy plays the rows of a toy world and is given
    them (`samples`) and the dialect to write in. `options` go to `chat.open.open_chat`. Raises `UserError` where
    neither a model nor an endpoint is named.
    """
    if name and name.startswith("toy:"):
        return _toy_policy(name, samples, dialect)
    if not name and not base_url:
        raise UserError(
            "no model: pass --base-url URL and --model NAME of an OpenAI-compatible endpoint "
            "(a local server such as vLLM, or a provider; its key comes from the environment)"
        )
    from vlagent.chat.open import open_chat

    return open_chat(name or _only_model(base_url), base_url, **options)


def _only_model(base_url: str | None) -> str:
    from vlagent.cli.endpoint import only_model

    assert base_url
    return only_model(base_url)


def _toy_policy(name: str, samples: Sequence[Sample], dialect: str) -> ChatModel:
    from vlagent.toy.policies import POLICIES

    if name not in POLICIES:
        raise UserError(f"model {name!r}: there are {', '.join(POLICIES)}")
    if not samples:
        raise UserError(
            f"model {name!r} plays only the rows of a toy world: vlagent eval DIR/manifest.json --model {name}"
        )
    return POLICIES[name](samples, dialect)
