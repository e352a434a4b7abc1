"""A server with OpenAI's chat-completions contract on a loopback port; its answers come from a `Brain`.

Written from OpenAI's and Microsoft's documentation, without a look at our client:
- request and response: see `openai_schema`; the answer object is openai-python `types/chat/chat_completion.py`
  (id, object, created, model, choices[index, message, finish_reason, logprobs], usage);
- finish_reason `stop` at a natural end or a stop sequence (which the text then does not contain), `length` at
  max_completion_tokens / max_tokens, `tool_calls`, `content_filter` (same page);
- errors: https://developers.openai.com/docs/guides/error-codes (401, 403, 404, 429 rate limit and quota, 500, 503) and
  https://cookbook.openai.com/examples/how_to_handle_rate_limits (Retry-After);
- Azure: https://learn.microsoft.com/azure/ai-services/openai/reference
  (POST /openai/deployments/{deployment}/chat/completions?api-version=..., header `api-key`), and its content filter,
  https://learn.microsoft.com/azure/ai-services/openai/concepts/content-filter (400 with code `content_filter`).

One token is four characters here. Run it by hand: `python -m tests.fakes.openai_server --brain colour-code`.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from PIL import Image

from tests.fakes.openai_errors import FAULTS
from tests.fakes.openai_schema import MAX_REQUEST_BYTES, Refusal, Request, check_request

KEY = "sk-fake-0123456789"
AZURE = re.compile(r"/openai/deployments/([^/]+)/chat/completions\Z")

FaultKind = Literal[
    "500", "503", "429", "quota", "hang", "reset", "garbage", "wrong_type", "truncated", "empty", "filter_prompt",
    "filter_answer", "401", "context",
]  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One request goes wrong in this way."""

    kind: FaultKind
    retry_after_s: float | None = None
    hang_s: float = 30.0


@dataclass(frozen=True)
class NativeCall:
    """A tool call that a brain makes."""

    name: str
    arguments: dict[str, Any] | str


Brain = Callable[[list[dict[str, Any]], list[Image.Image], dict[str, Any]], "str | list[NativeCall]"]
"""(messages, every picture sent in order, body) -> the line to say, or the tools to call."""


@dataclass
class Seen:
    """One request that arrived."""

    path: str
    headers: dict[str, str]
    body: Any
    status: int = 0
    refusal: str = ""
    at: float = field(default_factory=time.monotonic)


