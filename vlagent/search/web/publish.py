"""Providers that search by image URL need the picture at a public address for a moment: the hook, and two of them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import httpx

from vlagent import images
from vlagent.chat.keys import key_from_environment
from vlagent.errors import PermanentError, TransientError, UserError
from vlagent.files import write_atomic
from vlagent.types import ImageRef

TOKEN_NAMES = ("VLAGENT_PUBLISH_KEY",)
_LONGEST_SIDE = 1600


class Publisher(Protocol):
    """Shows a picture (or the region of one) to the world while the context is open."""

    def published(self, image: ImageRef) -> AbstractAsyncContextManager[str]:
        """Enter to get the URL; on leaving it is taken down. Raises `ServiceError` where that fails."""
        ...


class FolderPublisher:
    """Writes into a folder that a web server of yours shows at `url`; names cannot be guessed."""

    def __init__(self, folder: Path, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise UserError(f"images.publish_url {url!r}: the public address of the folder, https://HOST/PATH")
        self._folder, self._url = folder, url.rstrip("/")

    @asynccontextmanager
    async def published(self, image: ImageRef) -> AsyncIterator[str]:
        """A JPEG for as long as it is needed."""
        path = self._folder / f"{secrets.token_urlsafe(16)}.jpg"
        await asyncio.to_thread(lambda: write_atomic(path, jpeg(image)))
        try:
            yield f"{self._url}/{path.name}"
        finally:
            path.unlink(missing_ok=True)


class PutPublisher:
    """`PUT`s the picture to `url`/NAME (WebDAV, an object store behind a gateway) and `DELETE`s it afterwards."""

    def __init__(self, url: str, transport: httpx.AsyncBaseTransport | None = None, timeout_s: float = 20.0) -> None:
        self._url = url.rstrip("/")
        self._transport = transport
        self._timeout_s = timeout_s
        self._key = key_from_environment(TOKEN_NAMES)

    @asynccontextmanager
    async def published(self, image: ImageRef) -> AsyncIterator[str]:
        """A JPEG for as long as it is needed."""
        url = f"{self._url}/{secrets.token_urlsafe(16)}.jpg"
        raw = await asyncio.to_thread(jpeg, image)
        headers = {"Authorization": f"Bearer {self._key.get_secret_value()}"} if self._key else {}
        async with httpx.AsyncClient(
            transport=self._transport, timeout=self._timeout_s, trust_env=False, headers=headers
        ) as client:
            await self._send(client, "PUT", url, raw)
            try:
                yield url
            finally:
                await self._send(client, "DELETE", url, b"")

    async def _send(self, client: httpx.AsyncClient, method: str, url: str, raw: bytes) -> None:
        kind = {"content-type": "image/jpeg"} if raw else {}
        try:
            answer = await client.request(method, url, content=raw, headers=kind)
        except httpx.HTTPError as error:
            raise TransientError("publish", f"{method} failed ({type(error).__name__})") from error
        if answer.status_code >= 300 and not (method == "DELETE" and answer.status_code == 404):
            raise PermanentError("publish", f"{method}: HTTP {answer.status_code}")


def jpeg(image: ImageRef) -> bytes:
    """The region as a JPEG of at most 1600 pixels a side."""
    scale = min(1.0, _LONGEST_SIDE / max(image.width, image.height))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return images.encode(images.load(image, size), "JPEG")
