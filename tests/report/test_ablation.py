"""The page of an ablation, as text and in a real browser driven by mouse and keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import eventually
from tests.report.ablation_results import make_results
from tests.report.conftest import opened
from vlagent.bench.ablation import analyse, read_results
from vlagent.cli.main import main
from vlagent.errors import UserError
from vlagent.report.ablation import curve_sections, is_ablation, write_ablation_report

browser_test = pytest.mark.browser


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("results") / "toy_algorithms")


@pytest.fixture(scope="module")
def written(results: Path) -> Path:
    return write_ablation_report(results).page


def test_a_folder_without_results_is_the_users_error(tmp_path: Path) -> None:
    assert not is_ablation(tmp_path)
    with pytest.raises(UserError, match=r"no result of an ablation"):
        write_ablation_report(tmp_path)


def test_page_table_and_numbers_lie_beside_the_runs(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(results)]) == 0
    assert Path(capsys.readouterr().out.strip()) == results.resolve() / "page.html"
    assert "| bn_gspo against gspo (hybrid) |" in (results / "table.md").read_text()
    assert json.loads((results / "analysis.json").read_text())["runs"] == 13


def test_the_page_asks_nothing_of_any_network(written: Path) -> None:
    text = written.read_text()
    assert re.findall(r"<(?:link|script|img|iframe|source)[^>]*\b(?:src|href)=\"([^\"]*)", text) == []


def test_every_cell_every_contrast_and_every_run_has_its_row(written: Path) -> None:
    text = written.read_text()
    tables = re.findall(r"<table.*?</table>", text, flags=re.S)
    rows = [table.count("<tr>") - 1 for table in tables]
    assert rows == [1 + 4, 3 + 1, 3, 4, 13]  # cells and cold start, contrasts, tables 3 and 4, runs


def test_a_chart_compares_only_cells_that_differ_in_one_thing(results: Path) -> None:
    found = read_results(results / "runs")
    sections = curve_sections(found, analyse(found))
    assert list(sections) == ["Algorithms", "Data mixes"]
    assert [line.label for line in sections["Algorithms"][0].lines] == [
        "grpo, hybrid",
        "gspo, hybrid",
        "bn_gspo, hybrid",
    ]
    assert [line.label for line in sections["Data mixes"][0].lines] == ["bn_gspo, hybrid", "bn_gspo, perception"]
    assert all(len(line.band) == 20 for line in sections["Algorithms"][0].lines)


@pytest.fixture
def page(written: Path, browser: Any) -> Iterator[Any]:
    with opened(browser, written.as_uri()) as page:
        yield page


@browser_test
def test_the_verdict_stands_on_top_and_names_the_better_one(page: Any) -> None:
    said = page.locator("#verdict p").all_inner_texts()
    better = [sentence for sentence in said if sentence.endswith(" bn_gspo is better.")]
    assert len(better) == 2
    assert any(sentence.startswith("gspo against grpo (hybrid):") for sentence in said)
    assert page.locator("#verdict").bounding_box()["y"] < 300


@browser_test
def test_curves_have_bands_and_open_large_by_keyboard(page: Any) -> None:
    figure = page.locator("#curves .chart >> nth=0")
    assert figure.locator("path.band").count() == 3
    figure.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    eventually(page, lambda: page.locator("#big[open] .hand").get_attribute("visibility"), "visible")
    page.keyboard.press("t")
    eventually(page, lambda: page.evaluate("document.documentElement.dataset.theme"), "light")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    eventually(page, lambda: page.evaluate("document.documentElement.dataset.theme"), "dark")


@browser_test
def test_m_finds_a_curve(page: Any) -> None:
    page.keyboard.press("m")
    page.keyboard.type("factor")
    titles = page.locator("#curves .chart:not([hidden]) figcaption")
    eventually(page, lambda: set(titles.all_inner_texts()), {"Factor of batch normalisation"})


@browser_test
def test_every_run_is_there_with_its_command_and_commit(page: Any) -> None:
    page.locator("#published summary").click()
    rows = page.locator("#published details tbody tr")
    eventually(page, lambda: sum("abc1234" in r and "vlagent rl" in r for r in rows.all_inner_texts()), 13)
    assert rows.count() == 13


@browser_test
def test_the_page_fits_a_phone(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    eventually(page, lambda: page.evaluate("document.documentElement.scrollWidth") <= 390, True)
