"""The training sets of SenseNova-MARS in their published layouts: fetched from a folder in the hub's place, read."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.data.files import write_picture
from vlagent.cli.main import main
from vlagent.data.manifest import load_samples
from vlagent.data.pixel_reasoner import boxed
from vlagent.data.training_sets import TRAINING_SETS, fetch_set, unpack
from vlagent.errors import UserError

GUIDELINES = (
    "\n\nGuidelines: Understand the given visual information and the user query. Determine if it is beneficial to "
    "employ the given visual operations (tools). Put your final answer within \\boxed{}."
)


def png(colour: str = "red", size: tuple[int, int] = (64, 48)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def probe(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "images": [f"VisualProbe_train/data/visual_probe_train_{number}.jpg"],
        "doc_id": f"visual_probe_train_{number}",
        "problem": "<image>\nWhat is written on the sign?",
        "solution": "EXIT",
        "data_source": "visual_probe_train",
        **changes,
    }


def episode(qid: str, **changes: Any) -> dict[str, Any]:
    call = '{"name": "crop_image", "arguments": {"bbox_2d": [0, 0, 9, 9], "target_image": 1}}'
    return {
        "qid": qid,
        "message_list": [
            {"role": "system", "content": [{"text": "# Tools", "image": None}]},
            {
                "role": "user",
                "content": [
                    {"image": f"images/{qid}.png", "text": None},
                    {"text": f"How many?{GUIDELINES}", "image": None},
                ],
            },
            {"role": "assistant", "content": [{"text": f"Look. <tool_call>\n{call}\n</tool_call>", "image": None}]},
            {"role": "user", "content": [{"image": f"images/{qid}-crop.png", "text": None}]},
            {"role": "assistant", "content": [{"text": "So it is \\boxed{\\text{12 {m}}}.", "image": None}]},
        ],
        **changes,
    }


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """What the four owners publish, small."""
    hub = tmp_path / "hub"
    for repo, name in (("Mini-o3/VisualProbe_train", "visual_probe"), ("Mini-o3/DeepEyes_train_4K", "deepeyes_train")):
        rows = [probe(1), probe(2)]
        if name == "deepeyes_train":
            asked = "<image>\nWhich colour?\nA. red\nB. blue"
            rows = [probe(1, problem=asked, solution="A", images=["DeepEyes_train_4K/data/visual_probe_train_1.jpg"])]
        for row in rows:
            write_picture(hub / repo / "data" / Path(row["images"][0]).name)
        (hub / repo / "train.json").write_text(json.dumps(rows))
    _pixel_reasoner(hub / "TIGER-Lab" / "PixelReasoner-SFT-Data")
    _fvqa(hub / "lmms-lab" / "FVQA")
    return hub


def _pixel_reasoner(folder: Path) -> None:
    folder.mkdir(parents=True)
    video = episode("v")
    video["message_list"][1]["content"] = [{"video": ["frames/1.jpg"]}, {"text": "What happens?"}]
    (folder / "release.json").write_text(json.dumps([episode("a"), video, episode("b")]))
    (folder / "text_only.json").write_text("[]")
    with zipfile.ZipFile(folder / "images.zip", "w") as packed:
        for name in ("a", "b"):
            packed.writestr(f"images/{name}.png", png())


def _fvqa(folder: Path) -> None:
    folder.mkdir(parents=True)
    row = {
        "data_id": "fvqa_train_7",
        "prompt": [{"role": "user", "content": "<image>\nWho built it?"}],
        "images": [{"bytes": png("blue")}],
        "reward_model": {"ground_truth": "Eiffel", "candidate_answers": '["G. Eiffel", "Eiffel"]', "style": "rule"},
        "category": "search_required",
    }
    pq.write_table(pa.Table.from_pylist([row]), folder / "fvqa_train.parquet")
    (folder / "fvqa_train_image_search_results_cache.pkl").write_bytes(b"never read")


def test_every_set_is_fetched_and_read_by_its_name_in_one_manifest(tmp_path: Path, hub: Path) -> None:
    data = tmp_path / "raw"
    assert main(["data", "fetch", ",".join(TRAINING_SETS), str(data), "--hub", str(hub)]) == 0
    samples = {sample.source: sample for sample in load_samples(data / "train.json")}
    assert set(samples) == set(TRAINING_SETS)
    assert samples["fvqa_train"].id == "fvqa_train_7"
    assert samples["fvqa_train"].answers == ("Eiffel", "G. Eiffel")
    assert samples["fvqa_train"].extra["category"] == "search_required"
    assert samples["pixel_reasoner"].question == "How many?"
    assert samples["pixel_reasoner"].answers == ("12 {m}",)
    assert samples["visual_probe"].question == "What is written on the sign?"
    assert samples["deepeyes_4k"].answers == ("A",)
    assert all(len(sample.images) == 1 and sample.system_prompt is None for sample in samples.values())
    assert not list(data.rglob("*.pkl"))


def test_videos_are_left_out_and_the_length_says_so(tmp_path: Path, hub: Path) -> None:
    done = fetch_set("pixel_reasoner", tmp_path / "raw", hub=hub)
    assert done.rows == 2
    assert [sample.id for sample in load_samples(f"{done.manifest}:pixel_reasoner")] == ["a", "b"]


def test_fetching_one_set_more_keeps_the_entries_of_the_others(tmp_path: Path, hub: Path) -> None:
    fetch_set("visual_probe", tmp_path / "raw", hub=hub)
    fetch_set("fvqa_train", tmp_path / "raw", hub=hub)
    assert set(json.loads((tmp_path / "raw" / "train.json").read_text())) == {"visual_probe", "fvqa_train"}


def test_check_takes_sets_by_name_and_finds_a_lost_picture(
    tmp_path: Path, hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch_set("visual_probe", tmp_path / "raw", hub=hub)
    (tmp_path / "raw" / "visual_probe" / "data" / "visual_probe_train_2.jpg").unlink()
    assert main(["data", "check", "visual_probe", "--data", str(tmp_path / "raw")]) == 2
    said = capsys.readouterr().out
    assert "visual_probe: 1 questions of 2 rows can be used" in said
    assert "visual_probe_train_2" in said
    assert main(["data", "check", "fvqa_train", "--data", str(tmp_path / "raw")]) == 2
    assert "data fetch fvqa_train" in capsys.readouterr().err


def test_rows_of_deepeyes_47k_lose_its_own_tool(tmp_path: Path) -> None:
    tool = "\nThink first, call **image_zoom_in_tool** if needed, then answer. Format strictly as: <think>...</think> "
    row = {
        "prompt": [
            {"role": "system", "content": "# Tools <tools>image_zoom_in_tool</tools>"},
            {"role": "user", "content": f"<image>\nIs it red?{tool}"},
        ],
        "images": [{"bytes": png()}],
        "reward_model": {"ground_truth": "yes", "style": "model"},
        "extra_info": {"index": "12", "question": "Is it red?", "answer": "yes"},
        "data_source": "vstar",
        "env_name": "visual_toolbox_v2",
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "deepeyes.parquet")
    (sample,) = load_samples(tmp_path / "deepeyes.parquet")
    assert (sample.question, sample.answers, sample.system_prompt) == ("Is it red?", ("yes",), None)
    assert sample.id == "deepeyes/12"


def test_a_list_in_a_json_file_is_rows_and_an_object_a_manifest(tmp_path: Path) -> None:
    write_picture(tmp_path / "VisualProbe_train" / "data" / "visual_probe_train_3.jpg")
    (tmp_path / "mine.json").write_text(json.dumps([probe(3)]))
    (sample,) = load_samples(tmp_path / "mine.json")
    assert sample.source == "mine"
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(UserError, match="a manifest is an object"):
        load_samples(tmp_path / "bad.json")


def test_an_archive_that_writes_outside_its_folder_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as packed:
        packed.writestr("../escaped.png", png())
    with pytest.raises(UserError, match="outside its folder"):
        unpack(tmp_path / "images.zip")
    assert not (tmp_path.parent / "escaped.png").exists()
    (tmp_path / "images.zip").write_bytes(b"PK no zip")
    with pytest.raises(UserError, match="damaged"):
        unpack(tmp_path / "images.zip")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("first \\boxed{1}, then \\boxed{2}", "2"),
        ("\\boxed{a {b} c}", "a {b} c"),
        ("\\boxed{open", "open"),
        ("no box", ""),
    ],
)
def test_the_answer_is_the_last_box(text: str, answer: str) -> None:
    assert boxed(text) == answer


def test_every_layout_names_its_source_in_its_module() -> None:
    from importlib import import_module

    for known in TRAINING_SETS.values():
        assert "Layout read from:" in (import_module(known.layout).__doc__ or "")


def test_an_unknown_set_is_one_line_that_lists_the_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "fvqa", str(tmp_path)]) == 2
    assert "fvqa_train, pixel_reasoner" in capsys.readouterr().err
