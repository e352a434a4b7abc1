"""The page in headless Chromium, driven by mouse and keyboard, up to a published set that is scored."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.curate.bench.conftest import SIGN, player
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import evaluate
from vlagent.bench.suites import load_target
from vlagent.bench.summary import Summary
from vlagent.curate.bench import book
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.publish import Options, publish

pytestmark = pytest.mark.browser
SHOTS = os.environ.get("VLAGENT_SHOTS")
"""A folder for pictures of the page in each state, for people to look at."""
ON_SCREEN = """([x, y]) => {
  const point = new DOMPoint(x, y).matrixTransform(document.getElementById("picture").getScreenCTM());
  return [point.x, point.y];
}"""


class Person:
    """Somebody at the page."""

    def __init__(self, page: Any, address: str) -> None:
        from playwright.sync_api import expect

        expect.set_options(timeout=30_000)  # a busy machine
        self.page, self.address, self.expect = page, address, expect
        self.expected = ""
        """What Chromium may log as an error."""

    def enter(self, name: str) -> Person:
        self.page.goto(f"{self.address}/")
        self.page.fill("#who", name)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#list button")
        return self

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """From one pixel of the picture to another."""
        self.page.mouse.move(*self.page.evaluate(ON_SCREEN, list(start)))
        self.page.mouse.down()
        self.page.mouse.move(*self.page.evaluate(ON_SCREEN, list(end)), steps=5)
        self.page.mouse.up()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self) -> None:
        self.expect(self.page.locator("#saved")).to_have_text("saved")

    def says(self, selector: str, text: str) -> None:
        self.expect(self.page.locator(selector)).to_contain_text(text)
        self.expect(self.page.locator(selector)).to_be_visible()  # what is hidden holds its text, too

    def shot(self, name: str) -> None:
        if SHOTS:
            self.page.screenshot(path=f"{SHOTS}/{name}.png")


@pytest.fixture
def person(browser: Any, address: str) -> Iterator[Person]:
    page = browser.new_page(viewport={"width": 1300, "height": 820})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    somebody = Person(page, address)
    yield somebody
    page.close()
    assert [fault for fault in faults if not somebody.expected or somebody.expected not in fault] == []


def write_question(person: Person) -> None:
    """By mouse and keyboard: the box, then the fields in their order."""
    page = person.page
    person.drag(SIGN[:2], SIGN[2:])
    page.wait_for_selector("[name=question]")
    person.saved()
    page.focus("[name=question]")
    page.keyboard.type("Who runs the pier with the small white sign?")
    person.press("Tab")
    page.keyboard.type("Harbour Trust\nThe Trust")
    page.select_option("[name=domain]", "Ports")
    page.check("[name=tool-image_crop]")
    page.check("[name=tool-text_search]")
    page.focus("[name=evidence]")
    page.keyboard.type("https://example.org/trust")
    person.press("Control+Enter")
    person.says("#standing", "waits for reviews")


def review(person: Person, name: str, answer: str, verdict: str, why: str = "") -> None:
    person.enter(name).press("Escape", "2")
    person.page.wait_for_selector("[name=answer]")
    person.shot(f"review-{name}-blind")
    person.page.focus("[name=answer]")
    person.page.keyboard.type(answer)
    person.press("Control+Enter")
    person.page.wait_for_selector(f"#{verdict}")
    person.shot(f"review-{name}-open")
    if why:
        person.page.fill("[name=why]", why)
    person.page.click(f"#{verdict}")
    person.says("#panel", f"You said: {verdict}")


def test_a_question_goes_from_the_first_stroke_to_a_scored_set(person: Person, bench: Bench, tmp_path: Path) -> None:
    person.enter("ann")
    person.shot("empty")
    write_question(person)
    person.shot("finished")
    (item,) = bench.items().values()
    assert item.answers == ("Harbour Trust", "The Trust")
    assert all(abs(a - b) <= 2 for a, b in zip(item.box or (), SIGN, strict=True))

    review(person, "bob", "The Trust", "agree")
    review(person, "cyd", "Port Police", "dispute", "the sign could be another one")
    person.enter("ann")
    person.says("#standing", "Disputed")
    person.says("#standing", "the sign could be another one")
    person.shot("disputed")
    person.enter("eve").press("Escape", "3")
    person.page.wait_for_selector("#keep")
    person.shot("settle")
    person.page.click("#keep")
    person.says("#empty", "No disputes")

    publish(bench, tmp_path / "out", Options(unchecked=True))
    summary = score(tmp_path / "out", tmp_path / "run", "the Harbour Trust")
    assert (summary.counts.right, summary.counts.total) == (1, 1)


def score(data: Path, run: Path, answer: str) -> Summary:
    """Play the published set; in a thread, since Chromium's driver keeps an event loop in this one."""
    samples = load_target("hr_mmsearch", data)
    agent = player([f"<answer>{answer}</answer>"]).agent
    config = EvalConfig(target="hr_mmsearch", agent=agent.config)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(evaluate(config, agent, samples, run))).result().summary


def test_the_share_of_the_box_is_shown_while_it_is_drawn_and_turns_bad_over_the_limit(person: Person) -> None:
    person.enter("ann")
    page = person.page
    page.mouse.move(*page.evaluate(ON_SCREEN, [100, 100]))
    page.mouse.down()
    page.mouse.move(*page.evaluate(ON_SCREEN, [180, 160]), steps=3)
    assert page.inner_text("#share").startswith("1 %")
    assert "good" in page.get_attribute("#share", "class")
    page.mouse.move(*page.evaluate(ON_SCREEN, [400, 300]), steps=3)
    assert page.inner_text("#share").startswith("12.5 %")
    assert "bad" in page.get_attribute("#share", "class")
    person.shot("too-large")
    page.mouse.up()
    page.wait_for_selector("#finish")
    page.click("#finish")
    person.says("#standing", "12.5% of the picture, 5% at most")
    person.shot("refused")


