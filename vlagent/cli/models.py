"""Models by the name that a user types."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from vlagent.chat.base import ChatModel
from vlagent.cli.shipped import default_model, has_torch, is_local, open_checkpoint
from vlagent.errors import UserError
from vlagent.render.dialects import get_dialect
from vlagent.types import Sample

WORKFLOWS = ("direct", "rag", "agent")
MODEL_HELP = "name that the endpoint knows it by; local:FOLDER; shipped:NAME (default: what the endpoint serves)"
WORKFLOW_HELP = "answer at once, search once and answer, or call tools in turns (default: agent)"

NO_MODEL = (
    "no model: pass --base-url URL and --model NAME of an OpenAI-compatible endpoint (a local server such as vLLM, or "
    "a provider; its key comes from the environment)"
)


def name_or_default(name: str | None, base_url: str | None) -> str | None:
    """The name given, or the shipped model where neither a model nor an endpoint is; says so on stderr."""
    if is_local(name) and base_url:
        raise UserError(f"--base-url {base_url}: model {name!r} runs in this process; give one of the two")
    if name or base_url:
        return name
    default = default_model()
    if default is None:
        hint = "" if has_torch() else "; or install the shipped tiny model's engine: pip install 'vlagent[train]'"
        raise UserError(NO_MODEL + hint)
    print(
        f"vlagent: no --model: using {default}, a tiny model that knows the toy world only; "
        "for anything else give --model and --base-url",
        file=sys.stderr,
    )
    return default


def open_model(
    name: str | None,
    base_url: str | None = None,
    *,
    samples: Sequence[Sample] = (),
    dialect: str = "default",
    **options: Any,
) -> ChatModel:
    """A model by name.

    `toy:oracle`, `toy:random`, `toy:direct` play the rows of a toy world and are given them (`samples`) and the dialect
    to write in; `shipped:NAME` and `local:FOLDER` are checkpoints in this process; any other name is what an
    OpenAI-compatible endpoint serves. Without a name it is the one model that the endpoint serves. `options` go to
    `chat.open.open_chat`. Raises `UserError` where neither a model nor an endpoint is named.
    """
    if name and name.startswith("toy:"):
        return _toy_policy(name, samples, dialect)
    if is_local(name):
        if get_dialect(dialect).native:
            raise UserError(f"model {name!r} runs in this process, without native tool calls; use a text dialect")
        return open_checkpoint(str(name))
    if not name and not base_url:
        raise UserError(NO_MODEL)
    from vlagent.chat.open import open_chat

    return open_chat(name or _only_model(base_url), base_url, **options)


async def close_model(model: ChatModel) -> None:
    """Release what a model holds: connections, or the engine's thread."""
    if (aclose := getattr(model, "aclose", None)) is not None:
        await aclose()
    elif (close := getattr(model, "close", None)) is not None:
        close()


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
