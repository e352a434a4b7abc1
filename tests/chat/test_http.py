"""A model over HTTP, against a server that was written from the official documentation."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.fakes.brains import always
from tests.fakes.openai_server import KEY, FakeOpenAI, Fault
from tests.fakes.openai_server import NativeCall as FakeCall
from tests.images.drawing import far, grain
from vlagent import images
from vlagent.chat.base import ChatReply, ChatRequest, ImagePart, Message, NativeCall, Sampling, TextPart
from vlagent.chat.http import HttpChat, HttpOptions
from vlagent.chat.open import open_chat
from vlagent.errors import (
    AuthError,
    ContentFilterError,
    PermanentError,
    QuotaError,
    RateLimitedError,
    ServiceError,
    TransientError,
    UserError,
)

QUICK = {"wait_s": 0.01, "attempts": 3}
TOOL = {"type": "function", "function": {"name": "image_search", "description": "x", "parameters": {"type": "object"}}}


def ask(*parts: Any, **more: Any) -> ChatRequest:
    said = tuple(TextPart(part) if isinstance(part, str) else part for part in parts or ("hello",))
    return ChatRequest((Message("system", (TextPart("be short"),)), Message("user", said)), **more)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLAGENT_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(always("<think>well</think><answer>42</answer> and more")) as running:
        yield running


def chat(server: FakeOpenAI, **options: Any) -> HttpChat:
    made = open_chat(server.model, server.base_url, **{**QUICK, **options})
    assert isinstance(made, HttpChat)
    return made


async def test_a_reply_carries_text_usage_and_latency(server: FakeOpenAI) -> None:
    async with chat(server) as model:
        reply = await model.complete(ask())
    assert reply.text == "<think>well</think><answer>42</answer> and more"
    assert (reply.finish_reason, reply.retries, reply.usage.calls) == ("stop", 0, 1)
    assert reply.usage.prompt_tokens > 0
    assert reply.usage.completion_tokens > 0
    assert 0 < reply.latency_s < 30


async def test_the_prices_give_the_cost(server: FakeOpenAI) -> None:
    model = chat(server, usd_per_million_prompt_tokens=2.0, usd_per_million_completion_tokens=10.0)
    usage = (await model.complete(ask())).usage
    assert usage.cost_usd == pytest.approx((2 * usage.prompt_tokens + 10 * usage.completion_tokens) / 1e6)
    assert (await chat(server).complete(ask())).usage.cost_usd == 0


async def test_a_stop_string_ends_the_reply_before_it(server: FakeOpenAI) -> None:
    reply = await chat(server).complete(ask(stop=("</answer>",)))
    assert reply.text == "<think>well</think><answer>42"
    assert server.seen[0].body["stop"] == ["</answer>"]


async def test_more_than_four_stop_strings_work_too(server: FakeOpenAI) -> None:
    reply = await chat(server).complete(ask(stop=("1", "2x", "3", "5", "</think>")))
    assert (reply.text, reply.finish_reason) == ("<think>well", "stop")
    assert len(server.seen[0].body["stop"]) == 4


async def test_the_limit_of_new_tokens_cuts_the_reply(server: FakeOpenAI) -> None:
    reply = await chat(server).complete(ask(sampling=Sampling(max_tokens=2)))
    assert (reply.text, reply.finish_reason) == ("<think>w", "length")


async def test_sampling_reaches_the_server_and_what_is_unset_is_not_sent(server: FakeOpenAI) -> None:
    model = chat(server)
    await model.complete(ask(sampling=Sampling(temperature=0.7, top_p=0.8, presence_penalty=1.5)))
    await model.complete(ask())
    first, second = (seen.body for seen in server.seen)
    assert (first["temperature"], first["top_p"], first["presence_penalty"]) == (0.7, 0.8, 1.5)
    assert not {"top_p", "top_k", "presence_penalty", "stop", "tools", "seed"} & set(second)


async def test_top_k_is_sent_where_it_is_asked_for_and_a_server_without_it_says_so() -> None:
    with FakeOpenAI(always("x"), extensions=frozenset({"top_k"})) as server:
        await chat(server).complete(ask(sampling=Sampling(top_k=20)))
        assert server.seen[0].body["top_k"] == 20
    with FakeOpenAI(always("x")) as server, pytest.raises(PermanentError, match="top_k"):
        await chat(server).complete(ask(sampling=Sampling(top_k=20)))


async def test_the_seed_comes_from_the_requests_key(server: FakeOpenAI) -> None:
    model = chat(server)
    for key in ((1, "a", 0, 0), (1, "a", 0, 0), (1, "a", 0, 1)):
        await model.complete(ask(key=key))
    await chat(server, send_seed=False).complete(ask(key=(1, "a", 0, 0)))
    seeds = [seen.body.get("seed") for seen in server.seen]
    assert seeds[0] == seeds[1] != seeds[2]
    assert seeds[3] is None


async def test_extra_fields_reach_the_server(server: FakeOpenAI) -> None:
    await chat(server, extra_body={"user": "me"}).complete(ask())
    assert server.seen[0].body["user"] == "me"


async def test_pictures_arrive_at_their_view_in_their_order(tmp_path: Path) -> None:
    drawn = grain(200, 100)
    Image.fromarray(drawn).save(tmp_path / "a.png")
    ref = images.probe(tmp_path / "a.png")
    part = images.crop(ref, (50, 20, 90, 60))
    got: list[Image.Image] = []

    def look(messages: Any, sent: list[Image.Image], body: Any) -> str:
        got.extend(sent)
        return "seen"

    with FakeOpenAI(look) as server:
        await chat(server).complete(ask("first", ImagePart(ref, (200, 100)), "then", ImagePart(part, (80, 80))))
        kinds = [part["type"] for part in server.seen[0].body["messages"][1]["content"]]
    assert kinds == ["text", "image_url", "text", "image_url"]
    assert far(got[0].convert("RGB"), drawn) == 0
    assert far(got[1].convert("RGB"), images.load(part, (80, 80))) == 0


async def test_a_picture_is_encoded_once_for_all_turns(tmp_path: Path, server: FakeOpenAI) -> None:
    Image.fromarray(grain()).save(tmp_path / "a.png")
    ref = images.probe(tmp_path / "a.png")
    model, request = chat(server), ask(ImagePart(ref, (150, 100)))
    await asyncio.gather(*(model.complete(request) for _ in range(5)))
    (tmp_path / "a.png").unlink()
    await model.complete(request)
    with pytest.raises(ServiceError, match="cannot be read"):
        await model.complete(ask(ImagePart(ref, (75, 50))))


async def test_native_calls_go_both_ways() -> None:
    with FakeOpenAI(lambda *_: [FakeCall("image_search", {"image_index": 1})]) as server:
        model = chat(server)
        reply = await model.complete(ask(tools=(TOOL,)))
        assert reply.finish_reason == "tool_calls"
        (call,) = reply.calls
        assert (call.name, json.loads(call.arguments)) == ("image_search", {"image_index": 1})
        history = (
            *ask().messages,
            Message("assistant", calls=(NativeCall(call.id, "image_search", "{}"),)),
            Message("tool", (TextPart("nothing"),), call_id=call.id),
        )
        await model.complete(ChatRequest(history, tools=(TOOL,)))
    said, answered = server.seen[1].body["messages"][2:]
    assert said["tool_calls"][0]["function"] == {"name": "image_search", "arguments": "{}"}
    assert answered == {"role": "tool", "tool_call_id": call.id, "content": "nothing"}


async def test_an_azure_deployment_is_addressed_by_name_version_and_its_own_header(
    server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLAGENT_API_KEY")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    host = server.base_url.removesuffix("/v1")
    for base_url, version in ((host, "2024-10-21"), (host + "/openai/", "2024-10-21"), (server.azure_url, None)):
        model = open_chat(server.model, base_url, api_version=version, **QUICK)
        assert "42" in (await model.complete(ask())).text
    assert {seen.path for seen in server.seen} == {
        f"/openai/deployments/{server.model}/chat/completions?api-version=2024-10-21"
    }
    assert all(seen.headers["api-key"] == KEY and "authorization" not in seen.headers for seen in server.seen)


@pytest.mark.parametrize("kind", ["500", "503", "429", "reset", "garbage", "wrong_type", "truncated", "empty"])
async def test_a_passing_failure_is_retried(kind: Any, server: FakeOpenAI) -> None:
    server.faults.append(Fault(kind))
    reply = await chat(server).complete(ask())
    assert "42" in reply.text
    assert reply.retries == 1


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("500", TransientError, "HTTP 500: The server had an error"),
        ("429", RateLimitedError, "HTTP 429: Rate limit"),
        ("reset", TransientError, "the connection broke"),
        ("garbage", TransientError, "the answer is no JSON"),
        ("wrong_type", TransientError, r"the answer is no JSON \(text/html"),
        ("truncated", TransientError, "the answer is no JSON"),
        ("empty", TransientError, "the answer is no chat completion"),
    ],
)
async def test_a_lasting_failure_is_typed(kind: Any, error: type[ServiceError], words: str, server: FakeOpenAI) -> None:
    server.always = Fault(kind)
    with pytest.raises(error, match=words) as caught:
        await chat(server).complete(ask())
    assert len(server.seen) == 3
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"model {server.model} at 127.0.0.1:{server.port}: ")


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("quota", QuotaError),
        ("401", AuthError),
        ("context", PermanentError),
        ("filter_prompt", ContentFilterError),
        ("filter_answer", ContentFilterError),
    ],
)
async def test_a_refusal_is_typed_and_not_retried(kind: Any, error: type[ServiceError], server: FakeOpenAI) -> None:
    server.always = Fault(kind)
    with pytest.raises(error):
        await chat(server).complete(ask())
    assert len(server.seen) == 1


async def test_an_unknown_model_or_path_names_the_fix(server: FakeOpenAI) -> None:
    with pytest.raises(PermanentError, match=r"does not exist.*check the model's name and the base URL"):
        await open_chat("other", server.base_url).complete(ask())
    with pytest.raises(PermanentError, match="often ends in /v1"):
        await open_chat(server.model, server.base_url.removesuffix("/v1")).complete(ask())


async def test_attempts_bound_the_tries(server: FakeOpenAI) -> None:
    server.always = Fault("500")
    with pytest.raises(TransientError):
        await chat(server, attempts=1).complete(ask())
    assert len(server.seen) == 1


async def test_retry_after_is_waited_for(server: FakeOpenAI) -> None:
    server.faults.append(Fault("429", retry_after_s=0.3))
    await chat(server).complete(ask())
    assert server.seen[1].at - server.seen[0].at >= 0.3


async def test_a_server_that_asks_for_too_long_a_pause_is_given_up_at_once(server: FakeOpenAI) -> None:
    server.always = Fault("429", retry_after_s=3600)
    with pytest.raises(RateLimitedError) as caught:
        await chat(server).complete(ask())
    assert caught.value.retry_after_s == 3600
    assert len(server.seen) == 1


@pytest.mark.parametrize("text", ['naïve 東京 \U0001f600 "\\\n\t\x00', "half of \ud83d"])
async def test_every_text_arrives_as_it_was_written(text: str) -> None:
    seen = []

    def echo(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})

    await HttpChat("m", HttpOptions(base_url="http://x/v1"), httpx.MockTransport(echo)).complete(ask(text))
    assert seen[0]["messages"][1]["content"] == text


async def test_a_server_that_hangs_is_a_time_out(server: FakeOpenAI) -> None:
    server.always = Fault("hang")
    with pytest.raises(TransientError, match=r"no answer within 0\.7 s"):
        await chat(server, timeout_s=0.7, attempts=2).complete(ask())
    assert len(server.seen) == 2
    with pytest.raises(TransientError, match=r"no answer within 0\.9 s"):
        await chat(server).complete(ask(timeout_s=0.9))


async def test_no_server_is_one_line() -> None:
    with FakeOpenAI(always("x")) as server:
        model = chat(server)
    with pytest.raises(TransientError, match="cannot connect"):
        await model.complete(ask())


async def test_the_rate_limit_holds_requests_back(server: FakeOpenAI) -> None:
    model = chat(server, requests_per_minute=300)
    started = time.monotonic()
    await asyncio.gather(*(model.complete(ask()) for _ in range(32)))
    assert time.monotonic() - started >= 2 / 5 * 0.9
    assert len(server.seen) == 32


def _wait_for(done: Callable[[], bool]) -> None:
    while not done():
        time.sleep(0.005)


async def test_a_cancelled_request_ends_at_once_and_the_model_goes_on(server: FakeOpenAI) -> None:
    server.faults.append(Fault("hang"))
    model = chat(server)
    task = asyncio.create_task(model.complete(ask()))
    await asyncio.to_thread(_wait_for, lambda: bool(server.seen))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "42" in (await model.complete(ask())).text


def test_one_model_serves_one_event_loop_after_another(server: FakeOpenAI) -> None:
    model = chat(server, requests_per_minute=6000)
    for _ in range(3):
        assert "42" in asyncio.run(model.complete(ask())).text


async def test_closing_is_clean_and_can_be_repeated(server: FakeOpenAI) -> None:
    model = chat(server)
    await model.aclose()
    await model.complete(ask())
    await model.aclose()
    await model.aclose()
    assert "42" in (await model.complete(ask())).text


async def test_the_key_is_shown_nowhere(
    server: FakeOpenAI, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def seen_of(model: HttpChat) -> list[str]:
        try:
            await model.complete(ask())
        except ServiceError as error:
            trace = traceback.TracebackException.from_exception(error, capture_locals=True)
        return [*trace.format(), repr(model), repr(vars(model)), repr(model.options), str(model.options.model_dump())]

    caplog.set_level(logging.DEBUG)
    server.faults.extend([Fault("500"), Fault("401"), Fault("reset")])
    shown = [*await seen_of(chat(server)), *await seen_of(chat(server, attempts=1))]
    everything = "\n".join([*shown, caplog.text, *capfd.readouterr()])
    assert "HTTP 401" in everything
    assert "the connection broke" in everything
    assert KEY not in everything


async def test_a_server_that_repeats_the_key_is_censored() -> None:
    def echo(request: httpx.Request) -> httpx.Response:
        return httpx.Response(400, json={"error": {"message": f"bad header {request.headers['authorization']}"}})

    model = HttpChat("m", HttpOptions(base_url="http://x/v1"), httpx.MockTransport(echo))
    with pytest.raises(PermanentError, match=r"bad header Bearer \[key\]"):
        await model.complete(ask())


def test_a_key_that_cannot_be_one_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLAGENT_API_KEY", "sk-secret\nsk-two")
    with pytest.raises(UserError, match="VLAGENT_API_KEY: the key holds characters") as caught:
        open_chat("m", "http://x/v1")
    assert "secret" not in str(caught.value)


async def test_without_a_key_none_is_sent(server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLAGENT_API_KEY")
    server.key = None
    await chat(server).complete(ask())
    assert "authorization" not in server.seen[0].headers
    monkeypatch.setenv("OPENAI_API_KEY", "sk-2")
    await chat(server).complete(ask())
    assert server.seen[1].headers["authorization"] == "Bearer sk-2"


async def test_proxies_of_the_environment_are_not_used(server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert "42" in (await chat(server).complete(ask())).text


@pytest.mark.parametrize(
    "base_url", ["localhost:8000/v1", "ftp://x/v1", "http://", "http://u:p@x/v1", "http://[", "x y"]
)
def test_a_base_url_that_is_none_is_refused(base_url: str) -> None:
    with pytest.raises(UserError, match="base URL") as caught:
        open_chat("m", base_url)
    assert "u:p" not in str(caught.value)


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(UserError, match=r"model option attempts = 0: .*greater than"):
        open_chat("m", "http://x/v1", attempts=0)
    with pytest.raises(UserError, match=r"model option colour = .*known are .*base_url"):
        open_chat("m", "http://x/v1", colour="red")
    with pytest.raises(UserError, match="a name is needed"):
        open_chat(" ")


async def test_the_name_of_the_token_limit_follows_the_server() -> None:
    seen = []

    def strict(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        seen.append(body)
        if "max_tokens" in body:
            message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            error = {"message": message, "param": "max_tokens", "code": "unsupported_parameter"}
            return httpx.Response(400, json={"error": error})
        return httpx.Response(200, json={"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})

    model = HttpChat("m", HttpOptions(base_url="http://x/v1"), httpx.MockTransport(strict))
    for _ in range(2):
        assert (await model.complete(ask(sampling=Sampling(max_tokens=7)))).text == "ok"
    assert len(seen) == 3
    assert seen[2]["max_completion_tokens"] == 7


async def reply_to(body: Any, **more: Any) -> ChatReply:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=body))
    model = HttpChat("m", HttpOptions(base_url="http://x/v1", attempts=1), transport)
    return await model.complete(ask(**more))


def choice(finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}]}


async def test_a_thought_that_the_server_split_off_comes_first() -> None:
    reply = await reply_to(choice(content="<answer>4</answer>", reasoning_content="two and two"))
    assert reply.text == "<think>\ntwo and two\n</think>\n<answer>4</answer>"
    kept = await reply_to(choice(content="<think>a</think><answer>4</answer>", reasoning="b"))
    assert kept.text == "<think>a</think><answer>4</answer>"


@pytest.mark.parametrize(
    ("finish", "expected"),
    [("stop", "stop"), ("length", "length"), ("max_tokens", "length"), (None, "stop"), ("eos", "stop")],
)
async def test_finish_reasons_of_other_servers_are_known(finish: str | None, expected: str) -> None:
    assert (await reply_to(choice(finish, content="x"))).finish_reason == expected


async def test_content_in_parts_and_a_refusal_are_text() -> None:
    assert (await reply_to(choice(content=[{"type": "text", "text": "a"}, {"text": "b"}]))).text == "ab"
    assert (await reply_to(choice(content=None, refusal="I will not."))).text == "I will not."
    assert (await reply_to(choice("length", content=None))).text == ""


BAD = [
    None, 3, [], "x", {}, {"choices": None}, {"choices": []}, {"choices": [None]}, {"choices": [{}]},
    {"choices": [{"message": None}]}, choice(content=None), choice(content=3), choice(content={"a": 1}),
    choice(content=None, tool_calls=[{}]), choice(content=None, tool_calls=[{"function": {"name": 3}}]),
    choice(content=None, tool_calls="x"), {"choices": "abc"},
]  # fmt: skip


@pytest.mark.parametrize("body", BAD)
async def test_an_answer_that_is_no_completion_is_a_typed_failure(body: Any) -> None:
    with pytest.raises(TransientError):
        await reply_to(body)


async def test_an_error_object_in_a_good_answer_is_an_error() -> None:
    with pytest.raises(PermanentError, match="model m at x: no such model"):
        await reply_to({"error": {"message": "no such model"}})


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": "7"}, [], 3])
async def test_a_usage_that_is_missing_or_odd_counts_nothing(usage: Any) -> None:
    reply = await reply_to({**choice(content="x"), "usage": usage})
    assert (reply.usage.prompt_tokens, reply.usage.calls) == (0, 1)


@pytest.mark.parametrize("status", [301, 302, 307])
async def test_a_redirect_is_not_followed_with_the_key(status: int) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, headers={"location": "http://evil/"}))
    with pytest.raises(PermanentError, match=f"HTTP {status}"):
        await HttpChat("m", HttpOptions(base_url="http://x/v1"), transport).complete(ask())