def test_what_was_written_is_there_after_a_reload_and_can_be_undone(person: Person, bench: Bench) -> None:
    person.enter("ann")
    write_question(person)
    (before,) = bench.items().values()
    person.page.focus("#picture")
    person.press("Shift+ArrowRight")
    person.says("#standing", "A draft")
    person.saved()
    (wider,) = bench.items().values()
    assert wider.box is not None
    assert before.box is not None
    assert wider.box[2] > before.box[2]
    person.page.reload()
    person.page.wait_for_selector("[name=question]")
    assert person.page.input_value("[name=question]") == before.question
    assert person.page.input_value("#who") == "ann"
    person.press("Control+z")
    person.says("#standing", "waits for reviews")
    person.saved()
    (undone,) = bench.items().values()
    assert (undone.box, undone.state, undone.revision) == (before.box, "done", wider.revision + 1)
    person.press("Control+Shift+Z")
    person.says("#standing", "A draft")
    person.saved()
    assert next(iter(bench.items().values())).box == wider.box


def test_everything_can_be_done_by_keyboard(person: Person, bench: Bench) -> None:
    person.enter("ann")
    person.press("Escape", "j", "n")
    person.page.wait_for_selector("[name=question]")
    person.press("b", "Enter", "Alt+ArrowRight", "Shift+Alt+ArrowDown")
    person.saved()
    (item,) = bench.items().values()
    assert item.box == (361, 270, 441, 331)
    assert item.picture == list(bench.pictures())[1]
    person.press("Delete")
    person.saved()
    assert next(iter(bench.items().values())).box is None
    person.press("q")
    person.page.keyboard.type("j is a letter here")
    person.press("Escape")
    person.saved()
    assert next(iter(bench.items().values())).question == "j is a letter here"
    person.press("?")
    person.page.wait_for_selector("#keys[open]")
    person.shot("keys")


def test_a_box_is_moved_resized_and_drawn_while_zoomed(person: Person, bench: Bench) -> None:
    person.enter("ann")
    person.drag((100, 100), (160, 150))
    person.page.wait_for_selector("[name=question]")
    person.drag((130, 125), (230, 225))
    person.saved()
    (moved,) = bench.items().values()
    assert moved.box is not None
    assert all(abs(a - b) <= 2 for a, b in zip(moved.box, (200, 200, 260, 250), strict=True))
    person.page.click("#zoom-box")
    person.drag((260, 250), (270, 240))
    person.saved()
    (resized,) = bench.items().values()
    assert resized.box is not None
    assert all(abs(a - b) <= 2 for a, b in zip(resized.box, (200, 200, 270, 240), strict=True))
    person.shot("zoomed")


def test_a_page_whose_server_refuses_says_that_nothing_was_saved(person: Person, bench: Bench) -> None:
    person.enter("ann")
    person.drag((100, 100), (160, 150))
    person.page.wait_for_selector("[name=question]")
    person.saved()
    (item,) = bench.items().values()
    book.save(bench, "ann", item.id, item.revision, {"notes": "from another window"})
    person.expected = "409"
    person.page.fill("[name=question]", "Late?")
    person.says("#saved", "saved elsewhere")
    person.shot("stale")
    person.page.click("#reload")
    person.expect(person.page.locator("[name=notes]")).to_have_value("from another window")


def test_nobody_leaves_a_question_that_the_server_did_not_take(person: Person, bench: Bench) -> None:
    person.enter("ann")
    person.drag((100, 100), (160, 150))
    person.page.wait_for_selector("[name=question]")
    person.saved()
    person.expected = "503"
    (place,) = (bench.folder / "annotations").glob("*.jsonl")
    full = {"status": 503, "content_type": "application/json", "body": '{"error": "disk: no space left"}'}
    person.page.route("**/api/items/*", lambda route: route.fulfill(**full))
    person.page.fill("[name=question]", "Is it kept?")
    person.says("#saved", "no space left")
    person.press("Escape", "j")
    person.says("#saved", "no space left")
    person.expect(person.page.locator("[name=question]")).to_have_value("Is it kept?")
    assert "Is it kept?" not in place.read_text()
    person.page.unroute("**/api/items/*")
    person.press("j")
    person.expect(person.page.locator("#list [aria-current=true] .state")).to_have_text("no question yet")
    (item,) = bench.items().values()
    assert item.question == "Is it kept?"


def test_two_people_at_once_see_only_what_is_finished_and_lose_nothing(
    person: Person, bench: Bench, browser: Any
) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 860}) as context:
        other = Person(context.new_page(), person.address)
        for each, name in ((person, "ann"), (other, "bob")):
            each.enter(name).drag((100, 100), (160, 150))
        for each, asked in ((person, "By ann?"), (other, "By bob?")):
            each.page.fill("[name=question]", asked)
        person.saved()
        other.page.reload()  # in mid-edit: what was typed is saved on the way out
        other.page.wait_for_selector("[name=question]")
        person.expect(person.page.locator("#tab-review b")).to_have_text("0")
        other.page.reload()
        other.expect(other.page.locator("[name=question]")).to_have_value("By bob?")
    assert {item.author: item.question for item in bench.items().values()} == {"ann": "By ann?", "bob": "By bob?"}
