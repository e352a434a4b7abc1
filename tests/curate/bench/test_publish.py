"""The published set: who gets in, what is written, how it guards itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.curate.bench.conftest import RULES, SIGN, agree, make_bench, scene, write
from vlagent.bench.suites import load_target
from vlagent.bench.suites.registry import resolve_suites
from vlagent.curate.bench import book
from vlagent.curate.bench.collect import Given, collect_now
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.publish import HIDDEN, Options, Published, held_back, publish
from vlagent.curate.bench.records import Checked, CheckName, Difficulty, Item
from vlagent.curate.bench.sieve import sieve
from vlagent.data.manifest import load_samples
from vlagent.data.sealed import PASSWORD, WARNING, read_seal, refuse_canaries
from vlagent.errors import UserError
from vlagent.files import append_jsonl, iter_jsonl, write_atomic
from vlagent.train.rl.data import DataConfig, MixSource, Questions


def passed(bench: Bench, item: Item, *, right: int = 0, failed: str = "") -> None:
    """Every automatic check, and a difficulty."""
    names: tuple[CheckName, ...] = ("leak", "blind", "no_tools", "evidence")
    for name in names:
        content = item.content_for(name)
        said = Checked(item=item.id, content=content, check=name, ok=name != failed, why="why" if failed else "")
        append_jsonl(bench.folder / "checks.jsonl", said)
    level = Difficulty(item=item.id, content=item.content, k=8, right=right, model="m")
    append_jsonl(bench.folder / "difficulty.jsonl", level)


def ready(bench: Bench, picture: int = 0, right: int = 0, **fields: Any) -> Item:
    item = write(bench, picture=picture, **fields)
    agree(bench, item, "bob", "cyd")
    passed(bench, item, right=right)
    return item


def published(bench: Bench, out: Path, **options: Any) -> tuple[Published, Path]:
    end = publish(bench, out, Options(**options))
    return end, out / "hr_mmsearch" / "hr_mmsearch.jsonl"


def test_the_set_loads_in_its_suite_with_difficulty_and_category(bench: Bench, tmp_path: Path) -> None:
    first, second = ready(bench), ready(bench, 1, right=3, answers=("A", "B"), domain="Others")
    end, rows = published(bench, tmp_path)
    one, two = load_target("hr_mmsearch", tmp_path)
    assert (one.id, one.question, one.answers) == (first.id, first.question, ("Harbour Trust",))
    assert (two.id, two.answers) == (second.id, ("A", "B"))
    assert [sample.extra["difficulty"] for sample in (one, two)] == ["hard", "easy"]
    assert [sample.extra["category"] for sample in (one, two)] == ["Ports", "Others"]
    assert (one.images[0].width, one.images[0].height) == (800, 600)
    assert (end.questions, end.held_back) == (2, {})
    (row, _) = iter_jsonl(rows)
    assert list(row)[:6] == ["sample_id", "query", "query_image", "ground_truth", "difficulty", "category"]
    assert (row["box"], row["object_share"], row["tools"]) == (list(SIGN), 0.005, ["image_crop", "text_search"])
    assert row["image_licence"] == "CC0 1.0"
    (found,) = resolve_suites(["hr_mmsearch"], tmp_path)
    assert found.layout is not None
    assert found.layout.name == "jsonl"


def test_what_is_not_agreed_checked_measured_or_licensed_is_held_back_with_the_reason(bench: Bench) -> None:
    draft = write(bench, state="draft")
    waiting = write(bench, picture=1)
    disputed = write(bench, picture=2)
    book.answer_blind(bench, "bob", disputed.id, "x")
    book.review(bench, "bob", disputed.id, "dispute", "unclear")
    unchecked = write(bench)
    agree(bench, unchecked, "bob", "cyd")
    failed = write(bench)
    agree(bench, failed, "bob", "cyd")
    passed(bench, failed, failed="blind")
    fine = ready(bench)
    for item in (draft, waiting, disputed):
        passed(bench, item)
    assert held_back(bench) == {
        draft.id: "it is draft",
        waiting.id: "it is waiting for reviews",
        disputed.id: "it is disputed",
        unchecked.id: "not checked: leak, blind, no_tools, evidence; its difficulty is not measured",
        failed.id: "blind: why",
    }
    assert unchecked.id not in held_back(bench, unchecked=True)
    assert failed.id in held_back(bench, unchecked=True)
    assert fine.id not in held_back(bench)


def test_a_picture_without_a_licence_or_that_the_filter_refuses_is_held_back(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, 1)
    scene(tmp_path / "own.png", 9)
    collect_now(bench, [str(tmp_path / "own.png")], Given(), lambda *_: None)
    sieve(bench)
    item, other = ready(bench, 1), ready(bench, 0)
    assert held_back(bench) == {item.id: "no licence of its picture is known: collect it again with --licence"}
    write_atomic(bench.folder / "bench.toml", RULES.replace("long_side = 800", "long_side = 4000"))
    sieve(bench)
    assert held_back(bench)[other.id] == "the filter refuses its picture"


def test_with_nothing_to_publish_the_error_says_what_holds_it_back(bench: Bench, tmp_path: Path) -> None:
    write(bench)
    with pytest.raises(UserError, match="1 are held back, 1 of them because: it is waiting"):
        publish(bench, tmp_path)


@pytest.mark.parametrize("damage", ["canary", "row", "guard"])
def test_rows_that_were_changed_are_refused_on_load(bench: Bench, tmp_path: Path, damage: str) -> None:
    ready(bench), ready(bench, 1)
    end, rows = published(bench, tmp_path)
    assert end.canary.startswith(WARNING)
    lines = rows.read_text().splitlines()
    if damage == "canary":
        first = json.loads(lines[0])
        rows.write_text("\n".join([json.dumps({**first, "canary": "x"}), *lines[1:]]) + "\n")
    elif damage == "row":
        rows.write_text(lines[0] + "\n")
    else:
        (rows.parent / "benchmark.json").unlink()
    expected = {"canary": "lacks the canary", "row": "1 rows, harbours has 2", "guard": "missing beside it"}[damage]
    for load in (lambda: load_target("hr_mmsearch", tmp_path), lambda: load_samples(str(rows))):
        with pytest.raises(UserError, match=expected):
            load()


def test_a_part_of_the_rows_may_be_asked_for(bench: Bench, tmp_path: Path) -> None:
    ready(bench), ready(bench, 1)
    published(bench, tmp_path)
    assert len(load_target("hr_mmsearch", tmp_path, limit=1)) == 1


def test_all_releases_carry_the_same_canary(bench: Bench, tmp_path: Path) -> None:
    ready(bench)
    first, _ = published(bench, tmp_path / "one")
    ready(bench, 1)
    second, _ = published(bench, tmp_path / "one")
    assert (first.canary, first.questions, second.questions) == (second.canary, 1, 2)


def test_another_benchmark_is_not_overwritten(bench: Bench, tmp_path: Path) -> None:
    ready(bench)
    published(bench, tmp_path / "out")
    write_atomic(bench.folder / "bench.toml", RULES.replace("harbours", "towers"))
    with pytest.raises(UserError, match="holds the benchmark 'harbours', this is 'towers'"):
        publish(bench, tmp_path / "out")


def test_sealed_answers_open_with_their_password_only(bench: Bench, tmp_path: Path, monkeypatch: Any) -> None:
    ready(bench)
    end, rows = published(bench, tmp_path, password="open sesame")
    text = "".join(path.read_text() for path in rows.parent.iterdir() if path.is_file())
    assert end.questions == 1
    assert "Harbour Trust" not in text
    assert "evidence.txt" not in text
    assert not set(HIDDEN) & set(next(iter_jsonl(rows)))
    monkeypatch.delenv(PASSWORD, raising=False)
    with pytest.raises(UserError, match=f"sealed; set {PASSWORD}"):
        load_target("hr_mmsearch", tmp_path)
    monkeypatch.setenv(PASSWORD, "guess")
    with pytest.raises(UserError, match="is not the password"):
        load_target("hr_mmsearch", tmp_path)
    monkeypatch.setenv(PASSWORD, "open sesame")
    (sample,) = load_target("hr_mmsearch", tmp_path)
    assert sample.answers == ("Harbour Trust",)
    assert sample.extra["box"] == list(SIGN)
    seal = read_seal(rows)
    assert seal is not None
    assert seal.columns == HIDDEN


def test_training_refuses_samples_with_a_canary(bench: Bench, tmp_path: Path) -> None:
    ready(bench)
    _, rows = published(bench, tmp_path)
    samples = load_samples(str(rows))
    with pytest.raises(UserError, match="never trained on"):
        refuse_canaries(samples, "data")
    with pytest.raises(UserError, match=r"data\.sources\[0\]: .* never trained on"):
        Questions(DataConfig(sources=(MixSource(data=str(rows)),)), seed=0)
    refuse_canaries([sample.model_copy(update={"extra": {}}) for sample in samples], "data")


def test_pictures_are_published_without_what_their_files_say_of_the_place(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    turned = Image.Exif()
    turned[0x0112] = 6
    source = tmp_path / "photos"
    source.mkdir()
    scene(source / "a.jpg", 1, quality=95, exif=exif)
    scene(source / "b.jpg", 2, quality=95, exif=turned)
    bench = Bench(tmp_path / "bench")
    write_atomic(bench.folder / "bench.toml", RULES)
    collect_now(bench, [str(source)], Given(licence="CC0"), lambda *_: None)
    ready(bench), ready(bench, 1, box=(10, 10, 60, 60))
    published(bench, tmp_path / "out")
    plain, upright = load_target("hr_mmsearch", tmp_path / "out")
    assert b"taken at home" not in Path(plain.images[0].path).read_bytes()
    assert not Image.open(plain.images[0].path).getexif()
    assert (upright.images[0].width, upright.images[0].height) == (600, 800)
    assert Image.open(upright.images[0].path).size == (600, 800)


def test_the_card_counts_what_is_in_the_set(bench: Bench, tmp_path: Path) -> None:
    ready(bench), ready(bench, 1, right=2, domain="Others", tools=("image_crop",))
    end, rows = published(bench, tmp_path)
    card = (rows.parent / "README.md").read_text()
    for line in (
        "# harbours 1.0",
        "2 questions about 2 pictures",
        "| Ports | 1 | 1 | 0 |",
        "| Others | 1 | 0 | 1 |",
        "| image_crop + text_search | 1 |",
        "covers 0.50% of its picture in the median",
        "| CC0 1.0 | 2 |",
        "From 2025-06-01 to 2025-06-01",
        "- 4 reviews; the reviewer's own answer was accepted in 4 of them.",
        "| not answered without the picture | 2 | 0 | 0 |",
        "none of 8 answers of m, tools allowed, is right",
        end.canary,
    ):
        assert line in card


def test_what_this_benchmark_did_not_write_is_not_overwritten(bench: Bench, tmp_path: Path) -> None:
    ready(bench)
    folder = tmp_path / "out" / "hr_mmsearch"
    write_atomic(folder / "hr_mmsearch.jsonl", '{"sample_id": "0", "query": "of the published set"}\n')
    with pytest.raises(UserError, match="not of this benchmark"):
        publish(bench, tmp_path / "out")
    assert "of the published set" in (folder / "hr_mmsearch.jsonl").read_text()


def test_another_benchmark_of_the_same_name_is_not_overwritten(bench: Bench, tmp_path: Path) -> None:
    ready(bench)
    publish(bench, tmp_path)
    (bench.folder / "canary.txt").unlink()
    with pytest.raises(UserError, match="another benchmark of the name 'harbours'"):
        publish(bench, tmp_path)


def test_a_release_that_was_killed_or_damaged_is_written_anew(bench: Bench, tmp_path: Path) -> None:
    ready(bench)
    publish(bench, tmp_path)
    guard = tmp_path / "hr_mmsearch" / "benchmark.json"
    guard.write_text("{}")
    with pytest.raises(UserError, match=r"benchmark\.json: damaged; remove"):
        publish(bench, tmp_path)
    guard.unlink()
    publish(bench, tmp_path)
    assert len(load_samples(tmp_path / "hr_mmsearch" / "hr_mmsearch.jsonl")) == 1


def test_a_picture_without_questions_leaves_the_next_release(bench: Bench, tmp_path: Path) -> None:
    ready(bench)
    gone = ready(bench, 1)
    publish(bench, tmp_path)
    folder = tmp_path / "hr_mmsearch" / "images"
    (folder / "mine.png").write_bytes(b"not ours")
    book.save(bench, "ann", gone.id, gone.revision, {"state": "deleted"})
    publish(bench, tmp_path)
    left = {path.name for path in folder.iterdir()}
    assert "mine.png" in left
    assert [name for name in left if name.startswith(gone.picture)] == []
    assert len(left) == 2


@pytest.mark.parametrize("salt", ["a", "ü", "!!", ""])
def test_a_damaged_salt_is_one_line(bench: Bench, tmp_path: Path, monkeypatch: Any, salt: str) -> None:
    pytest.importorskip("cryptography", reason="the extra [seal] is not installed")
    ready(bench)
    publish(bench, tmp_path, Options(password="pass"))
    guard = tmp_path / "hr_mmsearch" / "benchmark.json"
    guard.write_text(json.dumps(json.loads(guard.read_text()) | {"salt": salt}))
    monkeypatch.setenv(PASSWORD, "pass")
    with pytest.raises(UserError, match=r"salt is damaged|not the password"):
        load_samples(tmp_path / "hr_mmsearch" / "hr_mmsearch.jsonl")
