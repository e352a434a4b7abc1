"""The page on which people annotate and review, served to this machine only.

Names are given, not proven: whoever can reach the loopback interface is trusted. Other sites are not: a request must
name this host, and one that changes anything must be JSON from this very page.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError

from vlagent import images
from vlagent.curate.bench import book
from vlagent.curate.bench.folder import Bench, checked_name, open_bench
from vlagent.curate.bench.records import Item, Picture, Review, Verdict
from vlagent.errors import ServiceError, UserError, first_problem
from vlagent.files import only_writer
from vlagent.images.stored import stored_jpeg
from vlagent.types import ImageRef

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ASSETS = {"annotate.css": "text/css", "annotate.js": "text/javascript", "box.js": "text/javascript"}
THUMB = 112
"""Pixels of the longer side of a picture in the list."""
POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
Next = Callable[[Request], Awaitable[Response]]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")
    who: str


class NewBody(_Body):
    """A new question."""

    picture: str


class SaveBody(_Body):
    """A save of a question."""

    base: int
    fields: dict[str, Any]


class AnswerBody(_Body):
    """A reviewer's own answer."""

    answer: str


class VerdictBody(_Body):
    """A reviewer's or an expert's verdict."""

    verdict: Verdict
    why: str = ""


def make_app(bench: Bench, port: int) -> FastAPI:
    """The page and what it asks for."""
    app = FastAPI(title="annotate", docs_url=None, redoc_url=None, openapi_url=None)
    app.middleware("http")(_guarded(port))
    app.get("/")(lambda: _asset("annotate.html", "text/html"))
    app.get("/assets/{name}")(lambda name: _asset(name, ASSETS[name]) if name in ASSETS else Response(status_code=404))
    app.get("/pictures/{name}")(lambda name, small="": _picture(bench, name, small=bool(small)))
    _routes(app, bench)
    for kind in (UserError, ServiceError, ValidationError):
        app.exception_handler(kind)(_refused)
    return app


def _routes(app: FastAPI, bench: Bench) -> None:
    """What reads and changes the folder. Functions without `async` run in threads, one at a time where they write."""
    lock = threading.Lock()

    def writing(change: Callable[[], BaseModel]) -> dict[str, Any]:
        with lock:
            return _shown(change())

    app.get("/api/state")(lambda who: state(bench, checked_name(who)))
    app.get("/api/items/{name}/history")(lambda name, who: _history(bench, checked_name(who), name))

    @app.post("/api/items")
    def create(body: NewBody) -> dict[str, Any]:
        return writing(lambda: book.create(bench, body.who, body.picture))

    @app.put("/api/items/{name}")
    def save(name: str, body: SaveBody) -> dict[str, Any]:
        return writing(lambda: book.save(bench, body.who, name, body.base, body.fields))

    @app.post("/api/items/{name}/answer")
    def answer(name: str, body: AnswerBody) -> dict[str, Any]:
        given = writing(lambda: book.answer_blind(bench, body.who, name, body.answer))
        return {"review": given, "item": _shown(bench.items()[name])}

    @app.post("/api/items/{name}/verdict")
    def verdict(name: str, body: VerdictBody) -> dict[str, Any]:
        return writing(lambda: book.review(bench, body.who, name, body.verdict, body.why))


def state(bench: Bench, who: str) -> dict[str, Any]:
    """All that one person may see: own questions whole; of others' only what a blind review needs."""
    config, items, reviews = bench.config, bench.items(), bench.reviews()
    where = {name: book.standing(item, reviews[name], config) for name, item in items.items()}
    pictures = bench.usable()
    return {
        "bench": {
            "name": config.name,
            "domains": config.domains,
            "tools": config.tools,
            "object_share": config.object_share,
            "reviews": config.reviews,
        },
        "pictures": [_about(each) for each in pictures.values()],
        "own": [
            {
                **_shown(each),
                "standing": where[name],
                "reviews": [_shown(said) for said in reviews[name] if said.verdict],
            }
            for name, each in items.items()
            if each.author == who and each.picture in pictures
        ],
        "others": {name: sum(i.picture == name and i.author != who for i in items.values()) for name in pictures},
        "review": [
            _blind(each, reviews[name], who) for name, each in items.items() if _to_review(each, where[name], who)
        ],
        "disputes": [
            {**_shown(each), "reviews": [_shown(said) for said in reviews[name] if said.verdict]}
            for name, each in items.items()
            if where[name] == "disputed" and who not in {each.author, *(said.reviewer for said in reviews[name])}
        ],
    }


