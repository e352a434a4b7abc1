"""Draws a MediaWiki dump in the layout of enwiki's pages-articles: `python -m tests.search.wiki_dump PATH MEGABYTES`.

Articles with infoboxes, citations, tables, lists, nested and unclosed templates, files and categories; redirects; talk
pages; titles in Latin with accents, Chinese, Japanese, Korean, Thai, Arabic and Hebrew. Each article states facts that
no other one states, which `Planted` names, so that an index can be asked for them.
"""

from __future__ import annotations

import bz2
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Drawnpedia</sitename>
    <dbname>drawnwiki</dbname>
    <base>https://en.drawnpedia.org/wiki/Main_Page</base>
    <generator>MediaWiki 1.44</generator>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Talk</namespace>
      <namespace key="6" case="first-letter">File</namespace>
      <namespace key="14" case="first-letter">Category</namespace>
    </namespaces>
  </siteinfo>
"""
PER_STREAM = 100
"""Pages of a bz2 stream, as in published multistream dumps."""
_PIECES = "ar bel cor dun el fen gal hol ir kas lor mar nor or pel quin ros sal tor ul ven wal yor zan"
_SYLLABLES = tuple(_PIECES.split())
_STOCK = """the river valley council opened a second bridge after years of debate about its cost and place while
farmers from nearby hills brought wool and grain to weekly markets held under stone arcades where travellers rested
before crossing mountain passes guarded by towers of slate built when border wars had ended and trade returned"""
WORDS = tuple(_STOCK.split())


@dataclass(frozen=True)
class Planted:
    """One article and what only it says."""

    id: int
    title: str
    founder: str
    year: int
    code: str
    """A word of the table."""
    query: str
    """Names the article in its own script."""
    redirect: str | None


def articles(seed: int = 0) -> Iterator[Planted]:
    """Without end, the same for every seed."""
    number = 0
    while True:
        rng = random.Random(f"{seed}/{number}")
        title, query = _title(rng, number)
        yield Planted(
            id=1000 + 3 * number,
            title=title,
            founder=f"{_name(rng)} {_name(rng)}{number % 97}",
            year=rng.randint(1100, 1999),
            code=f"{_name(rng)}-{number}",
            query=query,
            redirect=f"{_name(rng)} {_name(rng)} {number}" if number % 5 == 0 else None,
        )
        number += 1


def write_dump(
    path: Path, pages: int | None = None, megabytes: float | None = None, seed: int = 0, sections: int = 4
) -> list[Planted]:
    """Write so many articles, or as many as make so many megabytes of XML; `.bz2` is packed in streams of 100 pages.

    An article has up to so many sections of running text, about 900 bytes each.
    """
    written: list[Planted] = []
    size, waiting = 0, [HEAD]
    with path.open("wb") as file:
        for planted in articles(seed):
            if (pages is not None and len(written) >= pages) or (megabytes and size >= megabytes * 1e6):
                break
            text = "".join(_pages(planted, random.Random(f"{seed}/{planted.id}"), sections))
            size += len(text.encode())
            waiting.append(text)
            written.append(planted)
            if len(written) == 1 or len(written) % PER_STREAM == 0:
                _flush(file, waiting, path)
        waiting.append("</mediawiki>\n")
        _flush(file, waiting, path)
    return written


def _flush(file: object, waiting: list[str], path: Path) -> None:
    raw = "".join(waiting).encode()
    file.write(bz2.compress(raw, 5) if path.suffix == ".bz2" else raw)  # type: ignore[attr-defined]
    waiting.clear()


def _name(rng: random.Random) -> str:
    return "".join(rng.choice(_SYLLABLES) for _ in range(3)).capitalize()


def _title(rng: random.Random, number: int) -> tuple[str, str]:
    """(title, a query for it): every seventh article is in another script."""
    han = "".join(chr(rng.randint(0x4E00, 0x9FA0)) for _ in range(5))
    arabic = "".join(chr(rng.randint(0x0628, 0x063A)) for _ in range(7))
    hebrew = "".join(chr(rng.randint(0x05D0, 0x05EA)) for _ in range(7))
    hangul = "".join(chr(rng.randint(0xAC00, 0xD7A3)) for _ in range(4))
    thai = "".join(chr(rng.randint(0x0E01, 0x0E2E)) for _ in range(8))
    kana = "".join(chr(rng.randint(0x30A2, 0x30ED)) for _ in range(4))
    latin = f"{_name(rng)}é {_name(rng)} {number}"
    titles = {1: han, 2: f"مدينة {arabic}", 3: hebrew, 4: hangul, 5: thai, 6: f"{kana}{han[:2]}駅"}
    title = titles.get(number % 7, latin) if number % 7 else latin
    return title, title.replace("é", "e")


def _pages(planted: Planted, rng: random.Random, sections: int) -> Iterator[str]:
    yield _page(planted.id, planted.title, _article(planted, rng, sections))
    if planted.redirect:
        yield _page(planted.id + 1, planted.redirect, f"#REDIRECT [[{planted.title}]]", redirect=planted.title)
    if planted.id % 4 == 0:
        yield _page(planted.id + 2, f"Talk:{planted.title}", "A talkpageword about the article. ~~~~", space=1)


def _page(number: int, title: str, text: str, space: int = 0, redirect: str | None = None) -> str:
    led = f'    <redirect title="{escape(redirect, {chr(34): "&quot;"})}" />\n' if redirect else ""
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{space}</ns>\n    <id>{number}</id>\n{led}"
        f"    <revision>\n      <id>{number}</id>\n      <timestamp>2025-12-01T00:00:00Z</timestamp>\n"
        f"      <contributor><username>Drawn</username><id>1</id></contributor>\n      <model>wikitext</model>\n"
        f'      <format>text/x-wiki</format>\n      <text bytes="{len(text)}" xml:space="preserve">'
        f"{escape(text)}</text>\n"
        f"    </revision>\n  </page>\n"
    )


def _article(planted: Planted, rng: random.Random, sections: int) -> str:
    cited = '<ref name="a{0}">{{{{cite web|url=http://x.example/{0}|title=citedword|date=2001}}}}</ref>'
    parts = [
        "{{Short description|noticeword}}\n{{Infobox settlement\n"
        f"| name = {planted.title}\n| population_total = {{{{formatnum:{rng.randint(100, 99999)}}}}}\n"
        f"| founder = [[{planted.founder}]]{cited.format(planted.id)}\n"
        "| image_skyline = {{multiple image|a.jpg|{{x}}}}\n}}\n",
        f"'''{planted.title}''' ({{{{lang-fr|Ville}}}}; {{{{IPA|/v/}}}}) is a [[town (place)|town]] founded in "
        f"{{{{start date|{planted.year}}}}} by [[{planted.founder}]].{cited.format(planted.id + 1)} "
        f"It lies {{{{convert|{rng.randint(2, 90)}|km|mi}}}} from the sea.<!-- hiddenword -->\n",
        f"[[File:View of {planted.id}.jpg|thumb|right|A captionword with a [[link]]]]\n",
    ]
    for section in range(rng.randint(1, sections)):
        parts.append(
            f"\n== Part {section} ==\n" + "\n\n".join(_paragraph(rng, cited) for _ in range(rng.randint(1, 3)))
        )
    parts.append(
        '\n== Numbers ==\n{| class="wikitable sortable" style="styleword"\n|+ Output\n! Year !! Mill !! Tons\n|-\n'
        f"| {planted.year + 5} || {planted.code} || {rng.randint(1, 900)}\n|-\n"
        f"| colspan=2 | total || ''{rng.randint(900, 2000)}''\n|}}\n"
        "* [[First item|first]] of a list\n* second of a list\n"
    )
    if planted.id % 11 == 0:
        parts.append("An {{unclosed template and [[a broken link stand here.\n\n")
    parts.append(
        "\n== References ==\n{{reflist|30em}}\n\n== External links ==\n* [http://x.example/site siteword]\n"
        f"{{{{Navbox|navword}}}}\n[[Category:Towns]]\n[[fr:{planted.title}]]\n"
    )
    return "".join(parts)


def _paragraph(rng: random.Random, cited: str) -> str:
    sentences = []
    for _ in range(rng.randint(3, 7)):
        words = rng.choices(WORDS, k=rng.randint(9, 20))
        words[rng.randrange(len(words))] = f"[[{_name(rng)}|{rng.choice(WORDS)}]]"
        sentences.append(
            " ".join(words).capitalize() + "." + (cited.format(rng.randint(1, 9)) if rng.random() < 0.2 else "")
        )
    return " ".join(sentences)


if __name__ == "__main__":
    print(len(write_dump(Path(sys.argv[1]), megabytes=float(sys.argv[2]))), "articles")
