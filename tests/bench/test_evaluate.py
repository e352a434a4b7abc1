import asyncio
import json

import pytest

from tests.bench.world import Adder, judging, questions, run_here
from vlagent.agent.store import read_trajectories
from vlagent.bench.evaluate import Watcher
from vlagent.bench.runs import read_samples
from vlagent.errors import UserError
from vlagent.files import read_records
from vlagent.types import EvalRow, Outcome, StopReason


def without_timing(run):
    """Everything of a run's result that may not depend on when things happened."""
    summary = json.loads((run / "summary.json").read_text())
    for suite in summary["suites"].values():
        del suite["timing"]
    del summary["provenance"]
    del summary["validity"]["limit"]  # may change from one start to the next
    return summary, list(read_records(run / "rows.jsonl", EvalRow))


def drop_last_lines(path, count):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) - count]))


async def test_an_evaluation_keeps_samples_trajectories_rows_and_summary(tmp_path):
    result = await run_here(tmp_path, questions(20))
    assert result.ended == "complete"
    counts = result.summary.counts
    assert counts.right + counts.wrong + counts.unscored + counts.failed == counts.total == counts.planned == 20
    assert 0 < counts.right < 20
    assert counts.accuracy == counts.right / 20
    assert len(list(read_trajectories(tmp_path))) == 20
    rows = list(read_records(tmp_path / "rows.jsonl", EvalRow))
    assert [row.sample_id for row in rows] == [sample.id for sample in read_samples(tmp_path)]
    assert rows[0].slices == {"kind": "even", "difficulty": "hard"}
    assert sum(row.outcome is Outcome.RIGHT for row in rows) == counts.right


async def test_a_finished_evaluation_asks_nothing_of_the_model_again(tmp_path):
    await run_here(tmp_path, questions(5))
    before = without_timing(tmp_path)
    model = Adder()
    await run_here(tmp_path, questions(5), model)
    assert model.calls == []
    assert without_timing(tmp_path) == before


async def test_an_episode_without_a_row_is_scored_again_and_not_played_again(tmp_path):
    await run_here(tmp_path, questions(6))
    before = without_timing(tmp_path)
    drop_last_lines(tmp_path / "rows.jsonl", 3)
    model = Adder()
    await run_here(tmp_path, questions(6), model)
    assert model.calls == []
    assert without_timing(tmp_path) == before


async def test_a_row_without_its_episode_is_played_again_and_stands_once(tmp_path):
    await run_here(tmp_path, questions(6))
    before = without_timing(tmp_path)
    drop_last_lines(tmp_path / "trajectories.jsonl", 2)
    model = Adder()
    await run_here(tmp_path, questions(6), model)
    assert len(model.calls) == 2
    assert without_timing(tmp_path) == before


@pytest.mark.parametrize("name", ["rows.jsonl", "trajectories.jsonl"])
async def test_a_line_torn_by_a_kill_costs_only_itself(tmp_path, name):
    await run_here(tmp_path, questions(6))
    before = without_timing(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-40])
    await run_here(tmp_path, questions(6))
    assert without_timing(tmp_path) == before


async def test_a_model_that_is_down_is_failed_never_wrong_and_is_tried_again(tmp_path):
    await run_here(tmp_path / "whole", questions(20))
    down = {f"sums-{n:03}" for n in (3, 4, 5)}
    result = await run_here(tmp_path / "run", questions(20), Adder(down_for=down), max_failed_share=0.5)
    counts = result.summary.counts
    assert (result.ended, counts.failed, counts.total, counts.scored) == ("complete", 3, 20, 17)
    assert counts.accuracy == counts.right / 17
    failed = [row for row in read_records(tmp_path / "run" / "rows.jsonl", EvalRow) if row.outcome == "failed"]
    assert all(row.stop is StopReason.MODEL_FAILURE and row.reward is None and "down" in row.why for row in failed)
    model = Adder()
    await run_here(tmp_path / "run", questions(20), model)
    assert {key[1] for key in model.calls} == down
    assert without_timing(tmp_path / "run") == without_timing(tmp_path / "whole")


async def test_more_failures_than_the_share_end_the_evaluation_early_with_everything_kept(tmp_path):
    samples = questions(100)
    model = Adder(down_for={sample.id for sample in samples[10:]})
    result = await run_here(tmp_path / "run", samples, model, concurrency=4, max_failed_share=0.05)
    assert result.ended == "failures"
    assert "down" in result.last_failure
    assert len(model.calls) < 30
    counts = result.summary.counts
    assert 6 <= counts.failed <= 10  # those that ran beside the last one
    assert counts.right + counts.wrong == 10
    assert counts.total + counts.pending + counts.not_counted == counts.planned == 100
    await run_here(tmp_path / "whole", samples)
    await run_here(tmp_path / "run", samples, max_failed_share=0.05)
    assert without_timing(tmp_path / "run") == without_timing(tmp_path / "whole")


