"""Episodes exported for other trainers: each form loads where it should, and comes back as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.agent.parts import answer
from tests.curate import llama_factory
from tests.train.episodes import AGENT, CROP, Player, crop_then_answer, make_samples, play, write_run
from vlagent import images
from vlagent.agent.conversation import Style, conversation
from vlagent.agent.store import read_trajectories
from vlagent.bench.runs import read_samples
from vlagent.chat.base import ImagePart, TextPart
from vlagent.cli.main import main
from vlagent.curate.export import ExportOptions, export
from vlagent.curate.export_forms import Conversation, read_form
from vlagent.errors import UserError
from vlagent.types import TrainRow

os.environ.setdefault("HF_HUB_OFFLINE", "1")
CHECKPOINT = Path(__file__).parents[2] / "vlagent" / "checkpoints" / "sft"
COUNT = 9


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine right episodes of one to three turns, and one wrong one."""
    folder = tmp_path_factory.mktemp("episodes")
    samples = make_samples(folder / "pictures", COUNT + 1)

    def script(sample: Any, turn: int) -> str:
        return answer("wrong") if sample.id == f"s{COUNT}" else crop_then_answer(sample, turn)

    return write_run(folder / "run", samples, play(samples, Player(samples, script)))


@pytest.fixture(scope="module")
def out(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "out"
    export([run], folder, ExportOptions(name="zooms"))
    return folder


def messages_of(run: Path) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The messages of every right episode as the model saw them, pictures as pixels."""
    samples = {sample.id: sample for sample in read_samples(run)}
    style = Style(AGENT, AGENT.pixels)
    found = []
    for trajectory in read_trajectories(run):
        if trajectory.sample_id == f"s{COUNT}":
            continue
        for message in conversation(samples[trajectory.sample_id], trajectory, style):
            found.append((str(message.role), [_seen(part) for part in message.parts]))
    return found


def _seen(part: TextPart | ImagePart) -> tuple[str, Any]:
    if isinstance(part, TextPart):
        return "text", part.text
    return "picture", np.asarray(images.load(part.ref, part.view)).tolist()


def said(talks: list[Conversation], folder: Path) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The same of conversations that were read back."""
    found = []
    for talk in talks:
        for message in talk.messages:
            parts: list[tuple[str, Any]] = []
            for part in message.parts:
                if isinstance(part, str):
                    parts.append(("text", part))
                else:
                    parts.append(("picture", np.asarray(Image.open(folder / part).convert("RGB")).tolist()))
            found.append((message.role, parts))
    return found


@pytest.mark.parametrize("form", ["trl", "sharegpt", "datasets"])
def test_a_form_read_back_is_word_for_word_and_pixel_for_pixel_what_the_model_saw(
    run: Path, out: Path, form: str
) -> None:
    assert said(list(read_form(out, form)), out) == messages_of(run)


def rows_of(folder: Path) -> list[TrainRow]:
    from vlagent.model.load import load_processor
    from vlagent.train.config import SourceConfig
    from vlagent.train.rows import read_rows

    return read_rows(SourceConfig(run=str(folder)), load_processor(CHECKPOINT).renderer, AGENT.pixels, 4096).rows


def test_the_rows_form_trains_on_the_same_tokens_as_the_run(run: Path, out: Path) -> None:
    pytest.importorskip("torch")
    before, after = (rows_of(folder) for folder in (run, out / "rows"))
    assert len(before) == len(after) == COUNT
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one.ids, other.ids)
        assert np.array_equal(one.mask, other.mask)
        assert one.images == other.images


def test_load_dataset_takes_the_folder_as_it_is_with_pictures_inside(out: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path))
    assert len(table) == COUNT
    row = table[2]
    assert [message["role"] for message in row["messages"]][:3] == ["system", "user", "assistant"]
    slots = sum(part["type"] == "image" for message in row["messages"] for part in message["content"])
    assert slots == len(row["images"]) == 3
    assert all(isinstance(picture, Image.Image) for picture in row["images"])