@dataclass
class FakeOpenAI:
    """Start with `with FakeOpenAI(brain) as server:`; `server.base_url` is what a client is given."""

    brain: Brain
    model: str = "fake-vlm"
    key: str | None = KEY
    """None accepts requests without a key, as local servers do."""
    extensions: frozenset[str] = frozenset()
    """Body fields beyond OpenAI's, as vLLM takes them (`top_k`)."""
    port: int = 0
    faults: deque[Fault] = field(default_factory=deque)
    """One a request, first in first out."""
    always: Fault | None = None
    """For every request once `faults` is empty."""
    seen: list[Seen] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> FakeOpenAI:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering: the port is closed and open connections are cut."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def azure_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/openai/deployments/{self.model}?api-version=2024-10-21"

    def next_fault(self) -> Fault | None:
        return self.faults.popleft() if self.faults else self.always


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeOpenAI

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": self.fake.model, "object": "model", "created": 0, "owned_by": "x"}]}
        if urlsplit(self.path).path == "/v1/models":
            self._reply(200, models)
        else:
            self._reply(404, {"error": {"message": f"Invalid URL (GET {self.path})", "type": "invalid_request_error"}})

    def do_POST(self) -> None:
        seen = Seen(self.path, {key.lower(): value for key, value in self.headers.items()}, None)
        self.fake.seen.append(seen)
        try:
            seen.body = self._read_body()
            self._check_route(seen)
            fault = self.fake.next_fault()
            if fault and self._fail(fault, seen):
                return
            request, images = check_request(seen.body, self.fake.extensions)
            self._check_model(request)
            answer = _completion(self.fake, request, images, seen.body)
            if fault:
                self._spoil(fault, answer, seen)
                return
            seen.status = 200
            self._reply(200, answer)
        except Refusal as refusal:
            seen.status, seen.refusal = refusal.status, refusal.message
            self._reply(refusal.status, refusal.body, refusal.headers)

    def _read_body(self) -> Any:
        length = int(self.headers.get("content-length") or 0)
        if length > MAX_REQUEST_BYTES:
            raise Refusal(413, "The request is too large.")
        raw = self.rfile.read(length)
        if not (self.headers.get("content-type") or "").startswith("application/json"):
            raise Refusal(400, "Expected Content-Type: application/json.")
        try:
            return json.loads(raw)
        except ValueError:
            raise Refusal(400, "We could not parse the JSON body of your request.") from None

    def _check_route(self, seen: Seen) -> None:
        url = urlsplit(self.path)
        azure = AZURE.match(url.path)
        if azure:
            self._check_azure(azure[1], parse_qs(url.query), seen)
        elif url.path != "/v1/chat/completions":
            raise Refusal(404, f"Invalid URL (POST {url.path})")
        else:
            self._check_key(seen)

    def _check_azure(self, deployment: str, query: dict[str, list[str]], seen: Seen) -> None:
        if self.fake.key and seen.headers.get("api-key") != self.fake.key:
            raise Refusal(
                401, "Access denied due to invalid subscription key or wrong API endpoint.", type=None, code="401"
            )
        if not query.get("api-version"):
            raise Refusal(404, "Resource not found", type=None, code="404")
        if deployment != self.fake.model:
            message = "The API deployment for this resource does not exist."
            raise Refusal(404, message, type=None, code="DeploymentNotFound")
        if isinstance(seen.body, dict):
            seen.body.setdefault("model", deployment)

    def _check_key(self, seen: Seen) -> None:
        given = seen.headers.get("authorization")
        if self.fake.key is None:
            return
        if not given:
            message = "You didn't provide an API key. You need to provide your API key in an Authorization header."
            raise Refusal(401, message)
        if given != f"Bearer {self.fake.key}":
            raise Refusal(401, f"Incorrect API key provided: {given[7:11]}***.", code="invalid_api_key")

    def _check_model(self, request: Request) -> None:
        if request.model != self.fake.model:
            message = f"The model `{request.model}` does not exist or you do not have access to it."
            raise Refusal(404, message, code="model_not_found")

    def _fail(self, fault: Fault, seen: Seen) -> bool:
        """Faults that never reach the model. True where the connection is already dealt with."""
        if fault.kind == "hang":
            self.fake.closing.wait(fault.hang_s)
            self.close_connection = True
            return True
        if fault.kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return True
        refusal = FAULTS.get(fault.kind)
        if refusal is None:
            return False
        wait = () if fault.retry_after_s is None else (("Retry-After", f"{fault.retry_after_s:g}"),)
        seen.status = refusal[0]
        self._reply(refusal[0], {"error": refusal[1]}, wait)
        return True

    def _spoil(self, fault: Fault, answer: dict[str, Any], seen: Seen) -> None:
        """Faults of the answer itself."""
        seen.status = 200
        raw = json.dumps(answer).encode()
        if fault.kind == "garbage":
            self._reply_raw(200, b"\x00\xffnot json at all", "application/json")
        elif fault.kind == "wrong_type":
            self._reply_raw(200, b"<html><body>Bad gateway page</body></html>", "text/html")
        elif fault.kind == "truncated":
            self._reply_raw(200, raw[: len(raw) // 2], "application/json")
        elif fault.kind == "empty":
            self._reply(200, {**answer, "choices": []})
        else:
            choice = answer["choices"][0]
            choice.update(finish_reason="content_filter", message={"role": "assistant", "content": None})
            self._reply(200, answer)

    def _reply(self, status: int, value: Any, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self._reply_raw(status, json.dumps(value).encode(), "application/json", headers)

    def _reply_raw(self, status: int, raw: bytes, kind: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        try:
            self.send_response(status)
            for name, value in (("Content-Type", kind), ("Content-Length", str(len(raw))), *headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def _completion(fake: FakeOpenAI, request: Request, images: list[Image.Image], body: dict[str, Any]) -> dict[str, Any]:
    said = fake.brain(body["messages"], images, body)
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if isinstance(said, str):
        text, finish = _cut(said, request)
        message["content"] = text
        written = text
    else:
        assert request.tools, "a brain may call tools only where the request offers them"
        message["tool_calls"] = [_native(call, len(body["messages"]), i) for i, call in enumerate(said)]
        finish, written = "tool_calls", json.dumps(message["tool_calls"])
    prompt_tokens = _tokens(json.dumps(_without_images(body["messages"]))) + 256 * len(images)
    completion_tokens = _tokens(written)
    return {
        "id": f"chatcmpl-{len(fake.seen)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": fake.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _cut(text: str, request: Request) -> tuple[str, str]:
    finish = "stop"
    ends = [at for at in (text.find(stop) for stop in request.stops if stop) if at >= 0]
    if ends:
        text = text[: min(ends)]
    if request.budget is not None and _tokens(text) > request.budget:
        text, finish = text[: 4 * request.budget], "length"
    return text, finish


def _native(call: NativeCall, turn: int, index: int) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return {
        "id": f"call_{turn}_{index}",
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _without_images(messages: list[dict[str, Any]]) -> list[Any]:
    return [
        [p for p in m["content"] if p.get("type") == "text"] if isinstance(m.get("content"), list) else m.get("content")
        for m in messages
    ]


def main(argv: list[str] | None = None) -> None:
    """Serve until the standard input closes; prints the base URL first."""
    from tests.fakes.brains import BRAINS

    parser = argparse.ArgumentParser()
    parser.add_argument("--brain", default="colour-code", choices=sorted(BRAINS))
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args(argv)
    with FakeOpenAI(BRAINS[args.brain](), port=args.port) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
