"""Mining: what is hard, what is kept, and that nothing is paid for twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.curate.kills import killed_until_done, paid_twice
from tests.curate.world import dear, mine_here, questions
from vlagent.bench.config import EvalConfig
from vlagent.cli.main import main
from vlagent.curate.budget import CALLS, PaidCall, quote_episodes
from vlagent.curate.build_rows import write_manifest
from vlagent.curate.mine import HARD, PASS_RATES, PassRate, describe, keep_hard
from vlagent.curate.mine_rows import row_of
from vlagent.data.manifest import load_samples
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_records
from vlagent.train.rl.data import pass_rates
from vlagent.types import CachedImageSearch, ImageRef, Sample


async def test_the_hard_questions_are_those_with_at_most_so_many_right(tmp_path: Path) -> None:
    await mine_here(tmp_path, dear(tmp_path), questions(12))
    mined = keep_hard(tmp_path / "run", most_right=5)
    rates = {rate.sample_id: rate for rate in read_records(tmp_path / "run" / PASS_RATES, PassRate)}
    hard = {name for name, rate in rates.items() if rate.right <= 5}
    kept = load_samples(str(tmp_path / "run" / HARD / "manifest.json"))
    assert {sample.id for sample in kept} == hard
    assert 0 < len(hard) < 12
    assert mined.hard == len(hard)
    assert sum(mined.spread.values()) == 12
    assert keep_hard(tmp_path / "run", most_right=7).hard > len(hard)


async def test_the_curriculum_of_reinforcement_learning_reads_the_pass_rates(tmp_path: Path) -> None:
    await mine_here(tmp_path, dear(tmp_path), questions(4))
    keep_hard(tmp_path / "run")
    assert pass_rates(tmp_path / "run" / PASS_RATES) == pass_rates(tmp_path / "run")


def test_a_question_whose_failed_episodes_could_decide_is_undecided() -> None:
    rate = PassRate(sample_id="a", pass_rate=1 / 6, right=1, scored=6, planned=8)
    assert rate.hard(most_right=1) is None
    assert rate.hard(most_right=3) is True
    assert rate.hard(most_right=0) is False


async def test_a_question_without_a_scored_episode_is_counted_as_undecided(tmp_path: Path) -> None:
    await mine_here(tmp_path, dear(tmp_path), questions(6), k=3)
    rows = tmp_path / "run" / "rows.jsonl"
    gone = questions(6)[0].id
    rows.write_text("".join(line for line in rows.read_text().splitlines(keepends=True) if f'"{gone}"' not in line))
    mined = keep_hard(tmp_path / "run", most_right=1)
    known = [rate.hard(1) for rate in read_records(tmp_path / "run" / PASS_RATES, PassRate)]
    assert (mined.questions, mined.undecided) == (6, 1)
    assert mined.hard + known.count(False) + mined.undecided == mined.questions
    assert "1 undecided" in describe(mined)


async def test_too_few_rollouts_to_tell_apart_are_the_users_mistake(tmp_path: Path) -> None:
    await mine_here(tmp_path, dear(tmp_path), questions(2), k=2)
    with pytest.raises(UserError, match="--most-right 2"):
        keep_hard(tmp_path / "run", most_right=2)


async def test_what_is_asked_again_is_answered_from_the_file_with_its_cost(tmp_path: Path) -> None:
    first = await mine_here(tmp_path, dear(tmp_path), questions(3), k=2)
    (tmp_path / "run" / "trajectories.jsonl").unlink()
    (tmp_path / "run" / "rows.jsonl").unlink()
    again = await mine_here(tmp_path, dear(tmp_path), questions(3), k=2)
    assert again.asked == 0
    assert again.spent == first.spent
    assert first.spent.cost_usd == pytest.approx(0.001 * first.asked)


async def test_the_budget_ends_a_run_and_more_of_it_goes_on(tmp_path: Path) -> None:
    prices = {"prompt": 1.0, "completion": 1.0}
    less = await mine_here(tmp_path, dear(tmp_path), questions(20), limits={"budget_usd": 0.02}, prices=prices)
    kept = len(less)
    assert kept < 150
    more = await mine_here(tmp_path, dear(tmp_path), questions(20), limits={"budget_usd": 5.0}, prices=prices)
    assert kept + more.asked == len(more) == 320
    assert paid_twice(tmp_path) == 0


def test_kills_pay_for_no_answer_twice(tmp_path: Path) -> None:
    kills = killed_until_done("mine", tmp_path, count=10, delay_s=0.03, kills=2)
    assert kills == 2
    # between the answer and its line in the file lie some microseconds
    assert paid_twice(tmp_path) <= kills
    assert len(list(read_records(tmp_path / "run" / CALLS, PaidCall))) == 160


def test_a_quote_counts_only_what_is_left() -> None:
    config = EvalConfig(target="sums", k=8, prices={"prompt": 2.0, "completion": 8.0})
    whole, rest = (quote_episodes(config, questions(10), done=done) for done in (0, 60))
    assert (whole.items, rest.items) == (80, 20)
    assert whole.calls == 4 * rest.calls
    assert whole.cost_usd is not None
    assert rest.cost_usd == pytest.approx(whole.cost_usd / 4)


def test_rows_are_read_back_as_the_samples_that_they_were(tmp_path: Path, picture: ImageRef) -> None:
    asked = Sample(
        id="a/1",
        source="zoo",
        question="Which <b>animal</b> is [this]?",
        images=(picture,),
        answers=("a gnu", "wildebeest"),
        choices={"A": "gnu", "B": "emu"},
        image_search=CachedImageSearch(titles=("Gnu", "Emu"), thumbnails=(None, None), summary="A gnu."),
        system_prompt="Look.",
        instruction="Answer with a letter.",
        extra={"kind": "read", "reward_fn": ["em_score_mcq"], "extra_info": {"level": 2}},
    )
    other = Sample(id="b", source="sums", question="1 + 1?", answers=("2",))
    found = load_samples(str(write_manifest(tmp_path / "set", [asked, other])))
    assert [_own(sample) for sample in found] == [_own(sample) for sample in (asked, other)]


def _own(sample: Sample) -> Sample:
    """Without what the manifest says of the whole set, and with paths that can be compared."""
    refs = tuple(ref.model_copy(update={"path": str(Path(ref.path).resolve())}) for ref in sample.images)
    extra = {name: value for name, value in sample.extra.items() if name != "reward_fn"}
    return sample.model_copy(update={"extra": extra, "images": refs})


def test_a_region_of_a_picture_cannot_be_a_row(picture: ImageRef) -> None:
    part = ImageRef(path=picture.path, width=8, height=8, box=(0, 0, 8, 8))
    with pytest.raises(UserError, match="region"):
        row_of(Sample(id="a", source="s", question="?", images=(part,)))


def test_the_verb_quotes_without_playing_and_then_plays(
    tmp_path: Path, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["curate", "mine", f"{world}/manifest.json:toy_test", "--run", str(tmp_path / "run")]
    words += ["--search", f"{world}/test/search", "--model", "toy:random", "--k", "3", "--most-right", "0"]
    assert main([*words, "--dry-run"]) == 0
    assert "30 to do, about 120 calls" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()
    assert main(words) == 0
    assert "questions are hard (at most 0 of 3 right)" in capsys.readouterr().out
    assert main([*words, "--dry-run"]) == 0
    assert "0 to do" in capsys.readouterr().out
    rates = list(iter_jsonl(tmp_path / "run" / PASS_RATES))
    assert len(rates) == 10
    assert json.loads((tmp_path / "run" / "mined.json").read_text())["kinds"]["fact"]["questions"] == 2


def test_a_run_folder_is_needed(world: Path) -> None:
    with pytest.raises(UserError, match="--run"):
        _mine_without_run(world)


def _mine_without_run(world: Path) -> None:
    from vlagent.cli.main import build_parser

    words = ["curate", "mine", f"{world}/manifest.json:toy_test", "--model", "toy:random"]
    args = build_parser(words).parse_args(words)
    args.run_verb(args)


@pytest.mark.parametrize(
    ("held", "words", "said"),
    [
        ("synthesis.json", ["--k", "2"], "curate synthesise"),
        ("findings.jsonl", ["--k", "2"], "curate verify"),
        (None, ["--k", "2", "--most-right", "2"], "--most-right 2"),
    ],
)
def test_what_cannot_be_mined_is_refused_before_anything_is_asked(
    tmp_path: Path, world: Path, capsys: pytest.CaptureFixture[str], held: str | None, words: list[str], said: str
) -> None:
    if held:
        (tmp_path / held).touch()
    base = ["curate", "mine", f"{world}/manifest.json:toy_test", "--run", str(tmp_path), "--model", "toy:random"]
    assert main([*base, "--search", f"{world}/test/search", *words]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ([held] if held else [])


def test_a_service_that_is_down_is_no_mistake_of_the_user(
    tmp_path: Path, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["curate", "mine", f"{world}/manifest.json:toy_test", "--run", str(tmp_path / "run"), "--k", "2"]
    words += ["--search", f"{world}/test/search", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    assert main([*words, "--attempts", "1"]) == 3
    assert "no episode is scored yet" in capsys.readouterr().err