async def test_a_judge_that_is_down_fails_the_episode_and_only_the_judge_is_asked_again(tmp_path):
    samples = [sample.model_copy(update={"answers": ("no number",)}) for sample in questions(6)]
    options = {"judge_model": "yes", "max_failed_share": 1.0}
    result = await run_here(tmp_path, samples, judge=judging(down=True), **options)
    assert (result.summary.counts.failed, result.summary.counts.wrong) == (6, 0)
    model = Adder()
    result = await run_here(tmp_path, samples, model, judge=judging(), **options)
    assert model.calls == []
    assert (result.summary.counts.right, result.summary.counts.failed) == (6, 0)
    assert result.summary.scoring == "rules, then judge yes"


async def test_a_judge_without_a_verdict_leaves_the_episode_unscored_and_out_of_the_denominator(tmp_path):
    samples = [
        sample if n < 4 else sample.model_copy(update={"answers": ("none",)}) for n, sample in enumerate(questions(10))
    ]
    rules_only = (await run_here(tmp_path / "rules", samples)).summary.counts
    counts = (await run_here(tmp_path / "run", samples, judge=judging(says="Hm."), judge_model="yes")).summary.counts
    assert rules_only.scored == 10
    assert counts.unscored + counts.scored == counts.total == 10
    assert counts.unscored >= 6
    assert counts.accuracy == 1.0
    assert rules_only.accuracy < 1.0


async def test_a_tool_that_is_down_fails_or_degrades_and_never_counts_as_wrong_on_its_own(tmp_path):
    whole = (await run_here(tmp_path / "whole", questions(8), workflow="agent")).summary
    broken = (await run_here(tmp_path / "run", questions(8), workflow="agent", search_down=True)).summary
    suite = broken.suites["sums"]
    assert suite.behaviour.world_faults == {"text_search": 8}
    assert suite.counts.degraded == 8
    assert suite.counts.right == whole.counts.right
    assert whole.suites["sums"].behaviour.world_faults == {}


async def test_a_stopped_evaluation_keeps_what_it_has_and_goes_on_to_the_same_result(tmp_path):
    samples = questions(30)
    await run_here(tmp_path / "whole", samples)
    watcher = Watcher()
    seen = []

    def on_row(row):
        seen.append(row)
        if len(seen) == 10:
            watcher.stop.set()

    watcher.on_row = on_row
    result = await run_here(tmp_path / "run", samples, Adder(0.005), watcher=watcher, concurrency=4)
    assert result.ended == "stopped"
    counts = result.summary.counts
    assert 10 <= counts.total < 30
    assert counts.total + counts.not_counted + counts.pending == counts.planned == 30
    await run_here(tmp_path / "run", samples, concurrency=4)
    assert without_timing(tmp_path / "run") == without_timing(tmp_path / "whole")


async def test_a_stop_does_not_wait_for_a_judge_that_hangs(tmp_path):
    watcher = Watcher()
    judge = judging()

    async def hang(request):
        watcher.stop.set()
        await asyncio.sleep(60)

    judge.model.complete = hang
    samples = [sample.model_copy(update={"answers": ("x",)}) for sample in questions(3)]
    async with asyncio.timeout(10):
        result = await run_here(tmp_path, samples, judge=judge, judge_model="yes", watcher=watcher)
    assert (result.ended, result.summary.counts.pending) == ("stopped", 3)


async def test_the_watcher_is_told_where_an_evaluation_starts_and_of_every_row(tmp_path):
    await run_here(tmp_path, questions(6))
    drop_last_lines(tmp_path / "trajectories.jsonl", 2)
    started, rows = [], []
    watcher = Watcher(on_row=rows.append, on_start=lambda done, planned: started.append((done, planned)))
    await run_here(tmp_path, questions(6), watcher=watcher)
    assert started == [(4, 6)]
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("change", "key"),
    [({"k": 2}, "k was 1 and is now 2"), ({"seed": 5}, "agent.seed"), ({"judge_model": "yes"}, "judge_model")],
)
async def test_a_folder_of_another_configuration_is_refused_by_the_key_that_differs(tmp_path, change, key):
    await run_here(tmp_path, questions(3))
    with pytest.raises(UserError, match=key):
        await run_here(tmp_path, questions(3), **change)


