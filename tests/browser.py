"""Headless Chromium for the tests of pages, and a patient look at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, or a skip that says why.

    Of one module and not of the session: while it lives, playwright keeps an event loop in this thread, in which no
    asynchronous test can run.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def eventually(page: Any, read: Callable[[], object], wanted: object) -> None:
    """Read a page until it shows what is wanted, for at most half a minute.

    A page may act after the event that a test sent (a reset form is filtered in a task of its own), so what it shows
    right after an action is not yet its answer.
    """
    deadline = time.monotonic() + 30
    while (found := read()) != wanted and time.monotonic() < deadline:
        page.wait_for_timeout(20)
    assert found == wanted