def test_trl_collates_both_of_its_forms_into_the_tokens_that_we_train_on(
    run: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets, sft = pytest.importorskip("datasets"), pytest.importorskip("trl.trainer.sft_trainer")
    from vlagent.model.load import load_processor

    processor = load_processor(CHECKPOINT).hf
    collator = sft.DataCollatorForVisionLanguageModeling(processor)
    monkeypatch.chdir(out)
    lines = datasets.load_dataset("json", data_files="trl.jsonl", split="train", cache_dir=str(tmp_path / "a"))
    lines = lines.cast_column("images", datasets.Sequence(datasets.Image()))
    inside = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "b"))
    one, other = (collator([table[i] for i in range(3)]) for table in (lines, inside))
    assert one["input_ids"].tolist() == other["input_ids"].tolist()
    assert one["image_grid_thw"].shape[0] == 6  # 1 + 2 + 3 pictures
    pad = processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    counts = iter((one["image_grid_thw"].prod(dim=1) // 4).tolist())  # this processor leaves one token a picture
    for row, ids, mask in zip(rows_of(run), one["input_ids"], one["attention_mask"], strict=False):
        given = [each for one_id in ids[mask.bool()].tolist() for each in _repeated(one_id, pad, counts)]
        assert given[: len(row.ids)] == row.ids.tolist()
        assert processor.tokenizer.decode(given[len(row.ids) :]).strip() == ""  # the template's last line feed


def _repeated(token: int, pad: int, counts: Iterator[int]) -> list[int]:
    return [token] * (next(counts) if token == pad else 1)


def test_llama_factory_would_accept_the_folder(out: Path) -> None:
    assert llama_factory.problems(out) == []
    assert list(json.loads((out / "dataset_info.json").read_text())) == ["zooms"]


def test_the_check_of_the_sharegpt_form_finds_what_is_wrong(out: Path, tmp_path: Path) -> None:
    rows = json.loads((out / "sharegpt.json").read_text())
    rows[0]["images"].append("images/none.png")
    rows[1]["conversations"].insert(0, {"from": "gpt", "value": "first"})
    rows[2]["conversations"][0]["from"] = "user"
    (tmp_path / "images").symlink_to(out / "images")
    (tmp_path / "sharegpt.json").write_text(json.dumps(rows))
    (tmp_path / "dataset_info.json").write_text((out / "dataset_info.json").read_text())
    found = " ".join(llama_factory.problems(tmp_path))
    for what in ("none.png is not there", "gpt at position 1", "'user' is not one of", "<image> and"):
        assert what in found


def test_words_that_a_trainer_takes_for_pictures_are_broken_and_counted(tmp_path: Path) -> None:
    samples = make_samples(tmp_path / "pictures", 1)
    said = f"<think>I put <image> here</think>\n<answer>{samples[0].answers[0]}</answer>"
    write_run(tmp_path / "run", samples, play(samples, Player(samples, lambda *_: said)))
    card = export([tmp_path / "run"], tmp_path / "out", ExportOptions(forms=("sharegpt", "trl")))
    assert card.altered == 1
    assert llama_factory.problems(tmp_path / "out") == []
    (talk,) = read_form(tmp_path / "out", "sharegpt")
    assert talk.messages[-1].parts == (said.replace("<image>", "‹image>"),)
    (kept,) = read_form(tmp_path / "out", "trl")
    assert kept.messages[-1].parts == (said,)


def test_each_option_changes_what_is_exported(run: Path, tmp_path: Path) -> None:
    everything = export([run], tmp_path / "all", ExportOptions(only_right=False, forms=("trl",)))
    assert (everything.items, everything.outcomes) == (COUNT + 1, {"right": COUNT, "wrong": 1})
    right = export([run], tmp_path / "right", ExportOptions(forms=("trl",)))
    assert (right.items, right.left_out) == (COUNT, {"not right": 1})
    short = export([run], tmp_path / "short", ExportOptions(forms=("trl",), max_turns=1))
    assert short.left_out == {"not right": 1, "more than max_turns": 6}
    few = export([run], tmp_path / "few", ExportOptions(forms=("trl",), limit=2))
    assert (few.items, few.left_out["more than limit"]) == (2, COUNT - 2)
    export([run], tmp_path / "big", ExportOptions(forms=("trl",), pictures="original", picture_format="JPEG", limit=1))
    (picture,) = (tmp_path / "big" / "images").iterdir()
    assert picture.suffix == ".jpg"
    assert Image.open(picture).size == (160, 80)
    seen = {Image.open(path).size for path in (tmp_path / "right" / "images").iterdir()}
    assert (160, 80) not in seen  # the model saw it smaller
    export([run], tmp_path / "mars", ExportOptions(forms=("trl",), dialect="mars-released"))
    (*_, talk) = read_form(tmp_path / "mars", "trl")
    assert "image_zoom_in_tool" in str(talk.messages[2].parts[0])
    assert {path.name for path in (tmp_path / "mars").iterdir() if not path.name.startswith(".")} == {
        *("README.md", "card.json", "plots", "images", "trl.jsonl")
    }


def test_several_runs_are_merged_and_nothing_is_lost(run: Path, tmp_path: Path) -> None:
    other = make_samples(tmp_path / "pictures", 2)  # other pictures under the ids of the first run
    write_run(tmp_path / "other", other, play(other, Player(other, crop_then_answer)))
    card = export([run, run, tmp_path / "other"], tmp_path / "out", ExportOptions(forms=("rows",)))
    assert (card.items, card.questions) == (2 * COUNT + 2, COUNT + 2)
    again = list(read_trajectories(tmp_path / "out" / "rows"))
    assert len({(each.sample_id, each.rollout) for each in again}) == 2 * COUNT + 2
    assert {"s0", "s0~2"} <= {sample.id for sample in read_samples(tmp_path / "out" / "rows")}


def test_runs_with_other_settings_do_not_go_into_one_run_folder(run: Path, tmp_path: Path) -> None:
    samples = make_samples(tmp_path / "pictures", 1)
    config = AGENT.model_copy(update={"max_turns": 3})
    write_run(tmp_path / "other", samples, play(samples, Player(samples, crop_then_answer), config), config)
    with pytest.raises(UserError, match=r"agent\.max_turns = 4 in one run and 3 in another"):
        export([run, tmp_path / "other"], tmp_path / "out", ExportOptions())
    card = export([run, tmp_path / "other"], tmp_path / "two", ExportOptions(forms=("sharegpt",)))
    assert card.items == COUNT + 1


def test_the_card_says_what_is_in_the_set(run: Path, tmp_path: Path) -> None:
    rates = tmp_path / "rates.jsonl"
    rates.write_text('{"sample_id": "s0", "pass_rate": 0.125}\n{"sample_id": "s1", "pass_rate": 1.0}\n')
    words = ["curate", "export", str(run), "--out", str(tmp_path / "out"), "--name", "zooms", "--forms", "sharegpt"]
    assert main([*words, "--pass-rates", str(rates), "--licence", "drawn=cc0-1.0"]) == 0
    page, card = (tmp_path / "out" / "README.md").read_text(), json.loads((tmp_path / "out" / "card.json").read_text())
    assert page.startswith("---\nlicense: cc0-1.0\n")
    assert f"| drawn | {COUNT} | cc0-1.0 |" in page
    assert card["tools"] == {"image_crop": 9}
    assert card["tool_episodes"] == {"image_crop": 6}
    assert card["turns"] == {"1": 3, "2": 3, "3": 3}
    assert {band: count for band, count in card["pass_rates"].items() if count} == {"1/8": 1, "8/8": 1}
    assert card["lengths"]["episode, pictures"] == {"lowest": 1, "median": 2, "mean": 2, "p95": 3, "highest": 3}
    for name in ("sources", "tools", "turns", "pass_rates"):
        assert f"(plots/{name}.svg)" in page
        assert (tmp_path / "out" / "plots" / f"{name}.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--forms", "alpaca"], "one or more of rows, trl, sharegpt, datasets"),
        (["--licence", "cc0"], "write it as SET=NAME"),
        (["--max-turns", "0"], "--max-turns 0"),
        (["--limit", "-1"], "--limit -1"),
        (["--dialect", "latin"], "dialect 'latin'"),
    ],
)
def test_a_mistake_is_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["curate", "export", str(run), "--out", str(tmp_path / "out"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.rglob("README.md"))


def test_a_folder_that_holds_something_is_left_alone(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UserError, match="not empty"):
        export([run], tmp_path, ExportOptions())


def test_an_export_that_was_killed_is_made_anew_unless_something_else_lies_there(run: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    export([run], whole, ExportOptions(forms=("rows", "trl")))
    killed = f"""
import os
import subprocess
import sys
from pathlib import Path
from vlagent.curate import export
export.write_forms = lambda *_: os.kill(os.getpid(), 9)
export.export([Path({str(run)!r})], Path({str(out)!r}), export.ExportOptions(forms=("rows", "trl")))
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    assert (out / "rows" / "trajectories.jsonl").exists()
    (out / "mine.txt").write_text("x")
    with pytest.raises(UserError, match="not empty"):
        export([run], out, ExportOptions(forms=("rows", "trl")))
    (out / "mine.txt").unlink()
    export([run], out, ExportOptions(forms=("rows", "trl")))
    files = [path.relative_to(whole) for path in whole.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())
    assert all((whole / name).read_bytes() == (out / name).read_bytes() for name in files)


def test_episodes_about_a_benchmark_with_a_canary_are_not_exported(tmp_path: Path) -> None:
    (plain,) = make_samples(tmp_path / "pictures", 1)
    samples = [plain.model_copy(update={"extra": {"canary": "do not train 1234"}})]
    write_run(tmp_path / "run", samples, play(samples, Player(samples, crop_then_answer)))
    with pytest.raises(UserError, match="carries the canary of a benchmark"):
        export([tmp_path / "run"], tmp_path / "out", ExportOptions(forms=("trl",)))


def test_nothing_to_export_says_why(tmp_path: Path) -> None:
    samples = make_samples(tmp_path / "pictures", 2)
    write_run(tmp_path / "run", samples, play(samples, Player(samples, lambda *_: CROP)))
    with pytest.raises(UserError, match="no episode to export"):
        export([tmp_path / "run"], tmp_path / "out", ExportOptions())
