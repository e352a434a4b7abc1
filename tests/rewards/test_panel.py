import pytest

from tests.rewards.models import Says
from vlagent.errors import TransientError
from vlagent.files import read_records
from vlagent.rewards.judge import Judge
from vlagent.rewards.opinions import Opinion
from vlagent.rewards.panel import Panel
from vlagent.types import Sample

SAMPLE = Sample(id="1", source="s", question="Which city?", answers=("Paris",))
YES, NO, NOTHING = "VERDICT: YES", "VERDICT: NO", "Hm."
DOWN = TransientError("judge", "down")


def panel(decides, *said):
    return Panel([Judge(Says([each], name=f"j{n}"), attempts=1) for n, each in enumerate(said)], decides)


@pytest.mark.parametrize(
    ("decides", "said", "right"),
    [
        ("first", (YES, NO), True),
        ("first", (NO, YES, YES), False),
        ("first", (NOTHING, YES), None),
        ("first", (YES, DOWN), True),
        ("majority", (NO, YES, YES), True),
        ("majority", (YES, NO, NO), False),
        ("majority", (YES, NO), None),
        ("majority", (YES, NOTHING), True),
        ("majority", (NOTHING, NOTHING), None),
        ("agree", (YES, YES), True),
        ("agree", (NO, NO), False),
        ("agree", (YES, NO), None),
        ("agree", (YES, NOTHING), None),
        ("agree", (NOTHING, NOTHING), None),
    ],
)
async def test_who_decides(decides, said, right):
    assert (await panel(decides, *said).verdict(SAMPLE, "x")).right is right


@pytest.mark.parametrize(
    ("decides", "said"), [("first", (DOWN, YES)), ("majority", (YES, YES, DOWN)), ("agree", (YES, DOWN))]
)
async def test_a_judge_that_the_decision_needs_and_is_down_raises(decides, said):
    with pytest.raises(TransientError):
        await panel(decides, *said).verdict(SAMPLE, "x")


async def test_every_judge_leaves_its_opinion_the_failed_and_the_cached_ones_too(tmp_path):
    log = tmp_path / "judgements.jsonl"
    models = [Says([YES], name="a"), Says([NOTHING], name="b"), Says([DOWN], name="c")]
    both = Panel([Judge(model, attempts=2, log=log) for model in models])
    await both.verdict(SAMPLE, "x")
    await both.verdict(SAMPLE, "x")
    opinions = list(read_records(log, Opinion))
    seen = sorted((o.judge, o.verdict.right, bool(o.failure), o.cached, o.attempts) for o in opinions if o.judge != "b")
    assert seen == [
        ("a", True, False, False, 1),
        ("a", True, False, True, 0),
        ("c", None, True, False, 1),
        ("c", None, True, False, 1),
    ]
    assert [(o.verdict.right, o.attempts, o.usage.calls) for o in opinions if o.judge == "b"] == [(None, 2, 2)] * 2


async def test_a_run_and_the_next_share_a_cache_and_each_logs_its_own_opinions(tmp_path):
    cache = tmp_path / "cache.jsonl"
    await Judge(Says([YES]), log=tmp_path / "one.jsonl", cache=cache).verdict(SAMPLE, "x")
    again = Says([NO])
    verdict = await Judge(again, log=tmp_path / "two.jsonl", cache=cache).verdict(SAMPLE, "x")
    assert (verdict.right, again.requests) == (True, [])
    (opinion,) = read_records(tmp_path / "two.jsonl", Opinion)
    assert (opinion.cached, opinion.usage.calls) == (True, 0)


async def test_an_opinion_of_the_run_itself_is_never_paid_for_twice(tmp_path):
    log = tmp_path / "judgements.jsonl"
    await Judge(Says([YES]), log=log).verdict(SAMPLE, "x")
    again = Says([NO])
    assert (await Judge(again, log=log).verdict(SAMPLE, "x")).right is True
    assert again.requests == []
