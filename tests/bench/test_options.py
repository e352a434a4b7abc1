"""What bounds a whole run, what it is estimated to take, and what it writes down on its way."""

import asyncio
import json

import pytest

from tests.bench.test_evaluate import without_timing
from tests.bench.world import Adder, YesMan, adding, questions, run_here, settings
from vlagent.agent.config import AgentConfig
from vlagent.bench.config import EvalConfig
from vlagent.bench.estimate import describe, estimate
from vlagent.bench.progress import METRICS
from vlagent.bench.provenance import read_starts
from vlagent.bench.summary import summarise
from vlagent.chat.base import ChatReply
from vlagent.files import iter_jsonl
from vlagent.rewards.judge import Judge
from vlagent.rewards.matcher import Matcher
from vlagent.rewards.opinions import OPINIONS, read_opinions
from vlagent.rewards.panel import Panel
from vlagent.types import ImageRef, Usage

OPEN = {"answers": ("no number",)}


class Dear(YesMan):
    """A judge that costs a dollar a verdict."""

    name = "dear"

    async def complete(self, request):
        self.calls += 1
        return ChatReply(self.says, usage=Usage(prompt_tokens=50, completion_tokens=5, cost_usd=1.0, calls=1))


async def test_the_budget_ends_the_run_and_a_larger_one_goes_on_to_the_same_result(tmp_path):
    samples = questions(40)
    await run_here(tmp_path / "whole", samples)
    result = await run_here(tmp_path / "run", samples, concurrency=2, limits={"budget_usd": 0.01})
    assert result.ended == "budget"
    counts = result.summary.counts
    assert 10 <= counts.total <= 13
    assert counts.total + counts.pending + counts.not_counted == counts.planned == 40
    again = await run_here(tmp_path / "run", samples, concurrency=2, limits={"budget_usd": 0.02})
    assert (again.ended, again.summary.counts.total <= 24) == ("budget", True)
    assert (await run_here(tmp_path / "run", samples)).ended == "complete"
    assert without_timing(tmp_path / "run") == without_timing(tmp_path / "whole")


async def test_the_judges_cost_counts_towards_the_budget_over_all_starts(tmp_path):
    samples = [sample.model_copy(update=OPEN) for sample in questions(20)]
    for bound, most in ((3.0, 6), (5.0, 8)):
        judge = Judge(Dear(), log=tmp_path / OPINIONS)
        result = await run_here(
            tmp_path, samples, judge=judge, judge_model="dear", concurrency=1, limits={"budget_usd": bound}
        )
        assert result.ended == "budget"
        assert bound - 1 <= result.summary.judging.cost_usd <= most


async def test_the_time_of_a_run_ends_it_even_while_nothing_answers(tmp_path):
    async with asyncio.timeout(10):
        result = await run_here(tmp_path, questions(5), Adder(60.0), limits={"time_s": 0.2})
    assert result.ended == "time"
    assert (result.summary.counts.pending + result.summary.counts.not_counted) == 5
    assert (await run_here(tmp_path, questions(5))).ended == "complete"


async def test_each_data_set_may_have_its_own_number_of_rollouts(tmp_path):
    samples = [*questions(4, "once"), *questions(3, "thrice")]
    summary = (await run_here(tmp_path, samples, k_of={"thrice": 3})).summary
    assert (summary.suites["once"].counts.planned, summary.suites["once"].k) == (4, 1)
    assert (summary.suites["thrice"].counts.planned, summary.suites["thrice"].k) == (9, 3)
    assert (summary.counts.planned, summary.k) == (13, 3)
    assert summary.counts.pass_questions == 7


