"""Chromium: scripts fill pages, nothing leads inwards, a killed browser costs one retry."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.search.pages.sites import html, serving
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.guard import Blocked
from vlagent.search.pages.reader import WebPages

pytest.importorskip("playwright")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed"),
]

FILLED = """<div id="root"></div><script>
for (let i = 0; i < 30; i++) {
  const p = document.createElement('p');
  p.textContent = 'Sentence ' + i + ' of the script says that the tower opened in 1999.';
  document.getElementById('root').appendChild(p);
}
</script>"""
PRYING = """<div id="root"></div><script>
const root = document.getElementById('root');
Promise.allSettled([
  fetch('http://127.0.0.1:%(port)d/secret'), fetch('http://localhost:%(port)d/secret'),
  fetch('http://0x7f000001:%(port)d/secret'), fetch('http://[::1]:%(port)d/secret'),
]).then(all => { root.textContent = all.map(one => one.status).join(' ') + ' so much for that'.repeat(10); });
</script><iframe src="http://127.0.0.1:%(port)d/secret"></iframe>"""


def our_browsers() -> Iterator[int]:
    """Process ids of the Chromium main processes below this one."""
    parents: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    for pid in parents:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if above == os.getpid() and b"chrom" in words and b"--type=" not in words and b"playwright" not in words[:200]:
            yield pid


async def test_scripts_are_run_nothing_leads_inwards_and_a_killed_browser_loses_nothing() -> None:
    with serving({"/secret": html("the secret of this machine")}) as inner:
        pages = {"/app": html(FILLED), "/prying": html(PRYING % {"port": inner.port})}
        with serving({**pages, "/away": (302, {"Location": inner.url("/secret")}, b"")}) as site:
            web = WebPages(PageConfig(allow=(site.host,), timeout_s=60, workers=0, tabs=3))
            page = await web.read(site.url("/app"))
            assert "Sentence 29 of the script" in page.text

            prying = await web.read(site.url("/prying"))
            assert "rejected rejected rejected rejected" in prying.text
            for blocked in (site.url("/away"), inner.url("/secret")):
                with pytest.raises(Blocked):
                    await web.browsers.render(blocked)
            assert inner.seen == []

            assert web.browsers.launched == 1
            before = len([path for path in site.seen if path.startswith("/app?")])
            killing = asyncio.ensure_future(kill_when(lambda: len(site.seen) > before + 2))
            rendered = await asyncio.gather(*(web.browsers.render(site.url(f"/app?{i}")) for i in range(3)))
            assert await killing
            assert all(b"Sentence 29" in each.data for each in rendered)
            assert web.browsers.launched == 2
            await web.aclose()
            assert list(our_browsers()) == []


async def kill_when(ready: Callable[[], bool]) -> list[int]:
    """Kill the browser as soon as `ready()`; the process ids."""
    for _ in range(2000):
        if ready():
            break
        await asyncio.sleep(0.005)
    pids = list(our_browsers())
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return pids


async def test_a_browser_is_replaced_after_some_pages() -> None:
    with serving({"/app": html(FILLED)}) as site:
        web = WebPages(PageConfig(allow=(site.host,), timeout_s=60, workers=0, recycle_after=1, robots=False))
        for _ in range(2):
            await web.browsers.render(site.url("/app"))
        assert web.browsers.launched == 2
        assert web.browsers.alive == 1
        await web.aclose()
