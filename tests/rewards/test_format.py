from vlagent.agent.parse import parse
from vlagent.render.dialects import DIALECTS
from vlagent.rewards.format import format_reward
from vlagent.types import Call, StopReason, Trajectory, Turn

CALL = Turn(text="", think="t", call=Call(name="text_search"), format_ok=True)
ANSWER = Turn(text="", think="t", answer="Paris", format_ok=True)


def reward_of(*turns):
    return format_reward(Trajectory(sample_id="s", turns=turns, stop=StopReason.ANSWERED))[0]


def test_calls_in_form_and_then_an_answer_in_form_earn_the_reward():
    assert reward_of(CALL, CALL, ANSWER) == 1.0
    assert reward_of(ANSWER) == 1.0


def test_no_turn_earns_nothing():
    assert reward_of() == 0.0


def test_a_last_turn_without_an_answer_earns_nothing():
    assert reward_of(CALL) == 0.0
    assert reward_of(CALL, ANSWER.model_copy(update={"answer": "  "})) == 0.0


def test_an_answer_before_the_last_turn_earns_nothing():
    assert reward_of(ANSWER, ANSWER) == 0.0


def test_each_turn_out_of_form_costs_the_reward_and_is_named():
    for change in ({"format_ok": False}, {"error": "bad JSON"}, {"format_ok": False, "repairs": ("bbox",)}):
        bad = CALL.model_copy(update=change)
        value, why = format_reward(Trajectory(sample_id="s", turns=(CALL, bad, ANSWER), stop=StopReason.ANSWERED))
        assert value == 0.0
        assert "turn 2" in why


def test_tags_in_the_text_of_a_turn_change_nothing():
    noisy = CALL.model_copy(update={"text": "<answer>x</answer><think></think>"})
    assert reward_of(noisy, ANSWER) == 1.0


def test_a_closing_tag_that_a_stop_string_ate_costs_nothing():
    parsed = parse("<think>t</think><answer>Paris", "stop", DIALECTS["default"], {}, [])
    assert parsed.repairs == ("closing_tag",)
    last = Turn(text="", think="t", answer="Paris", repairs=parsed.repairs, format_ok=parsed.format_ok)
    assert reward_of(CALL, last) == 1.0
