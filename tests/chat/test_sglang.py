"""The transport to SGLang; that its contract is kept is tested against a server written from its documentation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.chat.token_servers import IDS, SLOTS, Server, parts
from vlagent.chat.sglang import SglangEngine, SglangOptions
from vlagent.chat.tokens import TokenParams
from vlagent.errors import PermanentError, ServiceError, TransientError

PARAMS = TokenParams(0.7, top_k=20, presence_penalty=1.5, max_tokens=30, stop=("</answer>",), key=(0, "s", 1, 2))


def reply(path: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    assert path == "/generate"
    meta = {
        "prompt_tokens": len(body["input_ids"]),
        "completion_tokens": 3,
        "finish_reason": {"type": "stop", "matched": 2},
        "output_token_logprobs": [[-0.0, 4, None], [-0.5, 3, None], [-1.0, 2, None]],
    }
    return {"text": "x", "meta_info": {**meta, **changes}}


def engine(server: Server, **options: Any) -> SglangEngine:
    return SglangEngine(SLOTS, SglangOptions(**{"attempts": 2, "wait_s": 0.001, **options}), server.transport)


def test_ids_and_pictures_go_out_and_ids_and_log_probabilities_come_back(tmp_path: Path) -> None:
    server = Server(reply)
    out = asyncio.run(engine(server).generate(IDS, parts(tmp_path), PARAMS))
    assert out.ids.tolist() == [4, 3, 2]
    assert out.logprobs.tolist() == [0.0, -0.5, -1.0]
    assert out.finish_reason == "stop"
    (body,) = server.bodies("/generate")
    assert body["input_ids"] == IDS.tolist()
    assert [url.split(",")[0] for url in body["image_data"]] == ["data:image/png;base64"] * 2
    assert body["image_data"][0] != body["image_data"][1]
    assert body["return_logprob"] is True
    assert body["sampling_params"] == {
        "temperature": 0.7,
        "top_k": 20,
        "presence_penalty": 1.5,
        "max_new_tokens": 30,
        "stop": ["</answer>"],
        "stop_token_ids": [2],
        "logit_bias": {"9": -100.0, "11": -100.0},
        "skip_special_tokens": False,
        "no_stop_trim": True,
    }


def test_a_seed_is_sent_where_the_server_takes_one() -> None:
    seeds = []
    for key in ((0, "s", 1, 2), (0, "s", 1, 2), (0, "s", 1, 3)):
        server = Server(reply)
        asyncio.run(engine(server, send_seed=True).generate(np.array([5]), [], TokenParams(1.0, key=key)))
        seeds.append(next(server.bodies("/generate"))["sampling_params"]["sampling_seed"])
    assert seeds[0] == seeds[1] != seeds[2]
    assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"output_token_logprobs": None}, PermanentError, "no token ids"),
        ({"output_token_logprobs": [[None, 4, None]]}, PermanentError, "without a log-probability"),
        ({"finish_reason": {"type": "abort", "message": "out of memory"}}, TransientError, r"broken off \(abort\)"),
        (
            {"finish_reason": {"type": "abort", "status_code": 400, "message": "too long"}},
            PermanentError,
            r"refused the request \(too long\)",
        ),
        ({"prompt_tokens": 7}, PermanentError, "counts 7 prompt tokens where 1 were sent"),
    ],
)
def test_a_reply_that_cannot_be_trained_on_is_refused(
    changes: dict[str, Any], kind: type[ServiceError], message: str
) -> None:
    server = Server(lambda path, body: reply(path, body, **changes))
    with pytest.raises(kind, match=message):
        asyncio.run(engine(server).generate(np.array([5]), [], PARAMS))


@pytest.mark.parametrize(
    "meta",
    [
        [1],
        {"finish_reason": "stop"},
        {"output_token_logprobs": "ab"},
        {"output_token_logprobs": 5},
        {"output_token_logprobs": [None]},
        {"output_token_logprobs": [[-0.5]]},
        {"finish_reason": {"type": {}}, "output_token_logprobs": [[-0.5, 2, None]]},
    ],
    ids=repr,
)
def test_an_answer_of_another_form_is_the_servers_failure(meta: Any) -> None:
    server = Server(lambda path, body: {"meta_info": meta})
    with pytest.raises(ServiceError, match=r"meta_info|broken off"):
        asyncio.run(engine(server).generate(np.array([5]), [], PARAMS))


@pytest.mark.parametrize("sampled", [50, 2**70, 9, True, -1, 4.0])
def test_an_id_that_the_policy_cannot_have_sampled_is_refused(sampled: Any) -> None:
    tokens = [[-0.5, sampled, None], [-1.0, 2, None]]
    server = Server(lambda path, body: reply(path, body, output_token_logprobs=tokens))
    slots = replace(SLOTS, size=50)
    with pytest.raises(PermanentError, match=r"no token ids|sampled the id \d+"):
        asyncio.run(SglangEngine(slots, SglangOptions(), server.transport).generate(np.array([5]), [], PARAMS))


def test_a_broken_connection_is_tried_again() -> None:
    server = Server(reply, httpx.RemoteProtocolError("cut"))
    assert asyncio.run(engine(server).generate(np.array([5]), [], PARAMS)).ids.tolist() == [4, 3, 2]
    assert len(server.requests) == 2


def test_new_weights_are_loaded_from_a_folder(tmp_path: Path) -> None:
    server = Server(lambda path, body: {"success": True, "message": "ok"})
    asyncio.run(engine(server).update_weights(tmp_path))
    assert server.requests[0][:2] == ("/update_weights_from_disk", {"model_path": str(tmp_path)})
    refusing = Server(lambda path, body: {"success": False, "message": "another architecture"})
    with pytest.raises(PermanentError, match="another architecture"):
        asyncio.run(engine(refusing).update_weights(tmp_path))
