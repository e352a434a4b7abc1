"""Strict little servers for the transport: what they do not expect they refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from vlagent.chat.base import ImagePart
from vlagent.chat.token_server import Slots
from vlagent.types import ImageRef

PAD = 9
SLOTS = Slots(image_pad=PAD, banned=(9, 11), eos=(2,))
IDS = np.array([5, 8, PAD, PAD, PAD, PAD, 8, 6, 8, PAD, PAD, 8, 7])
Answer = Callable[[str, dict[str, Any]], "dict[str, Any] | httpx.Response"]


class Server:
    """Answers by a function of (path, body); `faults` come first, an exception or a response each."""

    def __init__(self, answer: Answer, *faults: Exception | httpx.Response) -> None:
        self.answer, self.faults = answer, list(faults)
        self.requests: list[tuple[str, dict[str, Any], httpx.Headers]] = []

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._handle)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        body = json.loads(request.content)
        self.requests.append((request.url.path, body, request.headers))
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault
        answer = self.answer(request.url.path, body)
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def bodies(self, path: str) -> Iterator[dict[str, Any]]:
        return (body for name, body, _ in self.requests if name == path)


def parts(folder: Path) -> list[ImagePart]:
    """Pictures of four and two visual tokens, for `IDS`."""
    made = []
    for i, size in enumerate(((64, 64), (64, 32))):
        path = folder / f"{i}.png"
        Image.new("RGB", size, ("teal", "red")[i]).save(path)
        made.append(ImagePart(ImageRef(path=str(path), width=size[0], height=size[1]), size))
    return made