async def test_the_course_of_a_run_is_written_down(tmp_path):
    await run_here(tmp_path, questions(12))
    *_, last = iter_jsonl(tmp_path / METRICS)
    assert (last["step"], last["planned"], last["right"] + last["wrong"]) == (12, 12, 12)
    assert last["cost_usd"] == pytest.approx(0.012)
    assert last["model_calls_at_once"] == 16
    await run_here(tmp_path / "fixed", questions(2), adaptive=False)
    *_, last = iter_jsonl(tmp_path / "fixed" / METRICS)
    assert last["model_calls_at_once"] is None


async def test_every_start_says_when_and_with_what(tmp_path):
    for _ in range(2):
        await run_here(tmp_path, questions(2), base_url="http://user:secret@host:8000/v1", workflow="agent")
    first, second = read_starts(tmp_path)
    assert (first.endpoint, first.search) == ("host:8000", {"text": "OnePassage"})
    assert first.started <= second.started
    assert first.packages["httpx"]
    assert "secret" not in (tmp_path / "provenance.jsonl").read_text()


async def test_hashes_tell_what_was_asked_of_what(tmp_path):
    async def hashes(name, count=3, **changes):
        return (await run_here(tmp_path / name, questions(count), **changes)).summary.hashes

    base = await hashes("base")
    assert base == await hashes("again", concurrency=3)
    assert (await hashes("data", 4)).data != base.data
    assert (await hashes("seed", seed=1)).config != base.config
    assert (await hashes("prompt", workflow="agent")).prompts != base.prompts
    assert base.judge_rules is None


async def test_an_episode_is_told_apart_by_its_tools_its_end_and_what_decided(tmp_path):
    episodes = (await run_here(tmp_path, questions(10), workflow="agent")).summary.suites["sums"].episodes
    assert {name: each.total for name, each in episodes["tools"].items()} == {"text_search": 10}
    assert {name: each.total for name, each in episodes["stop"].items()} == {"answered": 10}
    assert {name: each.total for name, each in episodes["by"].items()} == {"rule": 10}
    direct = (await run_here(tmp_path / "direct", questions(4))).summary.suites["sums"].episodes
    assert list(direct["tools"]) == ["no tool"]


async def test_services_have_their_share_of_success(tmp_path):
    up = (await run_here(tmp_path / "up", questions(6), workflow="agent")).summary.suites["sums"].behaviour
    down = (await run_here(tmp_path / "down", questions(6), workflow="agent", search_down=True)).summary
    assert (up.services["text_search"].total, up.services["text_search"].share) == (6, 1.0)
    assert up.services["summary"].share == 1.0
    assert down.suites["sums"].behaviour.services["text_search"].share == 0.0


async def test_questions_that_share_a_picture_are_one_cluster(tmp_path):
    shared = ImageRef(path="/p.png", width=64, height=64)
    samples = [sample.model_copy(update={"images": (shared,)}) for sample in questions(6)]
    apart = (await run_here(tmp_path / "apart", questions(6))).summary.suites["sums"].counts
    together = (await run_here(tmp_path / "together", [*samples, *questions(6, "b")])).summary
    assert (apart.clusters, together.suites["sums"].counts.clusters, together.counts.clusters) == (6, 1, 7)
    assert together.suites["sums"].counts.interval is None
    assert apart.bootstrap is not None


async def test_a_run_that_lost_too_much_is_marked_invalid(tmp_path):
    down = {f"sums-{n:03}" for n in range(3)}
    result = await run_here(tmp_path, questions(20), Adder(down_for=down), max_failed_share=0.1, concurrency=1)
    assert not result.summary.validity.valid
    assert any("invalid" in note for note in result.summary.notes)
    assert (await run_here(tmp_path, questions(20))).summary.validity.valid