def _about(picture: Picture) -> dict[str, Any]:
    return picture.model_dump(include={"id", "width", "height", "title", "date", "licence", "page"})


def _to_review(item: Item, where: str, who: str) -> bool:
    return item.author != who and where in ("waiting", "agreed", "disputed")


def _blind(item: Item, reviews: list[Review], who: str) -> dict[str, Any]:
    """A question as its reviewer sees it: nothing of the answers before the own one is given."""
    mine = next((each for each in reviews if each.reviewer == who), None)
    shown = {"id": item.id, "picture": item.picture, "question": item.question, "author": item.author}
    if mine is None:
        return {**shown, "review": None, "item": None}
    return {**shown, "review": _shown(mine), "item": _shown(item)}


def _history(bench: Bench, who: str, name: str) -> list[dict[str, Any]]:
    return [_shown(each) for each in bench.history(who) if each.id == name]


def _shown(record: BaseModel) -> dict[str, Any]:
    return record.model_dump(mode="json")


def _guarded(port: int) -> Callable[[Request, Next], Awaitable[Response]]:
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def guard(request: Request, call_next: Next) -> Response:
        if request.headers.get("host", "") not in hosts:
            return JSONResponse({"error": "this page answers to this machine only"}, 403)
        if request.method not in ("GET", "HEAD"):
            origin = request.headers.get("origin", "")
            is_json = request.headers.get("content-type", "").split(";")[0].strip() == "application/json"
            if not is_json or origin.partition("://")[2] not in hosts:
                return JSONResponse({"error": "only this page may change anything"}, 403)
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    return guard


async def _refused(_: Request, error: Exception) -> Response:
    status = 409 if isinstance(error, book.Stale) else 503 if isinstance(error, ServiceError) else 422
    said = first_problem(error).said if isinstance(error, ValidationError) else str(error)
    return JSONResponse({"error": said}, status)


def _asset(name: str, kind: str) -> Response:
    text = (files("vlagent.curate.bench") / "templates" / name).read_text(encoding="utf-8")
    return Response(text, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "no-cache"})


def _picture(bench: Bench, name: str, *, small: bool) -> Response:
    found = bench.pictures().get(name)
    if found is None:
        return Response(status_code=404)
    data = _thumbnail(bench.ref(found)) if small else _bytes(bench.ref(found))
    return Response(data, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=86400"})


@lru_cache(maxsize=16)
def _bytes(ref: ImageRef) -> bytes:
    """The upright picture at full resolution as JPEG, which every browser shows."""
    return stored_jpeg(ref, (ref.width, ref.height)) or images.encode(images.load(ref), "JPEG")


@lru_cache(maxsize=1024)
def _thumbnail(ref: ImageRef) -> bytes:
    scale = min(1.0, THUMB / max(ref.width, ref.height))
    size = max(1, round(ref.width * scale)), max(1, round(ref.height * scale))
    return images.encode(images.load(ref, size), "JPEG")


def serve(bench: Bench, host: str = "127.0.0.1", port: int = 8765, ready: Callable[[str], None] = print) -> None:
    """Serve until Ctrl-C. `ready` is told the address. Raises `UserError` for an address that others can reach."""
    import uvicorn

    open_bench(bench.folder)
    if host not in LOOPBACK:
        raise UserError(f"--host {host}: the page has no passwords and is for this machine; use an SSH tunnel instead")
    with only_writer(bench.folder / "annotations"):
        listening = _bound(host, port)
        port = listening.getsockname()[1]
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
        config = uvicorn.Config(make_app(bench, port), log_level="warning", access_log=False, server_header=False)
        with suppress(KeyboardInterrupt):  # uvicorn raises anew what it was stopped by
            uvicorn.Server(config).run(sockets=[listening])


def _bound(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port}: a number from 0 to 65535 is expected")
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UserError(f"--port {port}: {(error.strerror or str(error)).lower()}") from None
    listening.listen(128)
    return listening
