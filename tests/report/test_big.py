"""The folder of a large run, as files and in a real browser from file://."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import eventually
from tests.report.conftest import EVIL, opened, photo
from vlagent.errors import UserError
from vlagent.files import append_jsonl
from vlagent.report.big import CHUNK, write_folder
from vlagent.report.cards import last_lines
from vlagent.report.page import LIMIT, write_report
from vlagent.types import EvalRow, Outcome, Sample, StopReason, Trajectory, Turn

browser_test = pytest.mark.browser
COUNT = 3 * CHUNK + 5


def many(folder: Path, count: int) -> Path:
    folder.mkdir(exist_ok=True)
    picture = photo(folder / "photo.png")
    run = folder / "many"
    samples, trajectories, rows = [], [], []
    for n in range(count):
        samples.append(Sample(id=f"q{n}", source=f"s{n % 2}", question=f"Question {n} of {EVIL}?", images=(picture,)))
        turn = Turn(text=f"<answer>{n}</answer>", think=f"thought {n}", answer=f"answer {n}", format_ok=True)
        trajectories.append(
            Trajectory(sample_id=f"q{n}", turns=(turn,), answer=f"answer {n}", stop=StopReason.ANSWERED)
        )
        outcome = Outcome.RIGHT if n % 3 else Outcome.WRONG
        rows.append(EvalRow(suite=f"s{n % 2}", sample_id=f"q{n}", outcome=outcome, stop=StopReason.ANSWERED))
    append_jsonl(run / "samples.jsonl", *samples)
    append_jsonl(run / "trajectories.jsonl", *trajectories)
    append_jsonl(run / "rows.jsonl", *rows)
    return run


def chunk(folder: Path, number: int) -> list[str]:
    text = (folder / "data" / f"chunk-{number}.js").read_text()
    found = re.fullmatch(r"vlagent\.chunk\((\d+),(.*)\);\n", text, re.DOTALL)
    assert found
    assert int(found[1]) == number
    articles: list[str] = json.loads(found[2])
    return articles


def test_more_than_the_limit_is_a_folder_and_fewer_is_one_file(tmp_path: Path) -> None:
    small = write_report(many(tmp_path / "small", 3))
    assert small.name == "report.html"
    large = write_report(many(tmp_path / "large", LIMIT + 1))
    assert large.relative_to(tmp_path / "large" / "many") == Path("report/index.html")
    assert len(list((large.parent / "data").glob("chunk-*.js"))) == -(-(LIMIT + 1) // CHUNK)


def test_the_last_record_of_a_retried_episode_counts(run: Path) -> None:
    append_jsonl(run / "trajectories.jsonl", Trajectory(sample_id="s3", answer="again", stop=StopReason.ANSWERED))
    lines = last_lines(run)
    assert lines == [0, 1, 2, 4, 5]
    articles = chunk(write_folder(run, lines).parent, 0)
    assert len(articles) == 5
    assert "again" in articles[-1]


def test_text_of_models_and_pages_is_escaped_in_articles_and_index(run: Path) -> None:
    folder = write_folder(run, last_lines(run)).parent
    assert all(EVIL not in article for article in chunk(folder, 0))
    assert "<script>document" not in (folder / "index.html").read_text()


def test_a_picture_is_one_file_and_what_an_earlier_report_left_is_gone(run: Path) -> None:
    folder = write_folder(run, last_lines(run)).parent
    pictures = sorted(folder.glob("pictures/*/*.jpg"))
    assert len(pictures) == 2
    (folder / "data" / "chunk-9.js").write_text("old")
    write_folder(run, last_lines(run))
    assert not (folder / "data" / "chunk-9.js").exists()
    assert sorted(folder.glob("pictures/*/*.jpg")) == pictures


def test_a_folder_named_report_that_is_not_ours_is_left_alone(run: Path) -> None:
    (run / "report").mkdir()
    (run / "report" / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match="move it away"):
        write_folder(run, last_lines(run))
    assert (run / "report" / "thesis.tex").read_text() == "mine"


@pytest.fixture
def page(tmp_path: Path, browser: Any) -> Iterator[Any]:
    run = many(tmp_path, COUNT)
    with opened(browser, write_folder(run, last_lines(run)).as_uri()) as page:
        page.locator("article h2").wait_for()
        yield page


def headline(page: Any, number: int) -> None:
    page.locator("article h2", has_text=f"Question {number} of").wait_for()


@browser_test
def test_articles_are_loaded_from_their_files_as_one_walks(page: Any) -> None:
    headline(page, 0)
    page.keyboard.press("j")
    headline(page, 1)
    eventually(page, lambda: page.evaluate("location.hash"), "#t2")
    page.keyboard.press("k")
    headline(page, 0)
    page.evaluate(f"location.hash = '#t{COUNT}'")
    headline(page, COUNT - 1)
    page.locator("#list a[aria-current]", has_text=f"Question {COUNT - 1} of").wait_for()
    eventually(page, lambda: page.title(), "many · vlagent")


@browser_test
def test_only_what_is_seen_of_the_list_is_drawn_and_scrolling_draws_the_rest(page: Any) -> None:
    assert page.locator("#list a").count() < 40
    page.locator("#list a >> nth=0").hover()
    page.mouse.wheel(0, 100_000)
    page.locator("#list a", has_text=f"Question {COUNT - 1} of").click()
    headline(page, COUNT - 1)


@browser_test
def test_filters_join_and_escape_clears(page: Any) -> None:
    shown = page.locator("#shown")
    page.locator("#outcomes .wrong").click()
    page.locator("#shown", has_text=f"{-(-COUNT // 3)} of {COUNT}").wait_for()
    page.select_option("select[name=suite]", "s1")
    page.keyboard.press("/")
    page.keyboard.type("question 9 answer")
    page.locator("#shown", has_text="5 of").wait_for()  # 9, 9x and 99 among the odd multiples of three
    headline(page, 9)
    page.keyboard.press("Escape")
    page.locator("#shown", has_text=f"{COUNT} of {COUNT}").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("nothing like it")
    page.locator("nav .none").wait_for()
    eventually(page, lambda: shown.inner_text().startswith("0 of"), True)


@browser_test
def test_a_picture_opens_large_and_t_switches_the_light(page: Any) -> None:
    page.locator("article .inputs img").click()
    page.locator("dialog[open] img").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    eventually(page, lambda: page.evaluate("document.documentElement.dataset.theme"), "dark")
