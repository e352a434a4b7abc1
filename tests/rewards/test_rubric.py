import pytest

from tests.rewards.models import Says
from vlagent.errors import TransientError
from vlagent.rewards.judge import Judge
from vlagent.rewards.rubric import outcome_of, reward
from vlagent.types import Call, Fault, Observation, Outcome, Sample, StopReason, Trajectory, Turn

SAMPLE = Sample(id="1", source="s", question="Which city?", answers=("Paris",))
MCQ = SAMPLE.model_copy(update={"answers": ("B",), "choices": {"A": "red", "B": "blue"}})


def played(stop=StopReason.ANSWERED, answer="Paris", *, world_fault=False, format_ok=True):
    fault = Fault.WORLD if world_fault else None
    call = Turn(text="", think="t", call=Call(name="c"), format_ok=True, observation=Observation(text="", fault=fault))
    last = Turn(text="", think="t", answer=answer, format_ok=format_ok)
    turns = (call, last) if stop is StopReason.ANSWERED else (call,)
    return Trajectory(sample_id="1", turns=turns, answer=answer, stop=stop)


def saying(*replies):
    return Judge(Says(list(replies)), attempts=2)


@pytest.mark.parametrize(
    ("trajectory", "judge", "outcome", "trains", "total"),
    [
        (played(), None, "right", "yes", 1.5),
        (played(format_ok=False), None, "right", "yes", 1.0),
        (played(answer="Lyon"), None, "wrong", "yes", 0.5),
        (played(answer="the French capital"), saying("VERDICT: YES"), "right", "yes", 1.5),
        (played(answer="Lyon"), saying("VERDICT: NO"), "wrong", "yes", 0.5),
        (played(answer="Lyon"), saying("Hm."), "unscored", "excluded", None),
        (played(answer="Lyon"), saying(TransientError("judge", "down")), "failed", "excluded", None),
        (played(world_fault=True), None, "right", "excluded", 1.5),
        (played(answer="Lyon", world_fault=True), None, "wrong", "excluded", 0.5),
        (played(StopReason.TURN_LIMIT, None), None, "wrong", "by_option", 0.0),
        (played(StopReason.TOKEN_LIMIT, None), None, "wrong", "by_option", 0.0),
        (played(StopReason.INVALID_ACTIONS, None), None, "wrong", "by_option", 0.0),
        (played(StopReason.TURN_LIMIT, None, world_fault=True), None, "wrong", "excluded", 0.0),
        (played(StopReason.TIME_LIMIT, None), None, "failed", "excluded", None),
        (played(StopReason.BUDGET_LIMIT, None), None, "failed", "excluded", None),
        (played(StopReason.TOOL_FAILURE, None), None, "failed", "excluded", None),
        (played(StopReason.MODEL_FAILURE, None), None, "failed", "excluded", None),
        (played(StopReason.STOPPED_BY_USER, None), None, "not_counted", "excluded", None),
        (played(StopReason.CANCELLED, None), None, "not_counted", "excluded", None),
    ],
)
async def test_every_line_of_the_protocols_table(trajectory, judge, outcome, trains, total):
    scored = await outcome_of(SAMPLE, trajectory, judge)
    assert (scored.outcome, scored.trains) == (outcome, trains)
    assert (scored.reward.total if scored.reward else None) == total
    assert scored.degraded is trajectory.degraded
    assert scored.why


async def test_every_stop_reason_has_an_outcome():
    for stop in StopReason:
        assert (await outcome_of(SAMPLE, played(stop), None)).outcome in Outcome


async def test_the_judge_is_not_asked_where_a_rule_decides():
    model = Says(["VERDICT: NO"])
    scored = await outcome_of(SAMPLE, played(answer="paris."), Judge(model))
    assert (scored.outcome, model.requests) == ("right", [])


async def test_an_empty_answer_is_wrong_without_a_judge_call():
    model = Says(["VERDICT: YES"])
    assert (await outcome_of(SAMPLE, played(answer="  "), Judge(model))).outcome == "wrong"
    assert not model.requests


async def test_options_are_matched_by_letter_and_never_judged():
    model = Says(["VERDICT: YES"])
    for answer, outcome in (("(B) blue", "right"), ("A", "wrong"), ("blue", "wrong"), ("A or B", "wrong")):
        assert (await outcome_of(MCQ, played(answer=answer), Judge(model))).outcome == outcome
    assert not model.requests


async def test_a_truth_may_be_the_text_of_an_option():
    sample = MCQ.model_copy(update={"answers": ("Blue",)})
    assert (await outcome_of(sample, played(answer="B"), None)).outcome == "right"


async def test_a_truth_that_is_no_option_leaves_the_episode_unscored():
    sample = MCQ.model_copy(update={"answers": ("green",)})
    assert (await outcome_of(sample, played(answer="B"), None)).outcome == "unscored"


async def test_a_sample_without_truths_is_unscored():
    sample = SAMPLE.model_copy(update={"answers": ()})
    assert (await outcome_of(sample, played(), None)).outcome == "unscored"


async def test_a_manifest_that_asks_for_exact_match_is_not_judged():
    model = Says(["VERDICT: YES"])
    exact = SAMPLE.model_copy(update={"extra": {"reward_fn": ["em_score", "format_score"]}})
    assert (await outcome_of(exact, played(answer="Lutetia"), Judge(model))).outcome == "wrong"
    judged = SAMPLE.model_copy(update={"extra": {"reward_fn": ["llm_score", "format_score"]}})
    assert (await outcome_of(judged, played(answer="Lutetia"), Judge(model))).outcome == "right"


async def test_the_reward_is_none_where_there_is_nothing_to_reward():
    assert (await reward(SAMPLE, played())).parts == {"accuracy": 1.0, "format": 1.0}
    assert await reward(SAMPLE, played(StopReason.MODEL_FAILURE, None)) is None


async def test_what_a_half_broken_service_gave_is_scored_but_never_trains():
    half = Observation(text="", degraded=True)
    search = Turn(text="", think="t", call=Call(name="c"), format_ok=True, observation=half)
    whole = played()
    for trajectory in (
        whole.model_copy(update={"turns": (search, whole.turns[-1])}),
        whole.model_copy(update={"context": (half,), "workflow": "rag"}),
        whole.model_copy(update={"context": (Observation(text="", fault=Fault.WORLD),), "workflow": "rag"}),
    ):
        scored = await outcome_of(SAMPLE, trajectory, None)
        assert (scored.outcome, scored.trains, scored.degraded) == ("right", "excluded", True)
