"""The transport to vLLM; that its contract is kept is tested against a server written from its documentation."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.chat.token_servers import IDS, SLOTS, Server, parts
from vlagent.chat.token_server import TokenServerOptions
from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.chat.vllm import VllmEngine
from vlagent.errors import AuthError, PermanentError, RateLimitedError, ServiceError, TransientError, UserError

GENERATE, RENDER = "/inference/v1/generate", "/v1/chat/completions/render"
QUICK = {"attempts": 2, "wait_s": 0.001}
PARAMS = TokenParams(0.7, top_p=0.9, top_k=20, max_tokens=30, stop=("</answer>",), key=(0, "s", 1, 2))


def reply(path: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    if path == RENDER:
        url = body["messages"][0]["content"][0]["image_url"]["url"]
        picture = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
        length = picture.width * picture.height // 1024
        where = {"image": [{"offset": 1, "length": length}]}
        hashes, data = {"image": [f"hash-{length}"]}, {"image": [f"data-{length}"]}
        return {"features": {"mm_hashes": hashes, "mm_placeholders": where, "kwargs_data": data}}
    assert path == GENERATE
    content = [{"token": f"token_id:{i}", "logprob": -0.5 * n, "top_logprobs": []} for n, i in enumerate((4, 3, 2))]
    choice = {"index": 0, "token_ids": [4, 3, 2], "logprobs": {"content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": len(body["token_ids"])}
    return {"request_id": "x", "choices": [{**choice, **changes}], "usage": usage}


def engine(server: Server, **options: Any) -> VllmEngine:
    given = {"base_url": "http://gpu:8000/v1", **QUICK, **options}
    return VllmEngine("policy", SLOTS, TokenServerOptions(**given), server.transport)


def generate(server: Server, folder: Path, params: TokenParams = PARAMS) -> TokenOutput:
    return asyncio.run(engine(server).generate(IDS, parts(folder), params))


def test_ids_and_pictures_go_out_and_ids_and_log_probabilities_come_back(tmp_path: Path) -> None:
    server = Server(reply)
    out = generate(server, tmp_path)
    assert out.ids.tolist() == [4, 3, 2]
    assert out.ids.dtype == np.int64
    assert out.logprobs.tolist() == [0.0, -0.5, -1.0]
    assert out.finish_reason == "stop"
    (body,) = server.bodies(GENERATE)
    assert body["token_ids"] == IDS.tolist()
    assert body["model"] == "policy"
    assert body["features"] == {
        "mm_hashes": {"image": ["hash-4", "hash-2"]},
        "mm_placeholders": {"image": [{"offset": 2, "length": 4}, {"offset": 9, "length": 2}]},
        "kwargs_data": {"image": ["data-4", "data-2"]},
    }


def test_sampling_is_sent_as_it_was_asked_for(tmp_path: Path) -> None:
    server = Server(reply)
    generate(server, tmp_path)
    (body,) = server.bodies(GENERATE)
    sampling = body["sampling_params"]
    seed = sampling.pop("seed")
    assert sampling == {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 20,
        "max_tokens": 30,
        "stop": ["</answer>"],
        "stop_token_ids": [2],
        "logit_bias": {"9": -100.0, "11": -100.0},
        "logprobs": 1,
        "skip_special_tokens": False,
        "output_kind": 2,
    }
    assert 0 <= seed < 2**63
    other = Server(reply)
    generate(other, tmp_path, TokenParams(0.7, key=(0, "s", 1, 3)))
    assert next(other.bodies(GENERATE))["sampling_params"]["seed"] != seed


def test_a_picture_is_processed_once_for_all_turns_and_episodes(tmp_path: Path) -> None:
    server, pictures = Server(reply), parts(tmp_path)

    async def many() -> None:
        made = engine(server)
        await asyncio.gather(*(made.generate(IDS, pictures, PARAMS) for _ in range(5)))
        await made.generate(IDS, pictures, PARAMS)

    asyncio.run(many())
    assert len(list(server.bodies(RENDER))) == 2
    assert len(list(server.bodies(GENERATE))) == 6


def test_a_picture_that_could_not_be_processed_is_tried_again_later(tmp_path: Path) -> None:
    server, pictures, ids = Server(reply, *[httpx.Response(500)] * 2), parts(tmp_path)[1:], IDS[7:]

    async def twice() -> TokenOutput:
        made = engine(server)
        with pytest.raises(TransientError, match="HTTP 500"):
            await made.generate(ids, pictures, PARAMS)
        return await made.generate(ids, pictures, PARAMS)

    assert asyncio.run(twice()).finish_reason == "stop"


def test_text_alone_needs_no_features() -> None:
    server = Server(reply)
    asyncio.run(engine(server).generate(np.array([5, 6]), [], PARAMS))
    assert "features" not in next(server.bodies(GENERATE))


def test_a_broken_connection_is_tried_again_with_the_same_seed(tmp_path: Path) -> None:
    server = Server(reply)
    generate(server, tmp_path)
    asked = next(server.bodies(GENERATE))
    server = Server(reply, httpx.ReadError("reset"))
    asyncio.run(engine(server).generate(np.array([5, 6]), [], PARAMS))
    first, second = server.bodies(GENERATE)
    assert first == second
    assert first["sampling_params"]["seed"] == asked["sampling_params"]["seed"]


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (httpx.Response(503), TransientError, "HTTP 503"),
        (httpx.Response(429, headers={"retry-after": "0"}), RateLimitedError, "HTTP 429"),
        (httpx.Response(401), AuthError, "HTTP 401"),
        (httpx.Response(404), PermanentError, "start it with --enable-scale-out"),
        (httpx.Response(400, json={"error": {"message": "too long"}}), PermanentError, "too long"),
        (httpx.Response(200, text="<html>"), TransientError, "no JSON"),
        (httpx.Response(200, json=[1]), PermanentError, "an object is expected"),
        (httpx.Response(200, json={"choices": []}), PermanentError, "no token ids"),
        (httpx.ConnectError("refused"), TransientError, "is the server running"),
    ],
)
def test_what_goes_wrong_is_a_typed_error(answer: Any, kind: type[ServiceError], message: str) -> None:
    server = Server(reply, answer, answer)
    with pytest.raises(kind, match=message):
        asyncio.run(engine(server).generate(np.array([5]), [], PARAMS))


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"logprobs": None}, PermanentError, "without a log-probability for each"),
        ({"token_ids": [4, 3, 7]}, PermanentError, "other tokens than those sampled"),
        ({"token_ids": [4, 3, 2, 2]}, PermanentError, "without a log-probability for each"),
        ({"finish_reason": "abort"}, TransientError, r"broken off \(abort\)"),
        (
            {"token_ids": [4], "logprobs": {"content": [{"token": "token_id:4", "logprob": -9999.0}]}},
            PermanentError,
            "without a log-probability",
        ),
    ],
)
def test_a_reply_that_cannot_be_trained_on_is_refused(
    changes: dict[str, Any], kind: type[ServiceError], message: str
) -> None:
    server = Server(lambda path, body: reply(path, body, **changes))
    with pytest.raises(kind, match=message):
        asyncio.run(engine(server).generate(np.array([5]), [], PARAMS))


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": {"a": 1}},
        {"choices": ["x"]},
        {"choices": 5},
        {"choices": [{"token_ids": 5}]},
        {"choices": [{"token_ids": "ab"}]},
        {"choices": [{"token_ids": [2], "logprobs": [1]}]},
        {"choices": [{"token_ids": [2], "logprobs": {"content": {"a": 1}}}]},
        {"choices": [{"token_ids": [2], "logprobs": {"content": [None]}}]},
        {"usage": [1], "choices": []},
    ],
    ids=repr,
)
def test_an_answer_of_another_form_is_the_servers_failure(answer: Any) -> None:
    with pytest.raises(PermanentError, match=r"its answer has another form: (choices|usage)"):
        asyncio.run(engine(Server(lambda *_: answer)).generate(np.array([5]), [], PARAMS))


def test_a_server_that_sees_another_prompt_is_refused(tmp_path: Path) -> None:
    server = Server(lambda path, body: {**reply(path, body), "usage": {"prompt_tokens": 99}})
    with pytest.raises(PermanentError, match="counts 99 prompt tokens where 1 were sent"):
        asyncio.run(engine(server).generate(np.array([5]), [], PARAMS))
    made = engine(Server(reply))
    with pytest.raises(PermanentError, match=r"sees .*0\.png as 4 tokens, the policy as 2"):
        asyncio.run(made.generate(np.array([5, 9, 9, 6]), parts(tmp_path)[:1], PARAMS))


def test_the_key_travels_in_the_header_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLAGENT_API_KEY", "sekret")
    server = Server(reply, *[httpx.Response(400, text="bad key sekret")] * 2)
    with pytest.raises(PermanentError) as caught:
        asyncio.run(engine(server).generate(np.array([5]), [], PARAMS))
    assert server.requests[0][2]["authorization"] == "Bearer sekret"
    assert "sekret" not in str(caught.value)


def test_an_address_that_is_none_is_the_users_error() -> None:
    with pytest.raises(UserError, match="write it as http://HOST:PORT"):
        engine(Server(reply), base_url="gpu:8000")


def test_whoever_is_cancelled_leaves_the_picture_to_the_others(tmp_path: Path) -> None:
    server, pictures = Server(reply), parts(tmp_path)

    async def run() -> TokenOutput:
        made = engine(server)
        first, second = (asyncio.create_task(made.generate(IDS, pictures, PARAMS)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(run()).ids.tolist() == [4, 3, 2]
