"""Questions that come from elsewhere and go elsewhere: Label Studio, and sets that exist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.curate.bench.conftest import FINISHED, RULES, SIGN, scene, write
from vlagent.curate.bench.collect import Given
from vlagent.curate.bench.config import BenchConfig
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.importing import Imported, import_samples, import_tasks
from vlagent.curate.bench.label_studio import export_tasks, interface
from vlagent.curate.bench.records import Item
from vlagent.data.manifest import load_samples
from vlagent.errors import UserError
from vlagent.files import read_json, write_atomic, write_json
from vlagent.images import probe
from vlagent.types import Sample


def fields(item: Item) -> dict[str, Any]:
    return {name: getattr(item, name) for name in FINISHED if name != "state"} | {"notes": item.notes}


def test_a_question_survives_the_way_to_label_studio_and_back(bench: Bench, tmp_path: Path) -> None:
    item = write(bench, answers=("Harbour Trust", "The Trust"), notes="two\nlines")
    assert export_tasks(bench, tmp_path / "tasks.json") == 1
    other = Bench(tmp_path / "other")
    for name in ("pictures.jsonl", "bench.toml"):
        write_atomic(other.folder / name, (bench.folder / name).read_text())
    assert import_tasks(other, tmp_path / "tasks.json").new == 1
    (back,) = other.items().values()
    assert fields(back) == fields(item)
    assert (back.id, back.author, back.state) == (item.id, "ann", "draft")
    assert import_tasks(other, tmp_path / "tasks.json").known == 1
    assert len(other.items()) == 1


def test_tasks_are_in_percent_and_named_as_their_configuration_says(bench: Bench, tmp_path: Path) -> None:
    write(bench)
    export_tasks(bench, tmp_path / "tasks.json", root="https://store.example/")
    task = next(task for task in read_json(tmp_path / "tasks.json") if task["annotations"])
    (box,) = [each for each in task["annotations"][0]["result"] if each["type"] == "rectanglelabels"]
    assert {name: box["value"][name] for name in ("x", "y", "width", "height")} == {
        "x": 50,
        "y": 50,
        "width": 10,
        "height": 5,
    }
    assert (box["original_width"], box["original_height"]) == (800, 600)
    assert task["data"]["image"].startswith("https://store.example/pictures/")
    root = ElementTree.fromstring((tmp_path / "tasks.xml").read_text())
    names = {node.get("name") for node in root.iter() if node.get("name")}
    assert {result["from_name"] for result in task["annotations"][0]["result"]} <= names
    assert {node.get("value") for node in root.iter("Choice")} == {
        "Ports",
        "Others",
        "image_crop",
        "text_search",
        "image_search",
    }


def test_domains_with_marks_of_their_own_stay_xml() -> None:
    text = interface(BenchConfig(domains=('R&D "new" <x>',)))
    assert ElementTree.fromstring(text).find(".//Choice[@value]").get("value") == 'R&D "new" <x>'  # type: ignore[union-attr]


def test_an_export_made_in_label_studio_itself_is_read(bench: Bench, tmp_path: Path) -> None:
    picture = next(iter(bench.pictures().values()))
    name = Path(picture.source).name
    task = {
        "id": 7,
        "data": {"image": f"/data/upload/1/1a2b3c4d-{name}"},
        "annotations": [
            {
                "id": 3,
                "completed_by": 5,
                "was_cancelled": False,
                "result": [
                    {
                        "from_name": "label",
                        "type": "rectanglelabels",
                        "value": {"x": 50, "y": 50, "width": 10, "height": 5, "rectanglelabels": ["Sign"]},
                    },
                    {"from_name": "question", "type": "textarea", "value": {"text": ["Who?"]}},
                    {"from_name": "answers", "type": "textarea", "value": {"text": ["A", "B"]}},
                ],
            },
            {"id": 4, "completed_by": 5, "was_cancelled": True, "result": []},
        ],
    }
    write_json(tmp_path / "export.json", [task, {"id": 8, "data": {"image": "/data/upload/1/strange.png"}}])
    end = import_tasks(bench, tmp_path / "export.json")
    (item,) = bench.items().values()
    assert (item.box, item.question, item.answers, item.author) == (SIGN, "Who?", ("A", "B"), "5")
    assert (end.new, len(end.left_out)) == (1, 1)
    assert "task 8" in end.left_out[0]


def test_a_turned_box_is_not_taken_for_an_upright_one(bench: Bench, tmp_path: Path) -> None:
    write(bench)
    export_tasks(bench, tmp_path / "tasks.json")
    tasks = read_json(tmp_path / "tasks.json")
    for task in tasks:
        for annotation in task["annotations"]:
            annotation["unique_id"] = "turned-1"
            annotation["result"][0]["value"]["rotation"] = 30
    write_json(tmp_path / "turned.json", tasks)
    import_tasks(bench, tmp_path / "turned.json")
    assert bench.items()["turned-1"].box is None


@pytest.mark.parametrize("content", ["{}", "[1]", "no json"])
def test_a_file_that_is_no_export_is_the_users_error(bench: Bench, tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UserError):
        import_tasks(bench, tmp_path / "x.json")


async def test_a_set_is_taken_over_with_its_pictures_and_what_it_knows(tmp_path: Path) -> None:
    for seed in (1, 2):
        scene(tmp_path / f"{seed}.png", seed)
    rows = [
        {"sample_id": "a/1", "query": "Who?", "query_image": "1.png", "ground_truth": ["X", "Y"], "category": "Ports"},
        {
            "sample_id": "a/2",
            "query": "What?",
            "query_image": "2.png",
            "ground_truth": "Z",
            "category": "Sports",
            "box": [1, 2, 30, 40],
        },
    ]
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    optional = {"question": "Which?", "A": "x", "B": "y", "answer": "A", "image": "1.png"}
    (tmp_path / "more.jsonl").write_text(json.dumps(optional) + "\n")
    samples = [*load_samples(str(tmp_path / "set.jsonl")), *load_samples(str(tmp_path / "more.jsonl"))]
    bench = Bench(tmp_path / "bench")
    write_atomic(bench.folder / "bench.toml", RULES)
    end = await import_samples(bench, samples, "old-set", Given(licence="CC0"))
    assert (end.new, len(end.left_out)) == (2, 1)
    first, second = bench.items().values()
    assert (first.id, first.answers, first.domain, first.author) == ("a-1", ("X", "Y"), "Ports", "old-set")
    assert (second.box, second.domain, second.notes) == ((1, 2, 30, 40), "", "domain of the imported set: Sports")
    assert all(picture.licence == "CC0" for picture in bench.pictures().values())
    again = await import_samples(bench, samples, "old-set", Given())
    assert (again.new, again.known) == (0, 2)


def _damaged_box(**sides: Any) -> dict[str, Any]:
    return {"result": [{"from_name": "box", "type": "rectanglelabels", "value": sides}]}


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (None, "annotation: an object"),
        ({"result": "text"}, "a result: an object"),
        ({"result": [{"from_name": "question", "value": "text"}]}, "question: its value"),
        (_damaged_box(x=1), "four numbers"),
        (_damaged_box(x="a", y=1, width=1, height=1), "four numbers"),
        (_damaged_box(x=float("nan"), y=1, width=1, height=1), "four numbers"),
        (_damaged_box(x=-50, y=1, width=1, height=1), "nothing of the picture"),
        (_damaged_box(x=1e308, y=1, width=1e308, height=1), "nothing of the picture"),
        (_damaged_box(x=5, y=5, width=-1, height=1), "nothing of the picture"),
    ],
)
def test_a_damaged_annotation_is_named_and_the_others_are_taken(
    bench: Bench, tmp_path: Path, annotation: Any, why: str
) -> None:
    fine = {"result": [{"from_name": "question", "value": {"text": ["Whose pier?"]}}]}
    task = {"id": 7, "data": {"picture": next(iter(bench.usable()))}, "annotations": [annotation, fine]}
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    end = import_tasks(bench, tmp_path / "tasks.json")
    assert end.new == 1
    assert "task 7, annotation 1" in end.left_out[0]
    assert why in end.left_out[0]


def test_names_of_others_become_ours_and_none_swallows_another(bench: Bench, tmp_path: Path) -> None:
    asked = [
        {"unique_id": name, "result": [{"from_name": "question", "value": {"text": [name]}}]}
        for name in ("a/b?#c", "a-b--c", "a-b--c")
    ]
    task = {"data": {"picture": next(iter(bench.usable()))}, "annotations": asked}
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    assert import_tasks(bench, tmp_path / "tasks.json").new == 3
    assert import_tasks(bench, tmp_path / "tasks.json") == Imported(new=0, known=3)
    assert sorted(item.question for item in bench.items().values()) == ["a-b--c", "a-b--c", "a/b?#c"]
    assert all(name.replace("-", "").isalnum() for name in bench.items())


def test_a_box_that_reaches_over_the_edge_is_cut(bench: Bench, tmp_path: Path) -> None:
    picture = next(iter(bench.usable().values()))
    task = {"data": {"picture": picture.id}, "annotations": [_damaged_box(x=-1, y=95, width=11, height=10)]}
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    import_tasks(bench, tmp_path / "tasks.json")
    (item,) = bench.items().values()
    assert item.box == (0, round(0.95 * picture.height), round(0.1 * picture.width), picture.height)


@pytest.mark.parametrize("box", [[float("nan")] * 4, [0, 0, float("inf"), 5], [True] * 4, ["a"] * 4])
async def test_a_damaged_box_of_a_set_is_to_be_drawn_anew(tmp_path: Path, bench: Bench, box: list[Any]) -> None:
    scene(tmp_path / "p.png", 9)
    ref = probe(tmp_path / "p.png")
    sample = Sample(id="s/1", source="old", question="q?", images=(ref,), answers=("a",), extra={"box": box})
    await import_samples(bench, [sample], "old", Given())
    assert [(item.id, item.box) for item in bench.items().values()] == [("s-1", None)]


def test_tasks_do_not_take_the_place_of_their_configuration(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends in \.json"):
        export_tasks(bench, tmp_path / "tasks.xml")
