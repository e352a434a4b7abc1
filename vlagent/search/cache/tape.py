"""Record every upstream answer, and play it back with the network cut.

A folder with `tape.jsonl` (a line an answer: kind, key, request, outcome) and `pictures/`. Failures are answers
too: what failed and then went well does so again. Requests hold no keys, so neither does a recording. Recording goes
on in a folder that holds one (a run that was stopped): what is asked again replaces what it was answered before.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from vlagent import errors
from vlagent.errors import PermanentError, ServiceError, UserError
from vlagent.files import append_jsonl, iter_jsonl, write_atomic
from vlagent.types import Hit, ImageRef

T = TypeVar("T")
Mode = Literal["record", "replay"]
VERSION = 1
_ERRORS: dict[str, type[ServiceError]] = {
    kind.__name__: kind
    for kind in (
        errors.TransientError,
        errors.RateLimitedError,
        errors.AuthError,
        errors.QuotaError,
        errors.PermanentError,
        errors.ContentFilterError,
        errors.ServiceError,
    )
}


class Tape:
    """A recording that is being made, or played."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        """Raises `UserError` where there is nothing to play, or the recording is of another version."""
        self.folder, self.mode = folder, mode
        self._file = folder / "tape.jsonl"
        self._outcomes: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self._played: dict[tuple[str, str], int] = {}
        self._session, self._sessions = secrets.token_hex(4), dict[tuple[str, str], str]()
        if folder.exists() and not folder.is_dir():
            raise UserError(f"--{mode} {folder}: this is a file; name a folder")
        if mode == "replay" and not self._file.exists():
            raise UserError(f"--replay {folder}: no recording there; make one with --record {folder}")
        if self._file.exists():
            self._load()

    async def through(self, kind: str, request: str, make: Callable[[], Awaitable[T]], adapter: TypeAdapter[T]) -> T:
        """The answer of `make()`, recorded; or, without calling it, the one that was. Raises what was raised."""
        key = hashlib.sha256(request.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if self.mode == "record":
            outcome = await _outcome(make, adapter)
            self._keep(kind, key, request, outcome)
        else:
            outcome = self._next(kind, key, request)
        if "error" in outcome:
            raise _error(outcome["error"])
        return adapter.validate_python(outcome["value"])

    def picture(self, ref: ImageRef) -> ImageRef:
        """The picture as it lies in the recording, whose path is the same when it is played."""
        source = Path(ref.path)
        if source.parent == self.folder / "pictures":
            return ref
        path = self.folder / "pictures" / f"{_digest(source)[:24]}{source.suffix}"
        if not path.exists():
            write_atomic(path, source.read_bytes())
        return ref.model_copy(update={"path": str(path)})

    def hits(self, hits: list[Hit]) -> list[Hit]:
        """Hits with their thumbnails in the recording."""
        return [
            hit.model_copy(update={"thumbnail": self.picture(hit.thumbnail)}) if hit.thumbnail else hit for hit in hits
        ]

    def _load(self) -> None:
        for number, line in enumerate(iter_jsonl(self._file, ours=True), 1):
            if line.get("version") != VERSION:
                raise UserError(f"{self._file}:{number}: made by another release; record again")
            try:
                place, outcome = (line["kind"], line["key"]), line["outcome"]
            except KeyError as error:
                raise UserError(f"{self._file}:{number}: no line of a recording ({error} is missing)") from None
            self._of(place, line.get("session", "")).append(outcome)

    def _of(self, place: tuple[str, str], session: str) -> list[dict[str, Any]]:
        """The outcomes of one request. A run that asks it anew starts them anew: the older ones are not its own."""
        if self._sessions.get(place, session) != session:
            self._outcomes[place] = []
        self._sessions[place] = session
        return self._outcomes.setdefault(place, [])

    def _keep(self, kind: str, key: str, request: str, outcome: dict[str, Any]) -> None:
        """An answer that repeats the last one for this request is there already."""
        known = self._of((kind, key), self._session)
        if known and known[-1] == outcome:
            return
        known.append(outcome)
        line = {"version": VERSION, "session": self._session, "kind": kind, "key": key}
        line |= {"request": request[:500], "outcome": outcome}
        append_jsonl(self._file, line)

    def _next(self, kind: str, key: str, request: str) -> dict[str, Any]:
        """In the order of the recording; the last one stays."""
        known = self._outcomes.get((kind, key))
        if not known:
            shown = " ".join(request.split())[:120]
            raise PermanentError(
                f"replay of {self.folder}", f"no {kind} was recorded for {shown} (another configuration?)"
            )
        at = self._played.get((kind, key), 0)
        self._played[kind, key] = at + 1
        return known[min(at, len(known) - 1)]


async def _outcome(make: Callable[[], Awaitable[T]], adapter: TypeAdapter[T]) -> dict[str, Any]:
    try:
        value = await make()
    except ServiceError as error:
        kind = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _ERRORS)
        message = str(error).removeprefix(f"{error.service}: ")
        fields = {"kind": kind, "service": error.service, "message": message}
        return {"error": fields | {"retry_after_s": error.retry_after_s}}
    dumped = adapter.dump_json(value)
    return {"value": json.loads(dumped)}


def _error(fields: dict[str, Any]) -> ServiceError:
    try:
        kind = _ERRORS[fields["kind"]]
        return kind(fields["service"], fields["message"], retry_after_s=fields["retry_after_s"])
    except (KeyError, ValidationError) as error:
        raise UserError(f"the recording holds an error that is not known ({error}); record again") from None


_digests: dict[tuple[str, int, int], str] = {}


def _digest(path: Path) -> str:
    state = path.stat()
    place = (str(path), state.st_mtime_ns, state.st_size)
    if place not in _digests:
        with path.open("rb") as file:
            _digests[place] = hashlib.file_digest(file, "sha256").hexdigest()
    return _digests[place]


def picture_key(ref: ImageRef) -> str:
    """A picture by its content and region, wherever the file lies."""
    try:
        return f"{_digest(Path(ref.path))}{list(ref.box) if ref.box else ''}"
    except OSError as error:
        raise PermanentError("image search", f"{Path(ref.path).name}: {error.strerror}") from error
