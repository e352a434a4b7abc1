"""Pages as the web serves them: 50 kB of HTML with 40 paragraphs between menus, notices and scripts, after 50 ms.

Each page states one fact about its own address and the rest is filler. A path with `script` in it is a shell that its
script fills; one with `pdf` is refused as what it is not. `/robots.txt` allows all (RFC 9309: an absent one does too).
"""

from __future__ import annotations

import random
from functools import lru_cache

from tests.fakes.search_engines import tag
from tests.fakes.web_server import Answer, Asked, Fake

PARAGRAPHS, BYTES = 40, 50_000
_STOCK = """the council of the old town met beside a river where farmers brought wool and grain to weekly markets held
under stone arcades while travellers rested before crossing passes guarded by towers of slate built when wars had ended
and trade returned with sailors who carried news of harbours far away beyond green hills and long quiet roads"""
_WORDS = tuple(_STOCK.split())
SCRIPT = """<!doctype html><html><head><title>Filled by a script</title></head><body><div id="root"></div><script>
for (let i = 0; i < 30; i++) { const p = document.createElement('p');
p.textContent = 'Sentence ' + i + ' of the script says that the tower of %s opened in 1999.';
document.getElementById('root').appendChild(p); }</script></body></html>"""


class Pages(Fake):
    """A site with a page at every address."""

    delay_s = 0.05

    def links(self, query: str, count: int = 5) -> list[str]:
        """Addresses that belong to one query: another query has others, so that none is cached."""
        return [f"{self.url}/{tag(query)}/{number}" for number in range(count)]

    def reply(self, asked: Asked) -> Answer:
        if asked.method != "GET":
            return Answer(405, b"", kind="text/html")
        if asked.path == "/robots.txt":
            return Answer(200, b"User-agent: *\nAllow: /\n", kind="text/plain")
        self.counts["pages"] += 1
        if "script" in asked.path:
            return Answer(body=(SCRIPT % asked.path).encode(), kind="text/html; charset=utf-8")
        return Answer(body=page(asked.path), kind="text/html; charset=utf-8")


def fact(path: str) -> str:
    """What only this page says."""
    rng = random.Random(path)
    return f"The tower at {path} was opened in {rng.randint(1800, 1999)} and is {rng.randint(20, 300)} metres high."


def page(path: str) -> bytes:
    """The HTML of one address."""
    middle = _filler().replace("<p>FACT</p>", f"<p>{fact(path)}</p>")
    head = f"<!doctype html><html><head><title>Page {path}</title><script>var a = 1;</script></head><body>"
    return (head + _menu() + middle + _notice() + "</body></html>").encode()


@lru_cache
def _filler() -> str:
    rng = random.Random(0)
    words = (BYTES - len(_menu()) - len(_notice())) // PARAGRAPHS // 6
    made = ["<p>" + " ".join(rng.choices(_WORDS, k=words)).capitalize() + ".</p>" for _ in range(PARAGRAPHS - 1)]
    made.insert(rng.randrange(PARAGRAPHS), "<p>FACT</p>")
    return "<main><article><h1>About the tower</h1>" + "".join(made) + "</article></main>"


@lru_cache
def _menu() -> str:
    items = "".join(f'<li class="item"><a href="/section/{n}">Section {n} of this site</a></li>' for n in range(80))
    return f"<header><nav><ul>{items}</ul></nav></header><div class='cookie-notice'>We value your privacy.</div>"


@lru_cache
def _notice() -> str:
    links = "".join(f'<a href="/legal/{n}">Legal notice {n}</a> ' for n in range(60))
    return f"<aside>Read also: {links}</aside><footer>Copyright. All rights reserved. {links}</footer>"
