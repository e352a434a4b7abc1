"""What an OpenAI-compatible endpoint serves: its `GET /models`."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from vlagent.chat.keys import OPENAI_NAMES, KeyAuth, key_from_environment, refuse_keys
from vlagent.errors import PermanentError, TransientError, UserError

TIMEOUT_S = 10.0


def served_models(base_url: str) -> list[str]:
    """The names that the endpoint lists.

    Raises `UserError` for an address that is none, `TransientError` where nobody answers and `PermanentError` where
    the answer is no list.
    """
    refuse_keys(base_url)
    try:
        url = httpx.URL(base_url.rstrip("/").removesuffix("/chat/completions") + "/models")
    except httpx.InvalidURL as error:
        raise UserError(f"--base-url {base_url!r}: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UserError(f"--base-url {base_url!r}: write it as http://HOST:PORT/v1 or https://HOST/v1")
    if "api-version" in base_url:
        raise UserError("--model is needed: the name of the Azure deployment")
    service = f"endpoint {urlsplit(base_url).netloc}"
    auth = KeyAuth(key_from_environment(OPENAI_NAMES), "Authorization")
    try:
        answer = httpx.get(url, auth=auth, timeout=TIMEOUT_S, trust_env=False)
    except httpx.HTTPError as error:
        raise TransientError(service, f"cannot connect ({type(error).__name__})") from None
    if answer.status_code != 200:
        raise PermanentError(service, f"HTTP {answer.status_code} for /models")
    try:
        return [str(model["id"]) for model in answer.json()["data"]]
    except (ValueError, KeyError, TypeError):
        raise PermanentError(service, "its /models is no list of models") from None


def only_model(base_url: str) -> str:
    """The name of the one model that the endpoint serves; `UserError` names them where there are more."""
    names = served_models(base_url)
    if len(names) == 1:
        return names[0]
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    raise UserError(f"--model is needed: the endpoint serves {shown or 'no model'}")