async def test_what_does_not_decide_results_may_change(tmp_path):
    await run_here(tmp_path, questions(3), concurrency=1)
    await run_here(tmp_path, questions(3), concurrency=9, base_url="http://elsewhere", max_failed_share=0.3)


async def test_changed_or_other_questions_are_refused_by_name(tmp_path):
    await run_here(tmp_path, questions(3))
    changed = [*questions(2), questions(3)[2].model_copy(update={"answers": ("7",)})]
    with pytest.raises(UserError, match="sums-002"):
        await run_here(tmp_path, changed)
    with pytest.raises(UserError, match="had 3 questions and has 4 now"):
        await run_here(tmp_path, questions(4))


async def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="something else"):
        await run_here(tmp_path, questions(3))


async def test_several_rollouts_give_an_average_and_whether_any_is_right(tmp_path):
    one = (await run_here(tmp_path / "one", questions(20))).summary
    four = (await run_here(tmp_path / "four", questions(20), k=4)).summary
    assert (four.counts.planned, four.counts.questions, four.k) == (80, 20, 4)
    assert four.counts.avg_at_k == pytest.approx(four.counts.accuracy)
    assert four.counts.pass_at_k > one.counts.accuracy
    assert four.counts.pass_questions == 20
    assert "noise of the engine" in four.notes[0]
    assert one.notes == ()


async def test_the_seed_changes_what_is_drawn(tmp_path):
    first = await run_here(tmp_path / "first", questions(30), seed=1)
    second = await run_here(tmp_path / "second", questions(30), seed=2)
    again = await run_here(tmp_path / "again", questions(30), seed=1)
    rows = [list(read_records(tmp_path / name / "rows.jsonl", EvalRow)) for name in ("first", "second", "again")]
    assert [row.outcome for row in rows[0]] != [row.outcome for row in rows[1]]
    assert rows[0] == rows[2]
    assert first.summary.counts == again.summary.counts
    assert second.summary.counts.total == 30


async def test_the_order_of_completion_changes_nothing(tmp_path):
    await run_here(tmp_path / "one", questions(20), concurrency=1)
    await run_here(tmp_path / "many", questions(20), Adder(0.001), concurrency=20)
    assert without_timing(tmp_path / "one") == without_timing(tmp_path / "many")


async def test_suites_and_slices_have_their_own_denominators(tmp_path):
    samples = [*questions(9, "a"), *questions(4, "b")]
    summary = (await run_here(tmp_path, samples)).summary
    assert {name: suite.counts.total for name, suite in summary.suites.items()} == {"a": 9, "b": 4}
    kinds = summary.suites["a"].slices["kind"]
    assert {name: counts.total for name, counts in kinds.items()} == {"even": 5, "odd": 4}
    assert sum(counts.right for counts in kinds.values()) == summary.suites["a"].counts.right
    accuracies = [suite.counts.accuracy for suite in summary.suites.values()]
    assert summary.macro_average == pytest.approx(sum(accuracies) / 2)


async def test_behaviour_is_counted_per_episode(tmp_path):
    behaviour = (await run_here(tmp_path, questions(10), workflow="agent")).summary.suites["sums"].behaviour
    assert behaviour.episodes == 10
    assert behaviour.stops == {"answered": 10}
    assert behaviour.tool_calls == {"text_search": 1.0}
    assert behaviour.turns == 2.0
    assert (behaviour.prompt_tokens, behaviour.completion_tokens) == (200.0, 20.0)
    assert behaviour.cost_usd == pytest.approx(0.02)
    assert behaviour.format_scored == 10
    assert 0 < behaviour.format_rate < 1
    assert sum(behaviour.repairs.values()) == round(10 * (1 - behaviour.format_rate))


async def test_a_bug_of_the_model_comes_out_and_what_was_done_is_kept(tmp_path):
    class Buggy(Adder):
        async def complete(self, request):
            if request.key[1] == "sums-007":
                raise ZeroDivisionError
            return await super().complete(request)

    with pytest.raises(ExceptionGroup):
        await run_here(tmp_path, questions(10), Buggy(), concurrency=1)
    await run_here(tmp_path / "whole", questions(10))
    model = Adder()
    await run_here(tmp_path, questions(10), model)
    assert len(model.calls) == 3
    assert without_timing(tmp_path) == without_timing(tmp_path / "whole")
