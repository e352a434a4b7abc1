"""The fake itself: it refuses what the documentation does not allow, and its brain really depends on the pixels."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.fakes.brains import always, colour_code_brain, locate_code, plant_code, read_code
from tests.fakes.openai_server import KEY, FakeOpenAI, Fault, NativeCall


def data_url(image: Image.Image, kind: str = "png") -> str:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


TEXT = {"type": "text", "text": "What is it?"}
PIXEL = {"type": "image_url", "image_url": {"url": data_url(Image.new("RGB", (4, 4)))}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
GOOD = [{"role": "system", "content": "s"}, user(TEXT, PIXEL)]


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(always("abcdefgh-STOP-ijkl")) as fake:
        yield fake


def post(server: FakeOpenAI, key: str | None = KEY, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.post(
        f"{server.base_url}/chat/completions",
        json={"model": "fake-vlm", "messages": GOOD, **body},
        headers=headers,
        timeout=5,
        trust_env=False,
    )


def test_a_documented_request_gets_a_documented_answer(server: FakeOpenAI) -> None:
    answer = post(server, temperature=0, seed=3, max_completion_tokens=100).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "abcdefgh-STOP-ijkl"
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]


def test_a_stop_string_ends_the_text_before_itself(server: FakeOpenAI) -> None:
    choice = post(server, stop=["-STOP-"]).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("abcdefgh", "stop")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_token_budget_cuts_with_finish_reason_length(server: FakeOpenAI, name: str) -> None:
    choice = post(server, **{name: 1}).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("abcd", "length")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"top_k": 5}, "Unrecognized request argument supplied: top_k"),
    "a bad role": ({"messages": [{"role": "observer", "content": "x"}]}, "messages"),
    "no messages": ({"messages": []}, "messages"),
    "a number as text": ({"temperature": "0"}, "temperature"),
    "a temperature of 3": ({"temperature": 3}, "temperature"),
    "five stop strings": ({"stop": list("abcde")}, "stop"),
    "an image in a system message": ({"messages": [{"role": "system", "content": [PIXEL]}]}, "only allowed for"),
    "a tool message without a call": (
        {"messages": [*GOOD, {"role": "tool", "tool_call_id": "call_1", "content": "x"}]},
        "must be a response to a preceeding",
    ),
    "a tool message without an id": (
        {"messages": [*GOOD, ASKED, {"role": "tool", "content": "x"}], "tools": [TOOL]},
        "tool_call_id",
    ),
    "a call that is not answered": ({"messages": [*GOOD, ASKED, user(TEXT)]}, "did not have response messages: call_1"),
    "an image in a tool message": (
        {"messages": [*GOOD, ASKED, {"role": "tool", "tool_call_id": "call_1", "content": [PIXEL]}]},
        "message with role 'tool' contains an image URL",
    ),
    "an unknown part": ({"messages": [user({"type": "image", "image": "x"})]}, "messages[0]"),
    "an extra key in a part": ({"messages": [user({**TEXT, "id": 3})]}, "Unknown parameter"),
    "a broken data URL": (
        {"messages": [user({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}})]},
        "image",
    ),
    "a BMP": (
        {"messages": [user({"type": "image_url", "image_url": {"url": data_url(Image.new("RGB", (2, 2)), "bmp")}})]},
        "unsupported image",
    ),
    "an empty assistant message": ({"messages": [*GOOD, {"role": "assistant"}]}, "expected a string, got null"),
    "both token limits": ({"max_tokens": 5, "max_completion_tokens": 5}, "at the same time"),
    "a tool choice without tools": ({"tool_choice": "auto"}, "only allowed when 'tools'"),
    "a bad tool name": ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0]"),
    "a top_logprobs without logprobs": ({"top_logprobs": 2}, "top_logprobs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_documentation_does_not_allow_is_refused(server: FakeOpenAI, name: str) -> None:
    body, words = REFUSED[name]
    answer = post(server, **body)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(("key", "code"), [(None, None), ("sk-wrong", "invalid_api_key")])
def test_a_missing_or_wrong_key_is_401(server: FakeOpenAI, key: str | None, code: str | None) -> None:
    answer = post(server, key)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, code)


def test_an_unknown_model_is_404(server: FakeOpenAI) -> None:
    assert post(server, model="gpt-x").json()["error"]["code"] == "model_not_found"


def test_azure_needs_its_own_key_header_version_and_deployment(server: FakeOpenAI) -> None:
    def ask(path: str, header: str = "api-key") -> httpx.Response:
        url = f"http://127.0.0.1:{server.port}/openai/deployments/{path}"
        return httpx.post(url, json={"messages": GOOD}, headers={header: KEY}, trust_env=False)

    good = "fake-vlm/chat/completions?api-version=2024-10-21"
    assert ask(good).status_code == 200
    assert ask(good, "authorization").json()["error"]["code"] == "401"
    assert ask("fake-vlm/chat/completions").json()["error"]["code"] == "404"
    assert ask("other/chat/completions?api-version=1").json()["error"]["code"] == "DeploymentNotFound"


def test_faults_come_one_a_request_and_then_it_works_again(server: FakeOpenAI) -> None:
    server.faults.extend([Fault("500"), Fault("429", retry_after_s=7), Fault("filter_prompt")])
    assert post(server).status_code == 500
    limited = post(server)
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
    assert post(server).json()["error"]["innererror"]["code"] == "ResponsibleAIPolicyViolation"
    assert post(server).status_code == 200


def test_spoilt_answers_are_spoilt(server: FakeOpenAI) -> None:
    server.faults.extend(Fault(kind) for kind in ("garbage", "wrong_type", "truncated", "filter_answer", "reset"))
    with pytest.raises(ValueError):
        json.loads(post(server).content)
    assert post(server).headers["content-type"] == "text/html"
    with pytest.raises(ValueError):
        post(server).json()
    assert post(server).json()["choices"][0]["finish_reason"] == "content_filter"
    with pytest.raises(httpx.TransportError):
        post(server)


def test_native_calls_are_answered_with_tool_calls() -> None:
    with FakeOpenAI(lambda messages, images, body: [NativeCall("look", {"at": 1})]) as server:
        choice = post(server, tools=[TOOL]).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"at": 1}


def noise_photo() -> Image.Image:
    return Image.effect_noise((512, 512), 60).convert("RGB")


def test_the_code_is_read_from_an_exact_crop_and_misread_when_the_box_is_off_by_two_percent() -> None:
    photo = plant_code(noise_photo(), "systemd", at=(300, 80), cell=16)
    box = locate_code(photo)
    assert box == (300, 80, 300 + 8 * 16, 80 + 2 * 16)
    assert read_code(photo.crop(box)) == "systemd"
    off = round(0.02 * 512)
    for dx, dy in ((off, 0), (-off, 0), (0, off), (0, -off)):
        moved = (box[0] + dx, box[1] + dy, box[2] + dx, box[3] + dy)
        assert read_code(photo.crop(moved)) != "systemd"


def test_the_brain_says_what_the_pixels_say() -> None:
    brain = colour_code_brain()
    body = {"messages": [{"role": "system", "content": "tools: image_crop"}]}
    first = brain([], [plant_code(noise_photo(), "bash", at=(64, 128), cell=16)], body)
    other = brain([], [plant_code(noise_photo(), "bash", at=(128, 128), cell=16)], body)
    assert isinstance(first, str)
    assert "[125, 250, 281, 312]" in first
    assert first != other
