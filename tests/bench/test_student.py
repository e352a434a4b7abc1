"""Student's t against published tables and against scipy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlagent.bench.student import holm, paired_t, spread, t_cdf, t_quantile


@pytest.mark.parametrize(
    ("p", "df", "value"), [(0.975, 1, 12.7062), (0.975, 4, 2.7764), (0.8, 4, 0.9410), (0.95, 10, 1.8125)]
)
def test_quantiles_are_those_of_the_printed_tables(p: float, df: int, value: float) -> None:
    assert t_quantile(p, df) == pytest.approx(value, abs=1e-4)


@settings(deadline=None)
@given(st.integers(1, 60), st.floats(-30, 30))
def test_the_distribution_is_scipys(df: int, t: float) -> None:
    special = pytest.importorskip("scipy.special")
    assert t_cdf(t, df) == pytest.approx(special.stdtr(df, t), abs=1e-12)


@settings(deadline=None)
@given(st.integers(1, 60), st.floats(0.001, 0.999))
def test_a_quantile_is_where_the_distribution_has_its_p(df: int, p: float) -> None:
    assert t_cdf(t_quantile(p, df), df) == pytest.approx(p, abs=1e-9)


def test_the_interval_of_a_mean_by_hand() -> None:
    whole = spread([0.50, 0.60, 0.55])
    assert (whole.n, whole.mean, whole.sd) == (3, pytest.approx(0.55), pytest.approx(0.05))
    assert whole.interval == pytest.approx(
        (0.55 - 4.302653 * 0.05 / math.sqrt(3), 0.55 + 4.302653 * 0.05 / math.sqrt(3))
    )
    assert spread([0.4]).interval is None


def test_the_paired_test_by_hand_and_by_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    differences = [0.02, -0.01, 0.03, 0.01, 0.04]
    found = paired_t(differences)
    error = math.sqrt(sum((d - 0.018) ** 2 for d in differences) / 4 / 5)
    assert found.p_value == pytest.approx(2 * special.stdtr(4, -0.018 / error))
    assert found.detectable == pytest.approx((2.776445 + 0.940965) * error, rel=1e-5)


def test_equal_differences_have_no_spread() -> None:
    assert paired_t([0.0, 0.0, 0.0]).p_value == 1.0
    assert paired_t([0.1, 0.1, 0.1]).p_value == 0.0
    assert paired_t([0.1]).p_value is None


def test_holm_multiplies_the_smallest_by_all_and_never_lets_a_larger_one_pass_it() -> None:
    assert holm([0.01, 0.04, None, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), None, pytest.approx(0.06)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
