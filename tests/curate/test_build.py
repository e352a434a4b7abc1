"""Sets for reinforcement learning: merged, without what was fine-tuned on, of a chosen difficulty, mixed, written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.data.files import write_rows
from vlagent.cli.main import main
from vlagent.curate.build import BuildOptions, build, choose
from vlagent.data.check import check, row_sets
from vlagent.data.manifest import load_manifest, load_samples
from vlagent.errors import UserError
from vlagent.files import write_atomic
from vlagent.types import Sample

OPTIONS = "Which colour?\nA. red\nB. blue"


def noise(seed: int) -> Image.Image:
    """A picture like no other."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return small.resize((160, 120), Image.Resampling.BICUBIC)


def write_set(folder: Path, name: str, numbers: range, **changes: Any) -> str:
    """A file of rows `<name>/rows.jsonl` with a picture a question; question n's answer is n."""
    rows = []
    for n in numbers:
        path = folder / name / f"{n}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise(n).save(path)
        rows.append(
            {
                "id": f"{name}-{n}",
                "prompt": [{"role": "user", "content": f"<image>\nWhat number is {n}?"}],
                "image": f"{n}.png",
                "reward_model": {"ground_truth": str(n)},
                "kind": "even" if n % 2 == 0 else "odd",
                **changes,
            }
        )
    return str(write_rows(folder / name / "rows.jsonl", *rows))


def ids(samples: list[Sample]) -> list[str]:
    return [sample.id for sample in samples]


def chosen(*data: str, rates: dict[str, float] | None = None, **options: Any) -> list[Sample]:
    return choose(BuildOptions(data=data, **options), rates).samples


def test_what_is_written_is_read_back_as_it_was_and_passes_the_check(tmp_path: Path) -> None:
    a, b = write_set(tmp_path, "a", range(4)), write_set(tmp_path, "b", range(10, 13))
    card = build(tmp_path / "out", BuildOptions(data=(a, b)))
    again = load_samples(tmp_path / "out" / "manifest.json", warn=pytest.fail)
    before = [*load_samples(a), *load_samples(b)]
    assert [(s.id, s.question, s.answers) for s in again] == [(s.id, s.question, s.answers) for s in before]
    assert [Path(s.images[0].path).resolve() for s in again] == [Path(s.images[0].path) for s in before]
    assert [s.extra["kind"] for s in again] == [s.extra["kind"] for s in before]
    assert card.sources == {"a": 4, "b": 3}
    assert check(row_sets(str(tmp_path / "out" / "manifest.json"))).findings == ()
    assert "| a | 4 | not stated |" in (tmp_path / "out" / "README.md").read_text()


def test_the_manifest_is_in_the_published_form(tmp_path: Path) -> None:
    data = write_set(tmp_path, "a", range(3))
    build(tmp_path / "out", BuildOptions(data=(data,)))
    (entry,) = json.loads((tmp_path / "out" / "manifest.json").read_text()).values()
    assert set(entry) == {
        *("root", "annotation", "length", "repeat_time", "reward_fn", "unused_reward_fn", "input_template", "comment")
    }
    assert (entry["length"], entry["reward_fn"]) == (3, ["llm_score", "format_score"])
    assert set(entry["input_template"]["arguments"]) == {"system_prompt", "format_instruction", "add_image_path"}


def test_a_copied_set_can_be_moved(tmp_path: Path) -> None:
    data = write_set(tmp_path, "a", range(3))
    build(tmp_path / "out", BuildOptions(data=(data,), copy_pictures=True))
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    for path in (tmp_path / "a").glob("*.png"):
        path.unlink()
    samples = load_samples(tmp_path / "elsewhere" / "manifest.json")
    assert len(samples) == 3
    assert all("elsewhere/pictures" in sample.images[0].path for sample in samples)


def test_option_questions_get_an_entry_and_a_reward_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"id": "o-1", "prompt": OPTIONS, "image": "0.png", "reward_model": {"ground_truth": "B"}},
        {"id": "o-2", "prompt": "What is it?", "image": "1.png", "reward_model": {"ground_truth": "a cup"}},
        {"id": "o-3", "prompt": OPTIONS, "image": "2.png", "reward_model": {"ground_truth": "blue as the sea"}},
    ]
    (tmp_path / "deepeyes_4k").mkdir()
    for n in range(3):
        noise(n).save(tmp_path / "deepeyes_4k" / f"{n}.png")
    data = write_rows(tmp_path / "deepeyes_4k" / "rows.jsonl", *rows)
    card = build(tmp_path / "out", BuildOptions(data=(str(data),)))
    entries = load_manifest(tmp_path / "out" / "manifest.json").entries
    assert {name: entry.reward_fn for name, entry in entries.items()} == {
        "deepeyes_4k_mcq": ("em_score_mcq", "format_score"),
        "deepeyes_4k_non_mcq": ("llm_score", "format_score"),
    }
    (asked,) = load_samples(f"{tmp_path}/out/manifest.json:deepeyes_4k_mcq")
    assert asked.choices == {"A": "red", "B": "blue"}
    assert card.licences["deepeyes_4k"].startswith("none stated")


