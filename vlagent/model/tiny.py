"""Tiny random models of the real architectures, and a tokenizer that encodes any text.

Small enough to train on a CPU in minutes (1-2 M parameters), yet loaded, tokenised and positioned by the same code as
a released checkpoint. The starting weights are scaled so that it learns fast; they are not a checkpoint's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen3VLConfig
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from vlagent.model.load import ARCHITECTURES, PilProcessor, Policy, wrap_processor
from vlagent.render.sizing import LIMITS, PixelLimits
from vlagent.types import Record

SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
PROTOCOL_PIECES = (
    "system\n",
    "user\n",
    "assistant\n",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<answer>",
    "</answer>",
    '{"name": "',
    '", "arguments": {',
    "image_crop",
    "text_search",
    "image_search",
    '"bbox": [',
    '], "image_index": ',
    '"image_index": ',
    '"query": "',
    "}}",
    '"}}',
    ", ",
)
"""Parts of the protocol's wire form, one token each."""
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""What `Renderer` writes, for plain transformers and for servers."""


class TinyText(Record):
    """The decoder."""

    hidden: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    ff: int = 336
    mrope_section: tuple[int, int, int] = (6, 5, 5)
    """Rotary frequencies for time, height and width; together half of `head_dim`."""
    rope_theta: float = 10_000.0
    max_positions: int = 4096


class TinyVision(Record):
    """The vision tower."""

    hidden: int = 96
    depth: int = 3
    heads: int = 4
    ff: int = 256
    patch: int = 8
    merge: int = 2
    temporal_patch: int = 1
    deepstack: tuple[int, ...] = (0,)
    """Layers whose features also enter the decoder's first layers (Qwen3-VL only)."""
    positions: int = 144
    """Learned positions, a square (Qwen3-VL only)."""
    window: int = 32
    """Pixels of an attention window (Qwen2.5-VL only; the last layer sees the whole picture)."""


class TinySpec(Record):
    """Everything that makes a tiny model, up to its seed."""

    architecture: Literal["qwen3_vl", "qwen2_5_vl"] = "qwen3_vl"
    text: TinyText = TinyText()
    vision: TinyVision = TinyVision()
    limits: PixelLimits = LIMITS["tiny"]
    pieces: tuple[str, ...] = Field(default=PROTOCOL_PIECES)
    """ASCII strings that are one token each; everything else is bytes."""


def make_tokenizer(pieces: Sequence[str]) -> PreTrainedTokenizerFast:
    """The longest piece at each place, else bytes: any text comes back as it was. Specials have the lowest ids."""
    bad = next((piece for piece in pieces if not piece or not piece.isascii()), None)
    if bad is not None:
        raise ValueError(f"piece {bad!r}: pieces are non-empty ASCII strings")
    symbols = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(symbols)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    core.add_tokens([AddedToken(piece, normalized=False) for piece in dict.fromkeys(pieces) if len(piece) > 1])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=SPECIALS[0],
        eos_token="<|im_end|>",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def make_policy(spec: TinySpec | None = None, seed: int = 0) -> Policy:
    """A random model and its processor; the same spec and seed give the same weights."""
    spec = spec or TinySpec()
    tokenizer = make_tokenizer(spec.pieces)
    image = Qwen2VLImageProcessorPil(
        patch_size=spec.vision.patch,
        merge_size=spec.vision.merge,
        temporal_patch_size=spec.vision.temporal_patch,
        size={"shortest_edge": spec.limits.min_pixels, "longest_edge": spec.limits.max_pixels},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ARCHITECTURES[spec.architecture][0](_config(spec, tokenizer))
        scale_weights(model)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model.generation_config.update(eos_token_id=end, pad_token_id=tokenizer.pad_token_id, bos_token_id=None)
    return Policy(model.eval(), wrap_processor(PilProcessor(image, tokenizer)), f"tiny-{spec.architecture}")


def _config(spec: TinySpec, tokenizer: PreTrainedTokenizerFast) -> Any:
    if spec.limits.factor != spec.vision.patch * spec.vision.merge:
        raise ValueError(f"limits.factor {spec.limits.factor} is not patch x merge")
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in SPECIALS}
    build, vision = _QWEN3 if spec.architecture == "qwen3_vl" else _QWEN25
    return build(
        text_config=_text(spec, len(tokenizer), ids),
        vision_config=vision(spec),
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )


def _text(spec: TinySpec, vocabulary: int, ids: dict[str, int]) -> dict[str, Any]:
    text = spec.text
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": text.rope_theta}
    rope["mrope_section"] = list(text.mrope_section)
    own: dict[str, Any] = {}
    if spec.architecture == "qwen3_vl":
        rope["mrope_interleaved"] = True
        own["head_dim"] = text.head_dim
    return own | {
        "vocab_size": vocabulary,
        "hidden_size": text.hidden,
        "intermediate_size": text.ff,
        "num_hidden_layers": text.layers,
        "num_attention_heads": text.heads,
        "num_key_value_heads": text.kv_heads,
        "max_position_embeddings": text.max_positions,
        "rope_parameters": rope,
        "tie_word_embeddings": True,
        "pad_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "bos_token_id": None,
    }


def _vision(spec: TinySpec) -> dict[str, Any]:
    vision = spec.vision
    return {
        "depth": vision.depth,
        "hidden_size": vision.hidden,
        "intermediate_size": vision.ff,
        "num_heads": vision.heads,
        "in_channels": 3,
        "patch_size": vision.patch,
        "spatial_merge_size": vision.merge,
        "temporal_patch_size": vision.temporal_patch,
        "out_hidden_size": spec.text.hidden,
    }


def _vision3(spec: TinySpec) -> dict[str, Any]:
    own = {"num_position_embeddings": spec.vision.positions, "deepstack_visual_indexes": list(spec.vision.deepstack)}
    return _vision(spec) | own


def _vision25(spec: TinySpec) -> dict[str, Any]:
    return _vision(spec) | {"window_size": spec.vision.window, "fullatt_block_indexes": [spec.vision.depth - 1]}


_QWEN3 = (Qwen3VLConfig, _vision3)
_QWEN25 = (Qwen2_5_VLConfig, _vision25)

_OUTPUTS = ("o_proj", "down_proj", "attn.proj", "linear_fc2", "mlp.2")


@torch.no_grad()
def scale_weights(model: nn.Module) -> None:
    """Draw every matrix anew, scaled by its fan-in, so that a few hundred steps suffice (norms and biases stay)."""
    for name, weight in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            weight.fill_(1.35)
        elif weight.dim() >= 2:
            nn.init.normal_(weight, 0.0, _spread(name, weight))
        if "deepstack_merger" in name and "linear_fc2.weight" in name:
            weight.zero_()


def _spread(name: str, weight: torch.Tensor) -> float:
    fan_in = weight[0].numel()
    if "embed_tokens" in name or "lm_head" in name:
        return 0.06
    if "pos_embed" in name:
        return 0.3
    if "patch_embed" in name:
        return 1.5 / float(fan_in**0.5)
    return (0.4 if any(part in name for part in _OUTPUTS) else 0.8) / float(fan_in**0.5)
