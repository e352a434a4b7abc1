from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration, Qwen3VLForConditionalGeneration

from tests.model.stock import stock_logits
from vlagent.errors import UserError
from vlagent.model.load import load_policy, load_processor
from vlagent.model.tiny import PROTOCOL_PIECES, SPECIALS, TinySpec, TinyVision, make_policy, make_tokenizer
from vlagent.render.sizing import LIMITS

PIECES = (*PROTOCOL_PIECES, "1950", "195", "Belmont", " was founded in ")
TOKENIZER = make_tokenizer(PIECES)


@settings(max_examples=200)
@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from((*PIECES, *SPECIALS, "é", "漢字", "\x00"))), max_size=8))
def test_any_text_comes_back_as_it_was(fragments: list[str]) -> None:
    text = "".join(fragments).encode("utf-8", "ignore").decode()
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False)) == text


def test_each_piece_is_one_token_and_the_longest_one_wins() -> None:
    assert all(len(TOKENIZER.encode(piece, add_special_tokens=False)) == 1 for piece in PIECES)
    assert TOKENIZER.tokenize("19501955") == ["1950", "195", "5"]


def test_a_piece_that_is_not_ascii_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="é"):
        make_tokenizer(["é"])


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    a, b, c = (make_policy(seed=seed).model.state_dict() for seed in (5, 5, 6))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["lm_head.weight"], c["lm_head.weight"])


def test_plain_transformers_loads_the_folder_and_computes_the_same(policy: Any, parts: Any, tmp_path: Path) -> None:
    policy.save(tmp_path)
    stock = {"qwen3_vl": Qwen3VLForConditionalGeneration, "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration}
    plain, info = stock[policy.model_type].from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    ids = _one_picture(policy)
    expected = stock_logits(policy, ids, parts[:1])
    policy_again = load_policy(tmp_path)
    assert torch.equal(stock_logits(policy_again, ids, parts[:1]), expected)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), policy.model.parameters(), strict=True))
    text = "user\n<answer>é</answer>"
    assert AutoTokenizer.from_pretrained(tmp_path).encode(text) == policy.processor.hf.tokenizer.encode(text)


def _one_picture(policy: Any) -> np.ndarray:
    ids = policy.processor.vocabulary.ids
    return np.array([ids["<|vision_start|>"], *[ids["<|image_pad|>"]] * 36, ids["<|vision_end|>"], 70, 71, 72])


def test_half_precision_on_disk_is_float32_in_memory_and_half_the_size(policy: Any, tmp_path: Path) -> None:
    policy.save(tmp_path / "half", dtype=torch.float16)
    policy.save(tmp_path / "full")
    half, full = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("half", "full"))
    assert half < 0.55 * full
    assert load_policy(tmp_path / "half").model.dtype == torch.float32
    assert policy.model.dtype == torch.float32


def test_the_processor_survives_a_round_trip(policy: Any, parts: Any, tmp_path: Path) -> None:
    policy.processor.save(tmp_path, policy.model_type)
    again = load_processor(tmp_path)
    assert again.limits == policy.processor.limits == LIMITS["tiny"]
    assert again.vocabulary.banned == policy.processor.vocabulary.banned
    assert torch.equal(again.load(parts[1]).patches, policy.processor.load(parts[1]).patches)


@pytest.mark.parametrize("temporal", [1, 2])
def test_the_temporal_patch_size_reaches_the_image_processor(temporal: int) -> None:
    policy = make_policy(TinySpec(vision=TinyVision(temporal_patch=temporal)))
    pixels = policy.processor.pixels(Image.new("RGB", (96, 48)))
    assert pixels.patches.shape == (72, 3 * temporal * 8 * 8)
    assert pixels.grid == (6, 12)


def test_a_view_off_the_grid_is_refused(policy: Any) -> None:
    with pytest.raises(ValueError, match="90 x 96"):
        policy.processor.pixels(Image.new("RGB", (90, 96)))


def test_banned_are_image_slots_roles_and_padding_but_never_the_turn_end(policy: Any) -> None:
    vocabulary = policy.processor.vocabulary
    names = {name for name, i in vocabulary.ids.items() if i in vocabulary.banned}
    assert {"<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|im_start|>", "<|endoftext|>"} <= names
    assert "<|im_end|>" not in names


def test_a_folder_without_a_checkpoint_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json"):
        load_policy(tmp_path)


def test_another_architecture_is_named_with_the_supported_ones(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UserError, match=r"gpt2.*qwen3_vl"):
        load_policy(tmp_path)