async def test_what_judges_said_and_cost_stands_in_the_summary(tmp_path):
    samples = [sample.model_copy(update=OPEN) for sample in questions(6)]
    log = tmp_path / OPINIONS
    judge = Panel([Judge(Dear(), log=log), Judge(YesMan(says="VERDICT: NO"), log=log), Matcher(log)])
    summary = (await run_here(tmp_path, samples, judge=judge, judge_model="dear,yes,matcher")).summary
    assert summary.counts.right == 6
    dear, other, matcher = (summary.judging.judges[name] for name in ("dear", "yes", "matcher"))
    assert (dear.asked, dear.yes, dear.cost_usd, dear.prompt_tokens) == (6, 6, 6.0, 300)
    assert (other.no, matcher.no, matcher.cost_usd) == (6, 6, 0.0)
    assert summary.judging.agreement.alpha < 0
    assert {(pair.first, pair.second, pair.share) for pair in summary.judging.agreement.pairs} == {
        ("dear", "yes", 0.0),
        ("dear", "matcher", 0.0),
        ("yes", "matcher", 1.0),
    }
    assert summary.scoring == "rules, then judge dear, yes, matcher (first decides)"
    assert len(list(read_opinions(tmp_path))) == 18
    assert summarise(tmp_path) == summary


def test_an_estimate_grows_with_what_is_asked():
    pictures = tuple(ImageRef(path=f"/{n}.png", width=1024, height=1024) for n in range(2))
    samples = [sample.model_copy(update={"images": pictures}) for sample in questions(10)]

    def of(**changes):
        table = {"target": "x", "agent": AgentConfig(workflow="direct"), **changes}
        return estimate(EvalConfig.model_validate(table), samples)

    base = of()
    assert (base.questions, base.episodes, base.pictures, base.cost_usd) == (10, 10, 20, None)
    assert base.megapixels == pytest.approx(20 * 1.048576, abs=0.1)
    assert base.prompt_tokens >= 20 * 1024
    assert of(k=3).prompt_tokens == pytest.approx(3 * base.prompt_tokens, abs=3)
    assert of(agent=AgentConfig()).prompt_tokens > 3 * base.prompt_tokens
    assert of(agent=AgentConfig()).most_tokens > of(agent=AgentConfig(max_turns=5)).most_tokens
    assert of(judge_model="j").judge_calls == 6
    assert of(judge_model="matcher").judge_calls == 0
    priced = of(prices={"prompt": 1.0, "completion": 2.0})
    assert priced.cost_usd == pytest.approx((base.prompt_tokens + 2 * base.completion_tokens) / 1e6, rel=1e-3)
    assert of(concurrency=1).seconds == pytest.approx(10 * of(concurrency=10).seconds)


@pytest.mark.parametrize(
    "limits", [{}, {"max_tokens_turn": 64, "max_tokens_total": 640, "max_turns": 8}, {"max_turns": 1}]
)
def test_an_estimate_keeps_to_the_limits_of_an_episode_and_below_the_most(limits):
    agent, asked = AgentConfig.model_validate(limits), questions(3)
    found = estimate(EvalConfig(target="x", agent=agent), asked)
    assert found.prompt_tokens <= 3 * found.basis.turns * agent.max_tokens_total
    assert found.completion_tokens <= 3 * found.basis.turns * agent.max_tokens_turn
    assert found.prompt_tokens + found.completion_tokens <= found.most_tokens


async def test_an_estimate_can_rest_on_an_earlier_run(tmp_path):
    await run_here(tmp_path, questions(6), workflow="agent")
    config = settings(adding(Adder(), workflow="agent"), prices={"prompt": 1.0})
    found = estimate(config, questions(60), like=tmp_path)
    assert (found.prompt_tokens, found.completion_tokens, found.basis.turns) == (60 * 200, 60 * 20, 2.0)
    assert str(tmp_path) in describe(found)
    assert found.most_tokens >= found.prompt_tokens + found.completion_tokens
    assert "assumed" in describe(estimate(config, questions(60)))


async def test_the_summary_is_read_back_as_it_was_written(tmp_path):
    summary = (await run_here(tmp_path, questions(4))).summary
    assert type(summary).model_validate(json.loads((tmp_path / "summary.json").read_text())) == summary