def test_duplicates_are_dropped_also_when_a_copy_was_encoded_anew(tmp_path: Path) -> None:
    a, b = write_set(tmp_path, "a", range(4)), write_set(tmp_path, "b", range(2, 6))
    for path in (tmp_path / "b").glob("*.png"):
        Image.open(path).convert("RGB").resize((320, 240)).save(path, "PNG")
    assert ids(chosen(a, b)) == ["a-0", "a-1", "a-2", "a-3", "b-4", "b-5"]
    assert len(chosen(a, b, decode=False)) == 8  # the bytes differ


def test_another_question_about_a_known_picture_stays_unless_it_is_not_wanted(tmp_path: Path) -> None:
    a = write_set(tmp_path, "a", range(3))
    write_set(tmp_path, "b", range(2, 5))
    prompt = [{"role": "user", "content": "<image>\nWhat else?"}]
    b = write_set(tmp_path, "b", range(2, 5), prompt=prompt)
    assert ids(chosen(b, without=(a,))) == ["b-2", "b-3", "b-4"]
    assert ids(chosen(b, without=(a,), same="picture")) == ["b-3", "b-4"]
    assert ids(chosen(write_set(tmp_path, "c", range(1, 4)), without=(a,))) == ["c-3"]


def test_the_questions_of_a_run_are_left_out(tmp_path: Path) -> None:
    a = write_set(tmp_path, "a", range(4))
    tuned = load_samples(a)[:2]
    write_atomic(tmp_path / "run" / "samples.jsonl", "".join(each.model_dump_json() + "\n" for each in tuned))
    built = choose(BuildOptions(data=(a,), without=(str(tmp_path / "run"),)))
    assert ids(built.samples) == ["a-2", "a-3"]
    assert dict(built.left_out) == {f"in {tmp_path / 'run'}": 2}


def test_the_questions_of_a_suite_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_set(tmp_path, "hr_mmsearch", range(2))
    build(tmp_path / "bench", BuildOptions(data=(data,)))
    monkeypatch.setenv("VLAGENT_DATA", str(tmp_path / "bench"))
    assert ids(chosen(write_set(tmp_path, "a", range(4)), without=("hr_mmsearch",))) == ["a-2", "a-3"]


def test_a_benchmark_with_a_canary_does_not_become_a_training_set(tmp_path: Path) -> None:
    data = write_set(tmp_path, "a", range(2), canary="do not train 1234")
    with pytest.raises(UserError, match="carries the canary of a benchmark"):
        build(tmp_path / "out", BuildOptions(data=(data,)))
    other = write_set(tmp_path, "b", range(1, 3))
    assert ids(chosen(other, without=(data,))) == ["b-2"]


def test_questions_without_a_picture_are_the_same_when_they_share_an_answer(tmp_path: Path) -> None:
    rows = [
        {"id": f"q-{n}", "prompt": "Who is it?", "image": [], "reward_model": {"ground_truth": truth}}
        for n, truth in enumerate(("Ada", "ADA.", "Bob"))
    ]
    data = write_rows(tmp_path / "text" / "rows.jsonl", *rows)
    assert ids(chosen(str(data))) == ["q-0", "q-2"]


def test_pass_rates_choose_the_difficulty(tmp_path: Path) -> None:
    data = write_set(tmp_path, "a", range(5))
    rates = {"a-0": 0.0, "a-1": 0.125, "a-2": 0.5, "a-3": 1.0}
    assert ids(chosen(data, rates=rates)) == ["a-0", "a-1", "a-2", "a-3"]
    assert ids(chosen(data, rates=rates, low=0.1, high=0.9)) == ["a-1", "a-2"]
    assert ids(chosen(data, rates=rates, low=0.1, high=0.9, unmeasured="keep")) == ["a-1", "a-2", "a-4"]
    with pytest.raises(UserError, match="no question has a measured pass rate"):
        chosen(data, rates={"other": 0.5})
    with pytest.raises(UserError, match="no question has a measured pass rate"):
        chosen(data, high=0.9)


