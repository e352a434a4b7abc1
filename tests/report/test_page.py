"""The page of a run, as text and in a real browser driven by mouse and keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import eventually
from tests.report.conftest import EVIL, opened, photo
from vlagent.errors import UserError
from vlagent.files import append_jsonl
from vlagent.report.cards import read_run
from vlagent.report.page import link_of, write_report
from vlagent.types import Sample, Source, StopReason, Trajectory, Turn

browser_test = pytest.mark.browser


def test_a_folder_that_is_no_run_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trajectories\.jsonl"):
        write_report(tmp_path)


def test_the_page_asks_nothing_of_any_network(run: Path) -> None:
    text = write_report(run).read_text()
    loaded = re.findall(r"<(?:link|script|img|iframe|source)[^>]*\b(?:src|href)=\"([^\"]*)", text)
    assert loaded == []
    assert "@import" not in text
    assert "url(" not in text


def test_text_of_models_and_pages_is_escaped(run: Path) -> None:
    text = write_report(run).read_text()
    assert EVIL not in text
    assert "&lt;script&gt;" in text


def test_the_last_record_of_a_retried_episode_counts(run: Path) -> None:
    append_jsonl(run / "trajectories.jsonl", Trajectory(sample_id="s3", answer="again", stop=StopReason.ANSWERED))
    cards = read_run(run).cards
    assert len(cards) == 5
    assert cards[3].trajectory.answer == "again"


def test_without_scores_an_answer_is_unscored_and_a_failure_failed(run: Path) -> None:
    (run / "rows.jsonl").unlink()
    outcomes = [card.outcome for card in read_run(run).cards]
    assert outcomes == ["unscored", "unscored", "unscored", "failed", "not_counted"]


def test_a_question_that_a_person_asked_has_no_outcome(run: Path) -> None:
    asked = Trajectory(sample_id="ask", stop=StopReason.ANSWERED, answer="a valve")
    folder = run / "asked"
    append_jsonl(folder / "samples.jsonl", Sample(id="ask", source="ask", question="What is it?"))
    append_jsonl(folder / "trajectories.jsonl", asked)
    (card,) = read_run(folder).cards
    assert not card.is_judged
    assert ">Unscored</span>" not in write_report(folder).read_text().split("<article")[1]
    assert all(card.is_judged for card in read_run(run).cards)


def test_a_crop_is_marked_where_it_lies_in_its_picture(run: Path) -> None:
    card = read_run(run).cards[0]
    (mark,) = card.marks_on(card.inputs[0])
    assert (mark.turn, mark.x, mark.y, mark.width, mark.height) == (1, 320, 240, 128, 96)


def test_a_picture_shown_twice_is_stored_once(run: Path) -> None:
    text = write_report(run).read_text()
    pictures = text.split('id="pictures">')[1].split("</script>")[0]
    assert pictures.count("data:image/jpeg") == 2  # the photograph (five times on the page) and the crop


def test_a_picture_that_is_gone_is_said_and_not_fatal(run: Path) -> None:
    Path(read_run(run).cards[0].inputs[0].path).unlink()
    assert "picture not available" in write_report(run).read_text()


def test_the_pictures_of_a_run_folder_are_found_after_it_was_moved(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    (before / "images").mkdir(parents=True)
    crop = photo(before / "images" / "s1-crop.png", (64, 48))
    append_jsonl(
        before / "trajectories.jsonl",
        Trajectory(sample_id="s1", stop=StopReason.TURN_LIMIT, images=(crop,), prompt="q"),
    )
    whole = write_report(before).read_text()
    assert "data:image/jpeg" in whole
    before.rename(after)
    assert write_report(after).read_text().count("data:image/jpeg") == whole.count("data:image/jpeg")


def test_a_relative_picture_is_one_of_the_run_folder(run: Path) -> None:
    picture = photo(run / "images.png").model_copy(update={"path": "images.png"})
    turn = Turn(text="x", answer="x")
    append_jsonl(
        run / "trajectories.jsonl",
        Trajectory(sample_id="new", turns=(turn,), images=(picture,), stop=StopReason.ANSWERED),
    )
    assert "picture not available" not in write_report(run).read_text()


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "JAVASCRIPT:alert(1)", "file:///etc/passwd"]
)
def test_only_web_addresses_become_links(url: str) -> None:
    assert link_of(Source(title="t", url=url)) is None
    assert link_of(Source(title="t", url="https://example.org/a")) == "https://example.org/a"


def test_a_local_pdf_links_to_its_page() -> None:
    assert link_of(Source(title="t", file="/srv/a b.pdf", page=3)) == "file:///srv/a%20b.pdf#page=3"


@pytest.fixture
def page(run: Path, browser: Any) -> Iterator[Any]:
    with opened(browser, write_report(run).as_uri()) as page:
        yield page


def questions(page: Any) -> list[str]:
    return [line.strip() for line in page.locator("#list li:not([hidden]) .line").all_inner_texts()]


def headline(page: Any) -> str:
    return str(page.locator("article:not([hidden]) h2").inner_text())


@browser_test
def test_a_script_in_a_page_text_does_not_run(page: Any) -> None:
    for _ in range(4):
        page.keyboard.press("j")
    eventually(page, lambda: page.title(), "run · vlagent")
    eventually(page, lambda: page.locator("article script, article img[src=x]").count(), 0)


@browser_test
def test_j_and_k_walk_through_the_trajectories(page: Any) -> None:
    assert headline(page) == "When was the harbour founded?"
    page.keyboard.press("j")
    eventually(page, lambda: headline(page), "Who owns it?")
    eventually(page, lambda: page.evaluate("location.hash"), "#t2")
    page.keyboard.press("k")
    page.keyboard.press("k")
    eventually(page, lambda: headline(page), "When was the harbour founded?")


@browser_test
def test_slash_searches_and_escape_clears(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("belmont founding")
    eventually(page, lambda: questions(page), ["When was the harbour founded?"])
    eventually(page, lambda: page.locator("#shown").inner_text(), "1 of 5")
    page.keyboard.press("Escape")
    page.locator("#shown", has_text="5 of 5").wait_for()


@browser_test
def test_a_typed_j_in_the_search_field_is_text(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("j")
    eventually(page, lambda: page.locator("#find").input_value(), "j")


@browser_test
@pytest.mark.parametrize(
    ("outcome", "question"),
    [
        ("right", "When was the harbour founded?"),
        ("wrong", "Who owns it?"),
        ("failed", "Is it 港?"),
        ("not_counted", "Anything?"),
    ],
)
def test_the_outcome_filter_shows_only_that_outcome(page: Any, outcome: str, question: str) -> None:
    page.locator(f"#outcomes .{outcome}").click()
    eventually(page, lambda: questions(page), [question])
    eventually(page, lambda: headline(page), question)


@browser_test
def test_the_tool_and_stop_filters_join(page: Any) -> None:
    page.select_option("select[name=tools]", "image_search")
    eventually(page, lambda: len(questions(page)), 3)
    page.select_option("select[name=stop]", "turn_limit")
    eventually(page, lambda: questions(page), ["Who owns it?"])
    page.select_option("select[name=tools]", "text_search")
    eventually(page, lambda: questions(page), [])
    eventually(page, lambda: page.locator("nav .none").is_visible(), True)


@browser_test
def test_the_box_lies_over_the_picture_where_the_crop_was_cut(page: Any) -> None:
    picture = page.locator("article:not([hidden]) .inputs img").bounding_box()
    box = page.locator("article:not([hidden]) .mark rect").bounding_box()
    assert box["x"] - picture["x"] == pytest.approx(picture["width"] * 320 / 640, abs=3)
    assert box["y"] - picture["y"] == pytest.approx(picture["height"] * 240 / 480, abs=3)
    assert box["width"] == pytest.approx(picture["width"] * 128 / 640, abs=6)


@browser_test
def test_a_turn_under_the_mouse_lights_its_box(page: Any) -> None:
    page.locator("article:not([hidden]) .turn >> nth=0").hover()
    eventually(page, lambda: page.locator("article:not([hidden]) .mark.on").count(), 1)
    page.locator("article:not([hidden]) .turn >> nth=1").hover()
    eventually(page, lambda: page.locator("article:not([hidden]) .mark.on").count(), 0)


@browser_test
def test_a_picture_opens_large_and_closes(page: Any) -> None:
    page.locator("article:not([hidden]) .inputs img").click()
    eventually(page, lambda: page.locator("dialog[open] img").is_visible(), True)
    page.keyboard.press("Escape")
    eventually(page, lambda: page.locator("dialog[open]").count(), 0)


@browser_test
def test_t_switches_between_light_and_dark(page: Any) -> None:
    def paper() -> Any:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    before = paper()
    page.keyboard.press("t")
    eventually(page, lambda: paper() != before, True)
    page.locator("#theme").click()
    eventually(page, lambda: paper(), before)


@browser_test
def test_every_control_and_picture_has_a_name(page: Any) -> None:
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, img, nav, svg, dialog')].filter((e) =>
            !(e.getAttribute('aria-label') || e.alt || e.textContent.trim() || e.labels?.[0]?.textContent.trim())
            && !e.closest('dialog')).map((e) => e.outerHTML)"""
    )
    assert unnamed == []
