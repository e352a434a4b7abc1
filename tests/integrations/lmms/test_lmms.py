"""The exported task directory, read and called as lmms-eval does."""

from __future__ import annotations

import importlib.util
import re

import pytest
import yaml

from tests.bench.suites.items import KNOWLEDGE, PERCEPTION
from tests.bench.suites.published import mmsearch, vstar_jsonl
from vlagent.bench.suites import resolve_suites
from vlagent.cli.main import main
from vlagent.integrations.lmms_eval import METRIC, export_task, process_results


@pytest.fixture
def task(tmp_path):
    """(YAML with its functions, rows) as lmms-eval's loader makes them of the directory."""
    datasets = pytest.importorskip("datasets")
    vstar_jsonl(tmp_path, PERCEPTION)
    folder = export_task(resolve_suites(["vstar"], tmp_path)[0].load(), tmp_path / "tasks", "vstar")
    spec = importlib.util.spec_from_file_location("utils", folder / "utils.py")
    utils = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)

    class Loader(yaml.SafeLoader):
        """Knows `!function module.name`."""

    Loader.add_constructor("!function", lambda loader, node: getattr(utils, node.value.partition(".")[2]))
    config = yaml.load((folder / "vlagent_vstar.yaml").read_text(), Loader)
    rows = datasets.load_dataset(config["dataset_path"], cache_dir=str(tmp_path / "c"), **config["dataset_kwargs"])
    return config, rows[config["test_split"]]


def test_the_task_shows_the_pictures_and_asks_for_the_letter(task):
    config, rows = task
    assert (config["task"], config["output_type"], len(rows)) == ("vlagent_vstar", "generate_until", len(PERCEPTION))
    (picture,) = config["doc_to_visual"](rows[0])
    assert (picture.size, picture.mode) == ((160, 120), "RGB")
    text = config["doc_to_text"](rows[0], config["lmms_eval_specific_kwargs"]["default"])
    assert text.startswith("What is thing 0?\n(A) ")
    assert text.endswith("\nAnswer with the letter of the option alone.")
    assert rows[0][config["doc_to_target"]] == PERCEPTION[0].letter


def test_answers_are_scored_by_our_rules_and_averaged(task):
    config, rows = task
    said = [[f"({item.letter})" if item.plant == "right" else "A or B"] for item in PERCEPTION]
    scores = [config["process_results"](row, answer) for row, answer in zip(rows, said, strict=True)]
    (metric,) = config["metric_list"]
    assert metric["metric"] == METRIC
    right = sum(item.plant == "right" for item in PERCEPTION)
    assert metric["aggregation"]([score[METRIC] for score in scores]) == pytest.approx(right / len(PERCEPTION))
    assert config["process_results"](rows[0], [])[METRIC] == 0.0


def test_a_question_without_an_answer_is_no_score():
    from vlagent.types import Sample

    row = {"sample": Sample(id="x", source="s", question="q").model_dump_json()}
    assert process_results(row, ["Paris"]) == {METRIC: None}


def test_the_verb_writes_the_directory_and_says_how_to_run_it(tmp_path, capsys):
    mmsearch(tmp_path, KNOWLEDGE)
    assert main(["bench", "export", "lmms-eval", "mmsearch", str(tmp_path / "tasks"), "--data", str(tmp_path)]) == 0
    assert re.search(r"--include_path \S+tasks --tasks vlagent_mmsearch", capsys.readouterr().out)
    assert {path.name for path in (tmp_path / "tasks" / "vlagent_mmsearch").iterdir()} == {
        "data",
        "utils.py",
        "vlagent_mmsearch.yaml",
    }
