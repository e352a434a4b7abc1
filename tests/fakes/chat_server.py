"""An OpenAI-compatible model behind the quick server, for load and faults; requests are held to `openai_schema`.

It answers as a summariser: the sentence of the prompt that holds most words of its question, after 200 ms. Errors are
in the words of `openai_errors` (both files name the documentation that they follow).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.fakes.openai_errors import FAULTS
from tests.fakes.openai_schema import Refusal, check_request
from tests.fakes.web_server import Answer, Asked, Fake, Fault, as_json

Messages = list[dict[str, Any]]
Brain = Callable[[Messages], str]


class Chat(Fake):
    """`POST /v1/chat/completions` and `GET /v1/models`."""

    delay_s = 0.2

    def __init__(
        self,
        model: str = "fake-model",
        *,
        key: str | None = None,
        delay_s: float | None = None,
        brain: Brain | None = None,
    ) -> None:
        super().__init__(delay_s=delay_s)
        self.model, self.key, self.brain = model, key, brain or summary_of

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def reply(self, asked: Asked) -> Answer:
        if asked.method == "GET" and asked.path == "/v1/models":
            model = {"id": self.model, "object": "model", "created": 0, "owned_by": "fake"}
            return as_json({"object": "list", "data": [model]})
        try:
            return self._completion(asked)
        except Refusal as refusal:
            self.refused.append(f"{refusal.status}: {refusal.message}")
            return as_json(refusal.body, refusal.status)

    def _completion(self, asked: Asked) -> Answer:
        if asked.path != "/v1/chat/completions":
            raise Refusal(404, f"Invalid URL ({asked.method} {asked.path})")
        if self.key and asked.headers.get("authorization") != f"Bearer {self.key}":
            raise Refusal(401, "Incorrect API key provided.", code="invalid_api_key")
        try:
            body = asked.json
        except ValueError:
            raise Refusal(400, "We could not parse the JSON body of your request.") from None
        request, _ = check_request(body)
        if request.model != self.model:
            raise Refusal(404, f"The model `{request.model}` does not exist.", code="model_not_found")
        self.counts["completions"] += 1
        said = self.brain(body["messages"])
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": said, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": len(asked.body) // 4, "completion_tokens": len(said) // 4}
        usage["total_tokens"] = sum(usage.values())
        top = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": self.model}
        return as_json({**top, "choices": [choice], "usage": usage})

    def refusal(self, fault: Fault) -> Answer:
        status, error = FAULTS[{"429": "429", "quota": "quota", "auth": "401"}[fault.kind]]
        return Answer(status, json.dumps({"error": error}).encode())


def text_of(message: dict[str, Any]) -> str:
    """The words of a message."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def summary_of(messages: Messages) -> str:
    """The sentence of the quoted part that names a tower's year, else its first one."""
    prompt = text_of(messages[-1])
    quoted = prompt.split("=====")[1] if prompt.count("=====") > 1 else prompt
    found = re.search(r"The tower at [^.]*\.", quoted) or re.search(r"[A-Z][^.\n]{10,200}\.", quoted)
    return found[0] if found else "Nothing is said."
