"""What a configuration may say."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.agent.parts import Policy, Shelf, answer, call, lines, make_agent, sample
from vlagent.agent.config import PRESETS, AgentConfig, preset
from vlagent.agent.loop import run_agent
from vlagent.config import load_config
from vlagent.errors import UserError
from vlagent.render.prompts import Prompts


def test_the_presets_are_the_published_settings():
    paper, released = preset("paper"), preset("released")
    assert (paper.sampling.temperature, paper.top_k, paper.max_turns) == (0.0, 5, 10)
    drawn = released.sampling
    assert (drawn.temperature, drawn.top_p, drawn.top_k, drawn.presence_penalty) == (0.7, 0.8, 20, 1.5)
    assert (released.top_k, released.seed) == (3, 3407)
    for config in (paper, released):
        limits = (config.max_tokens_turn, config.max_tokens_total, config.warn_last_turn, config.crop_source)
        assert limits == (8192, 32768, False, "original")


def test_a_preset_can_be_changed_and_a_wrong_change_is_named():
    assert preset("released", max_turns=4, dialect="mars-released").max_turns == 4
    with pytest.raises(UserError, match="max_turns"):
        preset("paper", max_turns=0)
    with pytest.raises(UserError, match="there are paper, released"):
        preset("papre")
    assert set(PRESETS) == {"paper", "released"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("workflow", "loop"),
        ("dialect", "klingon"),
        ("max_turns", 0),
        ("max_tokens_turn", 0),
        ("max_tokens_total", -1),
        ("time_limit_s", 0),
        ("budget_usd", -0.5),
        ("max_invalid", 0),
        ("max_world_faults", 0),
        ("crop_source", "thumbnail"),
        ("tools", ["ocr", "ocr"]),
        ("top_k", 6),
        ("sampling", {"max_tokens": 77}),
        ("max_turn", 3),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(key, value):
    with pytest.raises(ValidationError) as caught:
        AgentConfig.model_validate({key: value})
    assert key in str(caught.value)


def test_a_configuration_survives_its_own_json():
    config = preset(
        "released", max_tokens_turn=512, time_limit_s=9.5, tools=("ocr",), prompts=Prompts(system="be brief")
    )
    assert AgentConfig.model_validate_json(config.model_dump_json()) == config


def test_a_configuration_can_be_read_from_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('dialect = "mars-paper"\n[sampling]\ntemperature = 0.3\n')
    config = load_config(AgentConfig, path, ["max_turns=4"])
    assert (config.dialect, config.sampling.temperature, config.max_turns) == ("mars-paper", 0.3, 4)


async def test_the_number_of_results_reaches_the_tools():
    shelf = Shelf({"c": "1", "ca": "2", "cas": "3"})
    model = Policy(lines(call("text_search", query="cas"), answer("x")))
    for top_k in (1, 2):
        trajectory = await run_agent(make_agent(model, shelf, top_k=top_k), sample())
        assert len(trajectory.turns[0].observation.hits) == top_k


async def test_a_users_prompt_wins_over_a_manifests_and_that_over_ours():
    model = Policy(lines(answer("x")))
    asked = sample(system_prompt="prompt of the data set")
    for config, expected in (
        ({"prompts": Prompts(system="my own prompt")}, "my own prompt"),
        ({}, "prompt of the data set"),
    ):
        await run_agent(make_agent(model, Shelf(), **config), asked)
        assert expected in model.requests[-1].messages[0].text
    await run_agent(make_agent(model, Shelf()), sample())
    assert "prompt" not in model.requests[-1].messages[0].text
    await run_agent(make_agent(model, workflow="direct"), asked)
    assert "data set" not in model.requests[-1].messages[0].text
