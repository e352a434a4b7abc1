import pytest

from vlagent.bench.compare import compare
from vlagent.errors import UserError
from vlagent.files import append_jsonl
from vlagent.types import EvalRow, Outcome, StopReason


def write_run(folder, **outcomes):
    """A run of one suite: question -> outcomes of its rollouts (r, w, u, f)."""
    names = {"r": Outcome.RIGHT, "w": Outcome.WRONG, "u": Outcome.UNSCORED, "f": Outcome.FAILED}
    for sample, letters in outcomes.items():
        for rollout, letter in enumerate(letters):
            row = EvalRow(
                suite="s",
                sample_id=sample,
                rollout=rollout,
                outcome=names[letter],
                answer=f"{folder.name} {sample}",
                answers=("truth",),
                stop=StopReason.ANSWERED,
            )
            append_jsonl(folder / "rows.jsonl", row)
    return folder


def test_two_runs_are_paired_question_by_question(tmp_path):
    a = write_run(tmp_path / "a", q1="r", q2="r", q3="w", q4="w", q5="w")
    b = write_run(tmp_path / "b", q1="r", q2="w", q3="r", q4="r", q5="w")
    found = compare(a, b)
    assert (found.all.pairs, found.all.first, found.all.second) == (5, 0.4, 0.6)
    assert found.all.difference == pytest.approx(0.2)
    assert (found.all.better, found.all.worse, found.all.same) == (2, 1, 2)
    assert found.all.p_value == 1.0
    assert found.suites == {"s": found.all}
    assert {flip.sample_id: (flip.first, flip.second) for flip in found.flips} == {
        "q2": (1.0, 0.0),
        "q3": (0.0, 1.0),
        "q4": (0.0, 1.0),
    }
    assert (found.flips[0].first_answer, found.flips[0].second_answer) == ("a q2", "b q2")


def test_the_test_is_exact_and_the_interval_covers_the_difference(tmp_path):
    a = write_run(tmp_path / "a", **{f"q{n}": "w" for n in range(12)})
    b = write_run(tmp_path / "b", **{f"q{n}": "r" if n < 6 else "w" for n in range(12)})
    found = compare(a, b).all
    assert found.p_value == pytest.approx(2 / 2**6)
    low, high = found.interval
    assert 0 < low < 0.5 < high < 1
    assert compare(a, b, seed=1).all.interval == compare(a, b, seed=1).all.interval
    assert compare(b, a).all.difference == -0.5


def test_what_cannot_be_paired_is_listed_with_its_reason_and_counted_nowhere(tmp_path):
    a = write_run(tmp_path / "a", q1="r", q2="f", q3="w", only_a="r")
    b = write_run(tmp_path / "b", q1="w", q2="r", q3="u", only_b="w")
    found = compare(a, b)
    assert found.all.pairs == 1
    reasons = {each.sample_id: each.why for each in found.unpaired}
    assert reasons["q2"] == f"failed in {a}"
    assert reasons["q3"] == f"unscored in {b}"
    assert reasons["only_a"] == f"only in {a}"
    assert reasons["only_b"] == f"only in {b}"


def test_several_rollouts_are_averaged_per_question_over_the_scored_ones(tmp_path):
    a = write_run(tmp_path / "a", q1="rwww", q2="rf")
    b = write_run(tmp_path / "b", q1="rrww", q2="rr")
    found = compare(a, b)
    assert (found.all.first, found.all.second) == (0.625, 0.75)
    assert (found.all.better, found.all.same) == (1, 1)


def test_of_several_attempts_at_an_episode_the_last_counts(tmp_path):
    a = write_run(write_run(tmp_path / "a", q1="f"), q1="r")
    b = write_run(tmp_path / "b", q1="r")
    assert compare(a, b).all.first == 1.0


def test_an_id_with_its_suite_in_front_is_the_same_question(tmp_path):
    a = write_run(tmp_path / "a", **{"s/q1": "r"})
    b = write_run(tmp_path / "b", q1="w")
    assert compare(a, b).all.pairs == 1


def test_folders_that_share_nothing_or_are_no_runs_are_the_users_error(tmp_path):
    a = write_run(tmp_path / "a", q1="r")
    with pytest.raises(UserError, match="share no question"):
        compare(a, write_run(tmp_path / "b", q2="r"))
    with pytest.raises(UserError, match="holds no rows"):
        compare(a, tmp_path)
