import pytest

from vlagent.bench.agreement import agreement, cohen_kappa, krippendorff_alpha
from vlagent.rewards.opinions import Opinion, Verdict

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: four observers, twelve units, with gaps.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
# the same paper, section A: two observers, ten units, binary
BINARY = ([0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0])


def test_alpha_is_that_of_the_papers_tables():
    assert krippendorff_alpha(zip(*OBSERVERS, strict=True)) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(zip(*BINARY, strict=True)) == pytest.approx(0.095, abs=5e-4)


def test_kappa_of_fifty_applications_is_four_tenths():
    # 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: observed 0.7, chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)


def test_perfect_agreement_is_one_and_chance_is_about_zero():
    assert cohen_kappa([(True, True), (False, False)]) == 1
    assert krippendorff_alpha([(True, True), (False, False)]) == 1
    assert cohen_kappa([(True, True), (True, False), (False, True), (False, False)]) == 0


def test_what_never_varies_has_no_agreement_beyond_chance():
    assert cohen_kappa([(True, True)] * 5) is None
    assert krippendorff_alpha([(True, True)] * 5) is None
    assert cohen_kappa([]) is None
    assert krippendorff_alpha([]) is None
    assert krippendorff_alpha([(True, None), (None, False)]) is None


def said(judge, sample_id, right, answer="x"):
    return Opinion(
        key=f"{judge}{sample_id}", judge=judge, sample_id=sample_id, answer=answer, verdict=Verdict(right=right)
    )


def test_judges_are_paired_by_answer_and_the_last_opinion_counts():
    opinions = [
        *(said("a", str(n), n < 3) for n in range(5)),
        said("b", "0", False),
        *(said("b", str(n), n < 2) for n in range(4)),
        said("b", "4", None),
        said("b", "0", True, answer="another answer"),
    ]
    found = agreement(opinions)
    (pair,) = found.pairs
    assert (found.answers, found.judges) == (6, {"a": 5, "b": 5})
    assert (pair.both_yes, pair.only_first_yes, pair.only_second_yes, pair.both_no) == (2, 1, 0, 1)
    assert (pair.answers, pair.share) == (4, 0.75)
    assert pair.kappa == pytest.approx(0.5)


def test_one_judge_alone_agrees_with_nobody():
    assert agreement([said("a", "0", True)]) is None
