"""Runs beside one another, as text and in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import eventually
from tests.report.conftest import opened
from vlagent.bench.config import EvalConfig
from vlagent.bench.summary import summarise
from vlagent.cli.main import main
from vlagent.errors import UserError
from vlagent.files import append_jsonl, read_records, write_json
from vlagent.report.comparison import write_comparison
from vlagent.types import EvalRow, Outcome

browser_test = pytest.mark.browser
AGAINST = {"s0": Outcome.WRONG, "s1": Outcome.RIGHT}
"""What became of two questions in the second run."""


def finish(run: Path, model: str) -> None:
    write_json(run / "config.json", EvalConfig(target="toy", model=model))
    write_json(run / "summary.json", summarise(run))


@pytest.fixture
def runs(run: Path) -> list[Path]:
    """Three runs of the same five questions: the second is right and wrong elsewhere, the third as the first."""
    folders = [run]
    for name in ("second", "third"):
        shutil.copytree(run, run.parent / name)
        folders.append(run.parent / name)
    rows = list(read_records(run / "rows.jsonl", EvalRow))
    (folders[1] / "rows.jsonl").unlink()
    for row in rows:
        changed = {"outcome": AGAINST.get(row.sample_id, row.outcome)}
        append_jsonl(folders[1] / "rows.jsonl", row.model_copy(update=changed))
    for folder, model in zip(folders, ("base", "sft", "base"), strict=True):
        finish(folder, model)
    return folders


def test_one_run_alone_is_the_users_error(run: Path) -> None:
    finish(run, "base")
    with pytest.raises(UserError, match="two runs"):
        write_comparison([run], run / "page.html")


def test_scores_pairs_and_differing_settings_stand_on_the_page(runs: list[Path], tmp_path: Path) -> None:
    text = write_comparison(runs, tmp_path / "page.html").read_text()
    assert text.count("50.0 % (1/2)") == 3  # no error: all questions share one picture
    assert '<th scope="row">second: toy</th><td>+0.0</td>' in text
    assert ">sft</td>" in text.split("What differs", 1)[1]
    assert "5 questions · 1 worse · 1 better · 3 not paired" in " ".join(text.split())


def test_tool_use_is_drawn_for_every_run_and_text_is_escaped(runs: list[Path], tmp_path: Path) -> None:
    text = write_comparison(runs, tmp_path / "page.html").read_text()
    plot = text.split("Tool calls in an episode, by data set")[2].split("</svg>")[0]
    assert plot.count('class="run"') == 3
    assert "image_crop: 0.2" in plot
    assert "<script>document" not in text


def test_a_question_that_one_run_lacks_says_so(runs: list[Path], tmp_path: Path) -> None:
    lines = (runs[2] / "trajectories.jsonl").read_text().splitlines(keepends=True)
    (runs[2] / "trajectories.jsonl").write_text("".join(lines[1:]))
    text = write_comparison(runs, tmp_path / "page.html").read_text()
    assert "not in this run" in text


def test_the_verb_writes_the_page_beside_what_it_prints(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *map(str, runs), "--page", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr()
    assert str(tmp_path / "page.html") in said.err
    assert "Worse (1):" in said.out


@pytest.fixture
def page(runs: list[Path], tmp_path: Path, browser: Any) -> Iterator[Any]:
    with opened(browser, write_comparison(runs, tmp_path / "page.html").as_uri()) as page:
        yield page


@browser_test
def test_the_episodes_of_a_question_stand_side_by_side(page: Any) -> None:
    columns = page.locator(".columns > section")
    assert columns.count() == 3
    assert [columns.nth(n).locator("h3.run").inner_text().split("\n")[0] for n in range(3)] == [
        "run right",
        "second wrong",
        "third right",
    ]
    boxes = [columns.nth(n).bounding_box() for n in range(3)]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"] + 1
    assert boxes[0]["y"] == boxes[1]["y"] == boxes[2]["y"]


@browser_test
def test_changes_are_filtered_by_mouse_and_walked_by_keyboard(page: Any) -> None:
    page.locator("#changes .better").click()
    page.locator("#shown", has_text="1 of 5").wait_for()
    eventually(page, lambda: "Who owns it?" in page.locator("#detail h2 >> nth=0").inner_text(), True)
    page.keyboard.press("Escape")
    page.locator("#shown", has_text="5 of 5").wait_for()
    page.keyboard.press("k")
    eventually(page, lambda: "When was the harbour founded?" in page.locator("#detail h2 >> nth=0").inner_text(), True)
    page.keyboard.press("j")
    eventually(page, lambda: "Who owns it?" in page.locator("#detail h2 >> nth=0").inner_text(), True)
    page.keyboard.press("/")
    page.keyboard.type("港")
    page.locator("#shown", has_text="1 of 5").wait_for()


@browser_test
def test_a_turn_lights_the_box_of_its_own_run_only(page: Any) -> None:
    page.locator(".columns > section >> nth=1 >> .turn >> nth=0").hover()
    eventually(page, lambda: page.locator(".columns > section >> nth=1 >> .mark.on").count(), 1)
    eventually(page, lambda: page.locator(".columns > section >> nth=0 >> .mark.on").count(), 0)
    page.locator(".columns > section >> nth=0 >> .inputs img").click()
    page.locator("dialog[open] img").wait_for()
    page.keyboard.press("Escape")
    page.locator(".plots summary").click()
    page.locator(".plot svg >> nth=0").wait_for()
