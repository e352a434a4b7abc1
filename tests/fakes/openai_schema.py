"""What OpenAI's documentation allows in a chat-completions request; anything else is refused with its error body.

Written from, and only from, the official material:
- API reference, "Create chat completion" (https://platform.openai.com/docs/api-reference/chat/create), as generated
  into openai-python `src/openai/types/chat/completion_create_params.py` and the `*_message_param.py` files beside it;
- guide "Images and vision" (https://developers.openai.com/api/docs/guides/images-vision): data URLs, PNG, JPEG, WebP,
  non-animated GIF;
- guide "Error codes" (https://developers.openai.com/docs/guides/error-codes): {error: {message, type, param, code}};
- openai-openapi issue 523 and openai-node issue 1030: images are for user messages only, and the words of that refusal.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError

IMAGE_FORMATS = {"png": "PNG", "jpeg": "JPEG", "jpg": "JPEG", "webp": "WEBP", "gif": "GIF"}
DATA_URL = re.compile(r"data:image/([a-z]+);base64,([A-Za-z0-9+/=]+)\Z")
MAX_REQUEST_BYTES = 50 * 1024 * 1024


@dataclass
class Refusal(Exception):
    """An error answer: its status, the error object and extra headers."""

    status: int
    message: str
    type: str | None = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Text(Strict):
    type: Literal["text"]
    text: str


class ImageUrl(Strict):
    url: str
    detail: Literal["auto", "low", "high"] = "auto"


class Picture(Strict):
    type: Literal["image_url"]
    image_url: ImageUrl


class Refused(Strict):
    type: Literal["refusal"]
    refusal: str


class Function(Strict):
    name: str
    arguments: str


class ToolCall(Strict):
    id: str
    type: Literal["function"]
    function: Function


Name = Annotated[str, Field(pattern=r"^[^\s<|\\/>]+$", max_length=64)]


class System(Strict):
    role: Literal["system", "developer"]
    content: str | Annotated[list[Text], Field(min_length=1)]
    name: Name | None = None


class User(Strict):
    role: Literal["user"]
    content: str | Annotated[list[Annotated[Text | Picture, Field(discriminator="type")]], Field(min_length=1)]
    name: Name | None = None


class Assistant(Strict):
    role: Literal["assistant"]
    content: (
        str | Annotated[list[Annotated[Text | Refused, Field(discriminator="type")]], Field(min_length=1)] | None
    ) = None
    refusal: str | None = None
    name: Name | None = None
    tool_calls: Annotated[list[ToolCall], Field(min_length=1)] | None = None


class ToolResult(Strict):
    role: Literal["tool"]
    content: str | Annotated[list[Text], Field(min_length=1)]
    tool_call_id: str


Message = Annotated[System | User | Assistant | ToolResult, Field(discriminator="role")]


class FunctionSchema(Strict):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", max_length=64)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolSchema(Strict):
    type: Literal["function"]
    function: FunctionSchema


class NamedFunction(Strict):
    name: str


class NamedChoice(Strict):
    type: Literal["function"]
    function: NamedFunction


Number = int | float


class Request(Strict):
    """The documented body. What a VLM agent never uses (audio, prediction, ...) is accepted as any JSON."""

    model: str
    messages: Annotated[list[Message], Field(min_length=1)]
    frequency_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    logit_bias: dict[str, Annotated[int, Field(ge=-100, le=100)]] | None = None
    logprobs: bool | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    metadata: dict[str, str] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    parallel_tool_calls: bool | None = None
    presence_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    response_format: dict[str, Any] | None = None
    safety_identifier: str | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | None = None
    tools: Annotated[list[ToolSchema], Field(min_length=1, max_length=128)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    top_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    user: str | None = None
    verbosity: Literal["low", "medium", "high"] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def budget(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


def check_request(body: Any, extensions: frozenset[str] = frozenset()) -> tuple[Request, list[Image.Image]]:
    """The request and its pictures in order, or a `Refusal`. `extensions` are body fields of other servers (top_k)."""
    if not isinstance(body, dict):
        raise Refusal(400, "We could not parse the JSON body of your request.")
    known = {key: value for key, value in body.items() if key not in extensions}
    unknown = [key for key in known if key not in Request.model_fields]
    if unknown:
        plural = "s" if len(unknown) > 1 else ""
        raise Refusal(400, f"Unrecognized request argument{plural} supplied: {', '.join(unknown)}")
    _check_roles(known.get("messages"))
    try:
        request = Request.model_validate(known)
    except ValidationError as error:
        raise _refusal_of(error) from None
    _check_tool_order(request)
    _check_combinations(request)
    return request, _pictures(request)


def _check_roles(messages: Any) -> None:
    if not isinstance(messages, list):
        return
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else []
        if message.get("role") != "user" and any(isinstance(p, dict) and p.get("type") == "image_url" for p in parts):
            raise Refusal(
                400,
                f"Invalid 'messages[{index}]'. Image URLs are only allowed for messages with role 'user', "
                f"but this message with role '{message.get('role')}' contains an image URL.",
                param=f"messages[{index}]",
                code="invalid_value",
            )


def _refusal_of(error: ValidationError) -> Refusal:
    first = max(error.errors(), key=lambda problem: len(problem["loc"]))
    words = [str(part) for part in first["loc"] if part not in ("system", "user", "assistant", "tool", "str")]
    param = re.sub(r"\.(\d+)", r"[\1]", ".".join(words))
    if first["type"] == "missing":
        return Refusal(400, f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")
    if first["type"] == "extra_forbidden":
        return Refusal(400, f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
    code = "invalid_type" if first["type"].endswith("_type") else "invalid_value"
    return Refusal(400, f"Invalid value for '{param}': {first['msg']}.", param=param, code=code)


def _check_tool_order(request: Request) -> None:
    """Every native call is answered at once, and only calls are answered."""
    waiting: set[str] = set()
    for index, message in enumerate(request.messages):
        if isinstance(message, ToolResult):
            if message.tool_call_id not in waiting:
                raise Refusal(
                    400,
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'.",
                    param=f"messages.[{index}].role",
                )
            waiting.discard(message.tool_call_id)
            continue
        _refuse_unanswered(waiting, index)
        if isinstance(message, Assistant):
            if message.content is None and not message.tool_calls:
                raise Refusal(
                    400,
                    f"Invalid value for 'content': expected a string, got null. (messages[{index}])",
                    param=f"messages.[{index}].content",
                )
            waiting = {call.id for call in message.tool_calls or ()}
    _refuse_unanswered(waiting, len(request.messages))


def _refuse_unanswered(waiting: set[str], index: int) -> None:
    if waiting:
        raise Refusal(
            400,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(sorted(waiting))}",
            param=f"messages.[{index}].role",
        )


def _check_combinations(request: Request) -> None:
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise Refusal(400, "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    if request.tools is None and (request.tool_choice is not None or request.parallel_tool_calls is not None):
        name = "tool_choice" if request.tool_choice is not None else "parallel_tool_calls"
        raise Refusal(400, f"'{name}' is only allowed when 'tools' are specified.", param=name)
    if request.top_logprobs is not None and not request.logprobs:
        raise Refusal(400, "'top_logprobs' requires 'logprobs' to be true.", param="top_logprobs")
    if request.stream:
        raise Refusal(400, "This fake does not stream.", param="stream", code="unsupported_value")


def _pictures(request: Request) -> list[Image.Image]:
    pictures = []
    for message in request.messages:
        if isinstance(message, User) and not isinstance(message.content, str):
            pictures += [_picture(part.image_url.url) for part in message.content if isinstance(part, Picture)]
    return pictures


def _picture(url: str) -> Image.Image:
    found = DATA_URL.match(url)
    if not found:
        raise Refusal(400, "Invalid image URL: expected a base64-encoded data URL.", code="invalid_image_url")
    expected = IMAGE_FORMATS.get(found[1])
    try:
        image = Image.open(io.BytesIO(base64.b64decode(found[2], validate=True)))
        image.load()
    except (binascii.Error, OSError) as error:
        raise Refusal(400, f"Invalid base64 image ({error}).", code="invalid_base64") from None
    if expected is None or image.format != expected or getattr(image, "n_frames", 1) > 1:
        raise Refusal(
            400,
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            "['png', 'jpeg', 'gif', 'webp'].",
            code="invalid_image_format",
        )
    return image.convert("RGB")
