"""The routes. `POST /search` and `POST /retrieve` keep to contracts that users' code calls already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, SecretStr

from vlagent.errors import ServiceError, UserError
from vlagent.search.base import TextQuery
from vlagent.search.retrieval import retrieve
from vlagent.search.server.access import Access, App
from vlagent.search.server.bodies import (
    ImageBody,
    Refused,
    RetrieveBody,
    SearchBody,
    answer,
    failed,
    json_response,
    read_body,
)
from vlagent.search.server.desk import Desk
from vlagent.search.server.health import Health
from vlagent.search.server.metrics import Metrics
from vlagent.search.server.pictures import search_picture
from vlagent.search.server.recent import Recent
from vlagent.version import VERSION

TOP_K = 5
"""Results behind a summary where the caller names no number, as in the published set-up."""
BLOCK = 64
"""Queries of one request that are looked up in one go."""
PATHS = frozenset({"/search", "/retrieve", "/image_search", "/health", "/stats", "/metrics"})
Handler = Callable[[Request], Awaitable[Response]]


def make_app(desk: Desk, *, service: str = "vlagent search", key: SecretStr | None = None) -> App:
    """The application over a desk, which it closes when it ends."""
    health = Health(desk, service)
    metrics = Metrics(health.readings)
    app = FastAPI(title=service, version=VERSION, lifespan=_closing(desk))
    routes = _Routes(desk, health, metrics)
    answers: list[tuple[str, Handler, type[BaseModel]]] = []
    if desk.has_web or desk.has_local:
        answers.append(("/search", routes.search, SearchBody))
    if desk.passages is not None:
        answers.append(("/retrieve", routes.retrieve, RetrieveBody))
    if desk.images is not None:
        answers.append(("/image_search", routes.image_search, ImageBody))
    for path, handler, kind in answers:
        schema = {"requestBody": {"content": {"application/json": {"schema": kind.model_json_schema()}}}}
        app.add_api_route(path, _typed(handler, desk), methods=["POST"], openapi_extra=schema)
    for path, handler in (("/health", routes.health), ("/stats", routes.stats), ("/metrics", routes.metrics)):
        app.add_api_route(path, handler, methods=["GET"])
    return Access(Recent(app, desk.options.deadline_s), metrics, key, PATHS)


def _closing(desk: Desk) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await desk.aclose()

    return lifespan


def _typed(handler: Handler, desk: Desk) -> Handler:
    """The boundary where errors become answers: each kind by its name, within the deadline."""

    async def handle(request: Request) -> Response:
        try:
            async with asyncio.timeout(desk.options.deadline_s):
                return await handler(request)
        except (Refused, UserError, ServiceError, TimeoutError) as error:
            service = error.service if isinstance(error, ServiceError) else ""
            request.scope["noted"].fields.update(
                error=type(error).__name__, **({"service": service} if service else {})
            )
            return failed(error)

    return handle


class _Routes:
    def __init__(self, desk: Desk, health: Health, metrics: Metrics) -> None:
        self._desk, self._health, self._metrics = desk, health, metrics

    async def search(self, request: Request) -> Response:
        """A summary of what is found: text, or JSON with parts and sources where JSON is accepted."""
        asked = await read_body(request, SearchBody, self._desk.options.max_request_bytes)
        noted = request.scope["noted"].fields
        noted["mode"] = asked.retrieval_mode
        if self._desk.options.log == "debug":
            noted["query"] = asked.query
        answers = self._desk.answers(asked.retrieval_mode, asked.database, asked.llm_model)
        query = TextQuery(text=asked.query, top_k=asked.top_k or TOP_K)
        as_json = asked.format == "json" or "application/json" in request.headers.get("accept", "")
        known = answers.known(query)
        if known is not None:
            noted["cached"] = True
            return answer(known, as_json=as_json)
        made = await answers.answer(query)
        noted.update(results=len(made.sources), degraded=made.degraded)
        return answer(made, as_json=as_json)

    async def retrieve(self, request: Request) -> Response:
        """Passages for each query, to the letter of Search-R1."""
        asked = await read_body(request, RetrieveBody, self._desk.options.max_request_bytes)
        request.scope["noted"].fields["queries"] = len(asked.queries)
        passages = self._desk.passages
        assert passages is not None
        async with self._desk.gate.place():
            found: list[Any] = []
            for first in range(0, len(asked.queries), BLOCK):  # a thread cannot be stopped: at a deadline the rest is
                block = asked.queries[first : first + BLOCK]
                part = await asyncio.to_thread(retrieve, passages, block, asked.topk, asked.return_scores)
                found += part["result"]
            return await asyncio.to_thread(json_response, {"result": found})

    async def image_search(self, request: Request) -> Response:
        """Pages or files that show the picture whose bytes were sent."""
        asked = await read_body(request, ImageBody, self._desk.options.max_request_bytes)
        images = self._desk.images
        assert images is not None
        async with self._desk.gate.place():
            return json_response(await search_picture(images, asked.raw(), asked.top_k))

    async def health(self, request: Request) -> Response:
        """The truth about each dependency; who does not show the key learns only whether we can answer."""
        status, body = await self._health.report(details=request.scope["noted"].known)
        return json_response(body, status)

    async def stats(self, _: Request) -> Response:
        """Counts of this process."""
        return json_response(self._health.stats())

    async def metrics(self, _: Request) -> Response:
        """For Prometheus."""
        return Response(self._metrics.page(), media_type=CONTENT_TYPE_LATEST)
