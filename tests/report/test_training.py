"""The page of a training run, as text and in a real browser driven by mouse and keyboard."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from tests.browser import eventually
from tests.report.conftest import EVIL, opened
from tests.report.training_run import STEPS, make_training_run
from vlagent.cli.main import main
from vlagent.errors import UserError
from vlagent.files import write_json
from vlagent.report.series import Chart, Line, charts_of, read_table, window
from vlagent.report.training import compared, heat_map, is_training, read_steps, spread, write_training_report
from vlagent.train.rl.metrics import SUMMED

browser_test = pytest.mark.browser


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_training_run(tmp_path_factory.mktemp("training"))


def test_a_folder_without_metrics_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"metrics\.jsonl"):
        write_training_report(tmp_path)


def test_the_verb_writes_the_page_of_a_training_run(training: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert is_training(training)
    assert main(["report", str(training)]) == 0
    assert Path(capsys.readouterr().out.strip()) == training.resolve() / "report.html"
    assert "Share of groups that teach" in (training / "report.html").read_text()


def test_metrics_without_a_step_are_named(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"verb": "rl"})
    (tmp_path / "metrics.jsonl").write_text('{"loss": 1.0}\n')
    with pytest.raises(UserError, match="names no step"):
        write_training_report(tmp_path)


def test_a_recorded_step_that_lost_an_episode_is_named(training: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(training, run)
    file = sorted((run / "rollouts").glob("step-*"))[0] / "rows.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(UserError, match="not of the same episodes; remove"):
        write_training_report(run)


def test_an_evaluation_is_no_training_run(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"verb": "eval"})
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    assert not is_training(tmp_path)


@pytest.mark.parametrize("metrics", ["", '{"step": 1, "epi', None])
def test_a_run_that_has_measured_nothing_yet_has_a_page_that_says_so(metrics: str | None, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"verb": "rl"})
    if metrics is not None:
        (tmp_path / "metrics.jsonl").write_text(metrics)
    assert main(["report", str(tmp_path)]) == 0
    text = write_training_report(tmp_path).read_text()
    assert "Nothing has been measured yet." in text
    assert "0 steps, not ended yet" in text


def test_the_page_asks_nothing_of_any_network_and_escapes_what_it_shows(training: Path) -> None:
    text = write_training_report(training).read_text()
    assert re.findall(r"<(?:link|script|img|iframe|source)[^>]*\b(?:src|href)=\"([^\"]*)", text) == []
    assert EVIL not in text
    assert str(escape(EVIL)) in text


def test_the_numbers_for_the_script_are_json_without_nan(training: Path) -> None:
    block = write_training_report(training).read_text().split('id="charts">')[1].split("</script>")[0]
    charts = json.loads(block, parse_constant=lambda name: pytest.fail(f"{name} in the page"))
    loss = next(chart for chart in charts if chart["title"] == "Loss")
    assert loss["lines"][0]["points"][5] == [6.0, None]
    assert loss["marks"] == [[6.0, "loss: not a finite number"]]


def test_every_number_of_the_run_is_in_exactly_one_chart(training: Path) -> None:
    lines = [json.loads(line) for line in (training / "metrics.jsonl").read_text().splitlines()]
    shown = [line.label for charts in charts_of(read_table(lines)).values() for chart in charts for line in chart.lines]
    assert len(shown) == len(set(shown))
    measured = {name for line in lines for name in line if not name.startswith("calls_by_kind/")}
    assert set(shown) == measured - {"step", "episodes", "reward/scored"}


def test_what_the_layout_does_not_know_stands_under_other() -> None:
    sections = charts_of({"own/thing": [(1, 2.0)], "own/else": [(1, 3.0)], "kl": [(1, 0.1)]})
    assert list(sections) == ["Algorithm", "Other"]
    assert sections["Other"] == [Chart("own", (Line("own/else", ((1, 3.0),)), Line("own/thing", ((1, 2.0),))))]


@pytest.mark.parametrize(("count", "first", "last"), [(1, 0, 0), (4, 0, 3), (10, 0.5, 8.5), (100, 2, 97)])
def test_before_and_after_are_means_of_a_fifth_of_the_steps_at_most_five(count: int, first: float, last: float) -> None:
    values = [float(i) for i in range(count)]
    assert (window(values, last=False), window(values, last=True)) == (first, last)


def test_the_table_on_top_leaves_out_what_is_no_number() -> None:
    table = compared({"loss": [(1, 4.0), (2, float("nan")), (3, 2.0)], "success/all": [(1, 0.5)]})
    assert table is not None
    assert table.rows == (("Loss", "4", "2", "-2"),)


def test_seconds_that_overlap_have_a_chart_of_their_own(training: Path) -> None:
    lines = [json.loads(line) for line in (training / "metrics.jsonl").read_text().splitlines()]
    charts = {chart.title: [line.label for line in chart.lines] for chart in charts_of(read_table(lines))["Cost"]}
    assert charts["Seconds a step"] == ["time/rollout_s", "time/step_s", "time/update_s"]
    assert charts["Seconds a step, summed over its episodes"] == [f"time/{part}_s" for part in SUMMED]


def test_a_run_that_goes_on_is_not_said_to_be_stopped(training: Path, tmp_path: Path) -> None:
    shutil.copytree(training, tmp_path / "run")
    stopped = {"verb": "rl", "total_steps": STEPS + 8, "ended": "stopped"}
    write_json(tmp_path / "run" / "summary.json", stopped | {"steps": STEPS})
    assert f"{STEPS} of {STEPS + 8} steps, stopped" in write_training_report(tmp_path / "run").read_text()
    write_json(tmp_path / "run" / "summary.json", stopped | {"steps": STEPS - 2})
    assert f"{STEPS} of {STEPS + 8} steps, not ended yet" in write_training_report(tmp_path / "run").read_text()


def test_the_heat_map_counts_a_tool_that_was_not_called_as_zero() -> None:
    played = [{"success/read": 1.0, "calls_by_kind/read/crop": 2.0}, {"success/brand": 1.0}, {"success/read": 1.0}]
    heat = heat_map(played)
    assert heat is not None
    assert (heat.kinds, heat.tools) == (("read",), ("crop",))
    cell = heat.cells["read", "crop"]
    assert (cell.before, cell.after) == (2.0, 0.0)


def test_the_heat_map_of_a_run_shows_the_crops_that_it_unlearnt(training: Path) -> None:
    lines = [json.loads(line) for line in (training / "metrics.jsonl").read_text().splitlines()]
    heat = heat_map(lines)
    assert heat is not None
    assert heat.cells["read", "image_crop"].before == 1.5
    assert heat.cells["read", "image_crop"].after == 1.0
    assert heat.cells["brand", "text_search"].after == 1.0


def test_episodes_are_of_the_first_and_the_last_recorded_step_and_between(training: Path) -> None:
    cards = read_steps(training)
    assert {card.step for card in cards} == {1, 4, 7, 10}
    assert len(cards) == 4 * 4 * 4  # four steps, four of six groups, four rollouts
    assert [card.number for card in cards] == list(range(1, len(cards) + 1))
    assert spread(list(range(10)), 4) == [0, 3, 6, 9]


@pytest.fixture(scope="module")
def written(training: Path) -> Path:
    return write_training_report(training)


@pytest.fixture
def page(written: Path, browser: Any) -> Iterator[Any]:
    with opened(browser, written.as_uri()) as page:
        yield page


def chart(page: Any, title: str) -> Any:
    return page.locator("#curves .chart", has=page.locator("figcaption", has_text=re.compile(f"^{title}$")))


def legend(figure: Any) -> dict[str, str]:
    items = [text.rsplit(" ", 1) for text in figure.locator(".legend li").all_inner_texts()]
    return {name.strip(): value for name, value in (" ".join(item).split() for item in items)}


def titles(page: Any) -> list[str]:
    return [str(text) for text in page.locator("#curves .chart:not([hidden]) figcaption").all_inner_texts()]


@browser_test
def test_every_chart_is_drawn_and_its_legend_has_the_last_value(page: Any) -> None:
    assert page.locator("#curves .chart").count() == page.locator("#curves .chart svg").count() > 15
    assert legend(chart(page, "Success")) == {"success/all": "0.75", "validation/success": "0.78"}


@browser_test
def test_the_mouse_over_one_chart_reads_all_charts_at_that_step(page: Any) -> None:
    figure = chart(page, "Success")
    width = figure.locator("svg").bounding_box()["width"]
    figure.locator("svg").hover(position={"x": 1 + width * 54 / 360, "y": 40})
    eventually(page, lambda: page.locator("#cursor").inner_text(), "step 1")
    eventually(page, lambda: legend(figure)["success/all"], "0.25")
    eventually(page, lambda: legend(chart(page, "Loss")), {"loss": "1"})
    page.mouse.move(2, 2)
    eventually(page, lambda: page.locator("#cursor").inner_text(), "")
    eventually(page, lambda: legend(figure)["success/all"], "0.75")


@browser_test
def test_a_value_that_is_no_number_leaves_a_gap_and_a_mark(page: Any) -> None:
    loss = chart(page, "Loss")
    assert loss.locator("path.curve").count() == 2
    assert loss.locator(".mark title").text_content() == "loss: not a finite number"
    assert chart(page, "Success").locator(".mark").count() == 0
    assert page.locator(".alarms li").inner_text() == "step 6 loss: not a finite number"


@browser_test
def test_m_finds_curves_and_escape_shows_them_all_again(page: Any) -> None:
    every = titles(page)
    page.keyboard.press("m")
    page.keyboard.type("kl")
    eventually(page, lambda: titles(page), ["KL to the reference"])
    eventually(page, lambda: page.locator("section.charts:visible h2").all_inner_texts(), ["Algorithm"])
    page.keyboard.type("zzz")
    eventually(page, lambda: titles(page), [])
    eventually(page, lambda: page.locator("#nocurve").is_visible(), True)
    page.keyboard.press("Escape")
    eventually(page, lambda: titles(page), every)
    page.keyboard.press("j")
    eventually(page, lambda: page.evaluate("location.hash"), "#t2")


@browser_test
def test_smoothing_draws_the_raw_curve_faintly_beneath(page: Any) -> None:
    figure = chart(page, "Success")
    page.locator("#smooth").focus()
    page.keyboard.press("End")
    eventually(page, lambda: figure.locator("path.faint").count(), 2)
    eventually(page, lambda: 0.25 < float(legend(figure)["success/all"]) < 0.75, True)
    page.keyboard.press("Home")
    eventually(page, lambda: figure.locator("path.faint").count(), 0)


@browser_test
def test_a_chart_opens_large_by_mouse_and_by_keyboard_and_arrows_walk_the_steps(page: Any) -> None:
    chart(page, "Success").click()
    eventually(page, lambda: page.locator("#big[open] figcaption").inner_text(), "Success")
    page.keyboard.press("Escape")
    eventually(page, lambda: page.locator("#big[open]").count(), 0)
    chart(page, "Reward").focus()
    page.keyboard.press("Enter")
    large = page.locator("#big[open]")
    eventually(page, lambda: large.locator("figcaption").inner_text(), "Reward")
    page.keyboard.press("ArrowRight")
    eventually(page, lambda: legend(large)["reward/mean"], "0.75")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    eventually(page, lambda: legend(large)["reward/mean"], "1.25")
    large.locator("button").click()
    eventually(page, lambda: page.locator("#big[open]").count(), 0)


@browser_test
def test_the_step_filter_and_the_kind_filter_show_the_episodes_of_a_step(page: Any) -> None:
    page.select_option("select[name=step]", "10")
    page.select_option("select[name=kind]", "brand")
    lines = page.locator("#list li:not([hidden]) .line")
    shown = {"What does sign 3 of step 10 say?", "What does sign 5 of step 10 say?"}
    eventually(page, lambda: set(lines.all_text_contents()), shown)
    page.keyboard.press("Escape")
    eventually(page, lambda: page.locator("#shown").inner_text(), "64 of 64")


@browser_test
def test_an_axis_that_spans_little_has_different_numbers_at_its_ticks(page: Any) -> None:
    texts = chart(page, "Importance ratio").locator("text[text-anchor=end]").all_text_contents()
    assert len(set(texts)) == len(texts) > 1
    texts = page.evaluate(
        """() => [...document.querySelectorAll('#curves .chart')].map((f) =>
            [...f.querySelectorAll('text[text-anchor=end]')].map((t) => t.textContent))"""
    )
    assert all(len(set(each)) == len(each) for each in texts)


@browser_test
def test_t_makes_the_charts_dark_too(page: Any) -> None:
    def color() -> Any:
        return page.evaluate("getComputedStyle(document.querySelector('.curve')).stroke")

    before = color()
    page.locator("h1").click()
    page.keyboard.press("t")
    eventually(page, lambda: color() != before, True)


@browser_test
def test_every_control_has_a_name_and_the_page_is_no_wider_than_a_phone(page: Any) -> None:
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, nav, svg, dialog, [role=button]')].filter((e) =>
            !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.[0]?.textContent.trim()))
            .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    page.set_viewport_size({"width": 390, "height": 800})
    eventually(page, lambda: page.evaluate("document.documentElement.scrollWidth") <= 390, True)
