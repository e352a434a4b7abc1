from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vlagent.config import load_config, make_config
from vlagent.errors import UserError
from vlagent.train.config import SftConfig
from vlagent.train.plan import Plan, plan_sft, plan_table

CONFIG = Path(__file__).parents[2] / "configs" / "sft" / "mars_7b_sft.toml"


@pytest.fixture(scope="module")
def seven_b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The config.json of a model of the size of Qwen2.5-VL-7B, without its weights."""
    from transformers import Qwen2_5_VLConfig

    text = {"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28}
    text |= {"num_attention_heads": 28, "num_key_value_heads": 4, "tie_word_embeddings": False}
    vision = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584}
    folder = tmp_path_factory.mktemp("7b")
    Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=False).save_pretrained(folder)
    return folder


def _plan(folder: Path, *changes: str) -> Plan:
    return plan_sft(load_config(SftConfig, CONFIG, [f"model.path={folder}", *changes]))


def _parts(plan: Plan) -> dict[str, tuple[int, int]]:
    return {part.name: (part.weights, part.trained) for part in plan.parts}


def test_the_7b_model_is_counted_from_its_configuration_alone(seven_b: Path) -> None:
    plan = _plan(seven_b)
    parts = _parts(plan)
    assert sum(weights for weights, _ in parts.values()) == 8_292_166_656
    assert parts["vision"][1] == parts["projector"][1] == 0
    assert parts["language"][0] == parts["language"][1] == 7_615_616_512
    assert plan.weights == 2 * 8_292_166_656
    assert plan.gradients == 2 * 7_615_616_512
    assert plan.optimizer == 10 * 7_615_616_512
    assert "ESTIMATE" in plan_table(plan)


def test_each_choice_that_saves_memory_is_seen(seven_b: Path) -> None:
    base = _plan(seven_b)
    lora = _plan(seven_b, "model.lora={rank=8}")
    assert _parts(lora)["language"][1] == 0
    layer = 8 * (3 * (3584 + 18944) + 2 * (3584 + 3584) + 2 * (3584 + 512))
    assert _parts(lora)["adapters"] == (28 * layer, 28 * layer)
    assert lora.optimizer < base.optimizer / 100
    assert _plan(seven_b, "model.gradient_checkpointing=false").activations > 5 * base.activations
    exact = _plan(seven_b, "model.dtype=float32")
    assert exact.weights == exact.gradients + 4 * (8_292_166_656 - 7_615_616_512) == 2 * base.weights
    assert exact.optimizer == 8 * 7_615_616_512
    assert _plan(seven_b, "model.dtype=float32", "model.mixed_precision=bf16").weights == 3 * base.weights
    assert _plan(seven_b, "batch.micro_tokens=8192").logits == base.logits / 2
    assert _plan(seven_b, "model.freeze=[]").gradients > base.gradients


def test_the_plan_of_a_tiny_model_counts_what_is_loaded(tiny: Path) -> None:
    from vlagent.model.load import load_policy

    config = make_config(SftConfig, {"model": {"path": str(tiny)}, "sources": [{"run": "r"}]})
    loaded: Any = load_policy(tiny).model
    assert sum(part.weights for part in plan_sft(config).parts) == sum(w.numel() for w in loaded.parameters())


def test_a_model_that_is_not_there_is_named() -> None:
    config = make_config(SftConfig, {"model": {"path": "/nowhere"}, "sources": [{"run": "r"}]})
    with pytest.raises(UserError, match=r"model\.path = '/nowhere': no config\.json"):
        plan_sft(config)