def test_pass_rates_are_found_where_two_sets_share_an_id(tmp_path: Path) -> None:
    a, b = write_set(tmp_path, "a", range(2), id="1"), write_set(tmp_path, "b", range(4, 5), id="1")
    assert ids(chosen(a, b, rates={"a/1": 0.5})) == ["a/1"]
    assert ids(chosen(b, rates={"1": 0.5})) == ["b/1"]


def test_mined_rows_carry_their_own_pass_rate(tmp_path: Path) -> None:
    data = write_set(tmp_path, "a", range(2), pass_rate=0.125)
    assert len(chosen(data, high=0.2)) == 2
    card = build(tmp_path / "out", BuildOptions(data=(data,)))
    assert {band for band, count in card.pass_rates.items() if count} == {"1/8"}


def test_a_mix_has_the_shares_asked_for_and_is_the_same_for_a_seed(tmp_path: Path) -> None:
    a, b = write_set(tmp_path, "a", range(12)), write_set(tmp_path, "b", range(20, 24))
    mixed = chosen(a, b, shares={"a": 1.0, "b": 1.0})
    assert Counter(sample.source for sample in mixed) == {"a": 4, "b": 4}
    three = chosen(a, b, shares={"a": 2.0, "b": 1.0}, size=6)
    assert Counter(sample.source for sample in three) == {"a": 4, "b": 2}
    assert ids(three) == ids(chosen(a, b, shares={"a": 2.0, "b": 1.0}, size=6))
    assert ids(three) != ids(chosen(a, b, shares={"a": 2.0, "b": 1.0}, size=6, seed=1))
    assert {sample.source for sample in chosen(a, b, shares={"a": 1.0})} == {"a"}
    assert len(chosen(a, b, size=5)) == 5


def test_a_mix_takes_all_that_its_shares_allow_and_no_share_is_nothing(tmp_path: Path) -> None:
    a, b = write_set(tmp_path, "a", range(3)), write_set(tmp_path, "b", range(20, 27))
    assert len(chosen(a, shares={"a": 0.3})) == 3  # 3 * 0.3 / 0.3 is below 3
    assert Counter(each.source for each in chosen(a, b, shares={"a": 0.3, "b": 0.7})) == {"a": 3, "b": 7}
    with pytest.raises(UserError, match=r"--mix a=0\.001: that is not one of 7 questions"):
        chosen(a, b, shares={"a": 0.001, "b": 1.0})


def test_where_keeps_a_kind(tmp_path: Path) -> None:
    data = write_set(tmp_path, "a", range(4))
    assert ids(chosen(data, where={"kind": ("even",)})) == ["a-0", "a-2"]
    with pytest.raises(UserError, match=r"--where size: no such column; there are kind, source"):
        chosen(data, where={"size": ("big",)})


def test_the_verb_prints_what_it_took_and_what_it_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write_set(tmp_path, "a", range(4)), write_set(tmp_path, "b", range(3, 6))
    words = ["curate", "build", a, b, "--out", str(tmp_path / "out"), "--without", a]
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "2 questions: b 2" in said
    assert "left out, a duplicate: 1" in said
    assert f"left out, in {a}: 4" in said
    assert not (tmp_path / "out").exists()
    assert main([*words, "--quick", "--copy-pictures", "--name", "small"]) == 0
    assert len(load_samples(tmp_path / "out" / "manifest.json")) == 2
    assert (tmp_path / "out" / "README.md").read_text().count("# small") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mix", "a=half"], "--mix a=half: write it as SET=SHARE"),
        (["--mix", "c=1"], "--mix c: no question of that data set is left; there are a"),
        (["--mix", "a=1", "--size", "9"], "a has 3 questions left; with this mix at most 3"),
        (["--mix", "a=0"], "--mix a=0: a share is above 0"),
        (["--mix", "a=nan"], "--mix a=nan: a share is above 0"),
        (["--mix", "a=inf"], "--mix a=inf: a share is above 0"),
        (["--size", "0"], "--size 0: "),
        (["--size", "9"], "--size 9: there are 3 questions"),
        (["--low", "0.5", "--high", "0.1"], "low 0.5 is above high 0.1"),
        (["--where", "kind"], "write it as COLUMN=VALUE"),
        (["--without", "{a}"], "no question is left"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    data = write_set(tmp_path, "a", range(3))
    words = [word.replace("{a}", data) for word in words]
    assert main(["curate", "build", data, "--out", str(tmp_path / "out"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.json").exists()
