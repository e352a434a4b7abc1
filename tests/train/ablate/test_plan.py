"""Which runs an ablation has, what they change, and the words that start them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlagent.config import load_config
from vlagent.errors import UserError
from vlagent.train.ablate.config import AblateConfig, PrepareConfig
from vlagent.train.ablate.plan import (
    Job,
    changes_of,
    config_of,
    digest_of,
    eval_words,
    jobs_of,
    overrides,
    prepare_words,
    rl_folder,
    toml,
    train_words,
)
from vlagent.train.rl.config import RlConfig

Make = Callable[..., AblateConfig]
JOB = Job("bn_gspo", "hybrid", "full", 2)
values = st.recursive(
    st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(values)
def test_every_value_is_written_as_toml_reads_it(value: object) -> None:
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value


def test_cold_starts_come_first_and_then_seed_after_seed(make: Make) -> None:
    names = [job.name for job in jobs_of(make())]
    assert names == [
        "before-none-full-s0",
        *("gspo-hybrid-full-s1", "bn_gspo-hybrid-full-s1"),
        *("gspo-hybrid-full-s2", "bn_gspo-hybrid-full-s2"),
    ]


def test_a_cell_that_two_grids_name_is_run_once(make: Make) -> None:
    both = 'mixes=["hybrid"],starts=["full"]'
    grid = f'grid=[{{arms=["gspo"],{both}}},{{arms=["gspo","bn_gspo"],{both}}}]'
    assert len(jobs_of(make(grid))) == len(jobs_of(make()))


def test_the_arm_wins_over_the_start_the_start_over_the_mix_and_all_over_what_is_common(make: Make) -> None:
    config = make(
        "common={steps = 1, batch = {prompts = 2, samples = 2, micro_rows = 2}}",
        "mixes.hybrid={steps = 2, batch = {prompts = 3, samples = 3}}",
        "starts.full={steps = 3, batch = {prompts = 4}}",
        "arms.bn_gspo={steps = 4}",
    )
    changes = changes_of(config, JOB)
    assert changes["steps"] == 4
    assert changes["batch"] == {"prompts": 4, "samples": 3, "micro_rows": 2}
    assert changes["seed"] == 2


def test_the_words_of_a_run_give_its_configuration(make: Make) -> None:
    config = make('common={data = {sources = [{data = "a b.jsonl", where = {kind = ["fact", "place"]}}]}}')
    _, base, *changes = train_words(config, JOB)
    found = load_config(RlConfig, Path(base), changes)
    assert found == config_of(config, JOB)
    assert found.data.sources[0].where == {"kind": ("fact", "place")}
    assert (found.seed, found.algorithm.advantage, found.run) == (2, "bn_gspo", str(rl_folder(config, JOB)))


@pytest.mark.parametrize(
    "change",
    ["arms.bn_gspo={optim = {lr = 0.5}}", "evaluation.temperature=0.5", "evaluation.limit=3", "common={steps = 9}"],
)
def test_what_decides_a_result_changes_its_digest(make: Make, change: str) -> None:
    assert digest_of(make(change), JOB) != digest_of(make(), JOB)


def test_where_a_result_is_made_does_not_change_its_digest(make: Make, tmp_path: Path) -> None:
    moved = make(f"run={tmp_path / 'elsewhere'}", "limits.parallel=1", "evaluation.concurrency=3", "seeds=[2]")
    assert digest_of(moved, JOB) == digest_of(make(), JOB)


def test_a_mistake_in_one_arm_names_the_run(make: Make) -> None:
    with pytest.raises(UserError, match=r"^bn_gspo-hybrid-full-s2: optim\.lr = -1"):
        config_of(make("arms.bn_gspo={optim = {lr = -1}}"), JOB)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('grid=[{arms=["gpo"],mixes=["hybrid"],starts=["full"]}]', "no 'gpo'; there are gspo, bn_gspo"),
        ("seeds=[]", "seeds"),
        ("seeds=[1, 2, 1]", "seeds: 1 is named twice"),
        ("limits.core_minutes=inf", "core_minutes = inf"),
        ("evaluation.temperature=inf", "temperature = inf"),
        ("arms.before={}", "'before' cannot be a name"),
        ('arms."a/b"={}', "cannot be a name"),
        ('prepare=[{run = "x", makes = "y", fresh = "/home"}]', "only folders inside run"),
    ],
)
def test_mistakes_are_the_users_and_name_the_value(make: Make, change: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(change)


def test_every_setting_of_the_evaluation_is_in_its_words(make: Make) -> None:
    plain = eval_words(make(), JOB)
    for change in ("data=x", "search=s", "limit=3", "temperature=0.5", "seed=9", "concurrency=2"):
        assert eval_words(make(f"evaluation.{change}"), JOB) != plain


def test_the_last_weights_are_asked_unless_the_best_are_wanted(make: Make) -> None:
    config = make()
    (rl_folder(config, JOB) / "last").mkdir(parents=True)
    assert eval_words(config, JOB)[3].endswith("rl/last")
    assert eval_words(make("evaluation.weights=best"), JOB)[3].endswith("rl/model")


def test_a_preparation_goes_on_with_a_folder_that_it_began(tmp_path: Path) -> None:
    step = PrepareConfig(run="sft a.toml 'x=[\"b c\"]'", makes="m", resume=str(tmp_path))
    assert prepare_words(step) == ["sft", "a.toml", 'x=["b c"]']
    (tmp_path / "config.json").touch()
    assert prepare_words(step) == ["sft", "--resume", str(tmp_path)]


def test_nested_changes_become_dotted_words() -> None:
    assert overrides({"a": {"b": 1, "c": {"d": "x"}}, "e": [1, {"f": True}]}) == [
        "a.b=1",
        'a.c.d="x"',
        'e=[1, {"f" = true}]',
    ]
