"""The token engines against servers that were written from the servers' own documentation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.fakes.rollout_servers import REPLY, Sglang, Vllm, tokens_of
from tests.fakes.web_server import Fault
from vlagent.chat.base import ImagePart
from vlagent.chat.sglang import SglangEngine, SglangOptions
from vlagent.chat.token_server import Slots, TokenServerOptions
from vlagent.chat.tokens import TokenParams
from vlagent.chat.vllm import VllmEngine
from vlagent.errors import PermanentError, RateLimitedError, TransientError
from vlagent.types import ImageRef

SLOTS = Slots(image_pad=9, banned=(9, 11), eos=(2,))
PARAMS = TokenParams(
    temperature=0.7, top_p=0.9, top_k=20, presence_penalty=1.5, max_tokens=8, stop=("</answer>",), key=(1, "s", 0, 2)
)


def picture(folder: Path, size: tuple[int, int]) -> ImagePart:
    path = folder / f"{size[0]}.png"
    Image.new("RGB", size, "teal").save(path)
    return ImagePart(ImageRef(path=str(path), width=size[0], height=size[1]), size)


def vllm(fake: Vllm) -> VllmEngine:
    return VllmEngine("policy", SLOTS, TokenServerOptions(base_url=fake.url, attempts=2, wait_s=0.01, timeout_s=20))


def sglang(fake: Sglang, **options: bool) -> SglangEngine:
    given = SglangOptions(base_url=fake.url, attempts=2, wait_s=0.01, timeout_s=20, **options)
    return SglangEngine(SLOTS, given)


async def test_vllm_takes_what_the_engine_sends_with_and_without_pictures(tmp_path: Path) -> None:
    with Vllm() as fake:
        engine = vllm(fake)
        for params in (PARAMS, TokenParams(), TokenParams(top_k=0), TokenParams(top_k=-1)):
            out = await engine.generate(np.array([5, 6, 7]), (), params)
            assert tuple(out.ids) == REPLY
            assert out.logprobs.tolist() == [-0.5] * len(REPLY)
            assert out.finish_reason == "stop"
        shown = [picture(tmp_path, (64, 64)), picture(tmp_path, (96, 32))]
        runs = [[9] * tokens_of(part.view) for part in shown]
        ids = np.array([5, *runs[0], 6, *runs[1], 7])
        for _ in range(2):
            assert tuple((await engine.generate(ids, shown, PARAMS)).ids) == REPLY
        assert fake.refused == []
        assert sum(asked.path.endswith("render") for asked in fake.seen) == 2
        await engine.aclose()


async def test_a_server_without_the_endpoint_or_the_model_says_what_to_do(tmp_path: Path) -> None:
    with Vllm(scale_out=False) as fake, pytest.raises(PermanentError, match="--enable-scale-out"):
        await vllm(fake).generate(np.array([5]), (), PARAMS)
    with Vllm(model="another") as fake, pytest.raises(PermanentError):
        await vllm(fake).generate(np.array([5]), (), PARAMS)


async def test_a_picture_of_another_size_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with Vllm() as fake:
        part = picture(tmp_path, (64, 64))
        with pytest.raises(PermanentError, match="pixel limits"):
            await vllm(fake).generate(np.array([5, 9, 9, 6]), [part], PARAMS)


async def test_sglang_takes_what_the_engine_sends_with_and_without_pictures(tmp_path: Path) -> None:
    with Sglang() as fake:
        engine = sglang(fake, send_seed=True)
        for params in (PARAMS, TokenParams(), TokenParams(top_k=0), TokenParams(top_k=-1)):
            out = await engine.generate(np.array([5, 6, 7]), (), params)
            assert tuple(out.ids) == REPLY
            assert out.finish_reason == "stop"
        await engine.generate(np.array([5, 9, 9, 6]), [picture(tmp_path, (64, 32))], PARAMS)
        await engine.update_weights(tmp_path)
        assert fake.weights == [str(tmp_path)]
        assert fake.refused == []
        fake.prompt_tokens = 77
        with pytest.raises(PermanentError, match="77 prompt tokens"):
            await engine.generate(np.array([5, 6, 7]), (), PARAMS)
        await engine.aclose()


@pytest.mark.parametrize("kind", ["500", "reset", "garbage", "truncated", "empty", "wrong_type"])
async def test_a_stumble_is_tried_again_and_a_server_that_stays_down_is_typed(kind: str) -> None:
    with Vllm() as one, Sglang() as other:
        for fake, engine in ((one, vllm(one)), (other, sglang(other))):
            fake.faults.append(Fault(kind))  # type: ignore[arg-type]
            assert tuple((await engine.generate(np.array([5, 6]), (), PARAMS)).ids) == REPLY  # type: ignore[attr-defined]
            fake.always = Fault(kind)  # type: ignore[arg-type]
            with pytest.raises((TransientError, RateLimitedError)):
                await engine.generate(np.array([5, 6]), (), PARAMS)  # type: ignore[attr-defined]
