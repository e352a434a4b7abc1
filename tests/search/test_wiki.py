import bz2
import json
import os
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.search.wiki_dump import HEAD, Planted, write_dump
from vlagent.errors import UserError
from vlagent.search.base import TextQuery
from vlagent.search.open import open_passages, open_search
from vlagent.search.retrieval import retrieve
from vlagent.search.text_index import TextIndex
from vlagent.search.wiki import build
from vlagent.search.wiki.aliases import open_aliases
from vlagent.search.wiki.build import WikiOptions, WikiProgress, index_wiki
from vlagent.search.wiki.dump import DumpReader
from vlagent.search.wiki.markup import page_text

ALONE = WikiOptions(workers=1)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Planted]]:
    path = tmp_path_factory.mktemp("dump") / "pages-articles.xml.bz2"
    return path, write_dump(path, pages=210, sections=1)


@pytest.fixture(scope="module")
def search(dump: tuple[Path, list[Planted]]) -> Path:
    index_wiki(dump[0], dump[0].parent / "s", ALONE)
    return dump[0].parent / "s"


def lines(search: Path) -> list[dict[str, Any]]:
    files = sorted((search / "wiki").glob("passages-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_every_article_is_found_by_its_title_in_any_script(search: Path, dump: tuple[Path, list[Planted]]) -> None:
    index = TextIndex(search / "text")
    wrong = [
        planted.title
        for planted in dump[1][:70]
        if index.find(TextQuery(text=f"who founded {planted.query}"))[0].source.title != planted.title
    ]
    assert wrong == []


def test_facts_of_infobox_text_and_table_are_kept_and_markup_is_not(
    search: Path, dump: tuple[Path, list[Planted]]
) -> None:
    text = "\n".join(row["contents"] for row in lines(search))
    for planted in dump[1][:20]:
        assert f"founder: {planted.founder}" in text
        assert f"founded in {planted.year} by {planted.founder}." in text
        assert f"Mill: {planted.code}" in text
    unseen = (
        "citedword",
        "noticeword",
        "hiddenword",
        "captionword",
        "styleword",
        "siteword",
        "navword",
        "talkpageword",
    )
    assert [word for word in (*unseen, "{{start", "]]", "<ref", "Category:", "REDIRECT") if word in text] == []


def test_passages_have_titles_ids_addresses_and_about_a_hundred_words(search: Path) -> None:
    rows = lines(search)
    sizes = [len(row["contents"].split("\n", 1)[1].split()) for row in rows]
    assert max(sizes) <= 100
    assert 60 < sum(sizes) / len(sizes) <= 100
    assert len({row["id"] for row in rows}) == len(rows)
    assert rows[0]["contents"].startswith('"')
    assert rows[0]["url"].startswith("https://en.drawnpedia.org/wiki/")
    (answer,) = retrieve(open_passages(search), ["founder"], 1)["result"]
    assert "." in answer[0]["id"]


def test_a_redirect_leads_to_its_article(search: Path, dump: tuple[Path, list[Planted]]) -> None:
    services = open_search(search).text
    assert isinstance(services, TextIndex)
    led = [planted for planted in dump[1] if planted.redirect][:20]
    for planted in led:
        assert services.find(TextQuery(text=f"Who founded {planted.redirect}?"))[0].source.title == planted.title
    aliases = open_aliases(search)
    assert aliases is not None
    assert aliases.meant("nothing of the kind") == []
    services._aliases = None
    missed = [p for p in led if services.find(TextQuery(text=f"Who founded {p.redirect}?"))[0].source.title != p.title]
    assert len(missed) > 5


def killed_at(page: int, path: Path, search: Path) -> int | None:
    """Index in a process that kills itself when it has come to so many pages; its exit code."""

    def index() -> None:
        taken = iter(range(1, page + 1))
        whole = build._Run._take

        def take(self: build._Run, *rest: Any) -> Any:
            if next(taken) == page:
                last = max([*self.folder.glob("passages-*"), self.folder / "passages-00000.jsonl"])
                build._append(last, ["torn line"])
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(self, *rest)

        build._Run._take = take  # type: ignore[method-assign]
        index_wiki(path, search, WikiOptions(workers=1, commit_s=0.02, per_file=70))

    process = get_context("fork").Process(target=index)
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("suffix", [".xml.bz2", ".xml"])
def test_a_run_that_is_killed_goes_on_and_ends_as_an_undisturbed_one(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"d{suffix}"
    write_dump(path, pages=130, sections=1)
    calm = index_wiki(path, tmp_path / "calm", WikiOptions(workers=1, per_file=70))
    codes = [killed_at(page, path, tmp_path / "torn") for page in (110, 40, 1)]
    assert codes == [-signal.SIGKILL] * 3
    told: list[WikiProgress] = []
    torn = index_wiki(path, tmp_path / "torn", WikiOptions(workers=1, per_file=70), progress=told.append)
    assert lines(tmp_path / "torn") == lines(tmp_path / "calm")
    same = ("pages", "passages", "redirects")
    assert [getattr(torn, key) for key in same] == [getattr(calm, key) for key in same]
    assert torn.index.parts == calm.index.parts == torn.passages
    assert len(list((tmp_path / "torn" / "wiki").glob("passages-*"))) > 1
    assert (told[-1].packed_bytes, told[-1].pages) == (path.stat().st_size, torn.pages)
    assert index_wiki(path, tmp_path / "torn", WikiOptions(workers=1, per_file=70)).index.unchanged > 1


def test_workers_give_what_one_process_gives(tmp_path: Path) -> None:
    write_dump(tmp_path / "d.xml.bz2", pages=50, sections=1)
    for workers in (1, 2):
        index_wiki(tmp_path / "d.xml.bz2", tmp_path / str(workers), WikiOptions(workers=workers))
    assert lines(tmp_path / "1") == lines(tmp_path / "2")


def test_reading_goes_on_at_the_last_stream_of_whole_pages(dump: tuple[Path, list[Planted]]) -> None:
    everything = list(DumpReader(dump[0]))
    offsets = sorted({place.offset for _, place in everything})
    assert len(offsets) >= 3
    middle = len(everything) // 2
    place = everything[middle - 1][1]
    assert place.offset > 0
    assert [page for page, _ in DumpReader(dump[0], place)] == [page for page, _ in everything[middle:]]


def test_streams_that_cut_pages_are_read_whole(tmp_path: Path) -> None:
    write_dump(tmp_path / "plain.xml", pages=30)
    raw = (tmp_path / "plain.xml").read_bytes()
    cut = b"".join(bz2.compress(raw[at : at + 9973]) for at in range(0, len(raw), 9973))
    (tmp_path / "cut.xml.bz2").write_bytes(cut)
    plain = [page for page, _ in DumpReader(tmp_path / "plain.xml")]
    places = list(DumpReader(tmp_path / "cut.xml.bz2"))
    assert [page for page, _ in places] == plain
    half = places[len(places) // 2][1]
    assert [page for page, _ in DumpReader(tmp_path / "cut.xml.bz2", half)] == plain[len(places) // 2 + 1 :]


def test_a_dump_that_is_cut_off_or_none_is_one_line_and_keeps_what_is_done(tmp_path: Path) -> None:
    path = tmp_path / "d.xml.bz2"
    write_dump(path, pages=250, sections=1)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="ends in the middle"):
        list(DumpReader(path))
    for text, message in ((b"<a>", "holds no page|not a MediaWiki"), (b"no xml", "not a MediaWiki export")):
        (tmp_path / "x.xml").write_bytes(text)
        with pytest.raises(UserError, match=message):
            index_wiki(tmp_path / "x.xml", tmp_path / "s", ALONE)
    with pytest.raises(UserError, match="no such file"):
        index_wiki(tmp_path / "none.xml", tmp_path / "s", ALONE)


def test_another_dump_or_other_words_need_a_rebuild(tmp_path: Path) -> None:
    write_dump(tmp_path / "d.xml", pages=3)
    index_wiki(tmp_path / "d.xml", tmp_path / "s", ALONE)
    with pytest.raises(UserError, match="made with words 100"):
        index_wiki(tmp_path / "d.xml", tmp_path / "s", WikiOptions(workers=1, words=50))
    small = index_wiki(tmp_path / "d.xml", tmp_path / "s", WikiOptions(workers=1, words=50), rebuild=True)
    assert small.pages == 3
    assert max(len(row["contents"].split("\n", 1)[1].split()) for row in lines(tmp_path / "s")) <= 50


def test_namespaces_decide_which_pages_are_taken(tmp_path: Path) -> None:
    write_dump(tmp_path / "d.xml", pages=9)
    index_wiki(tmp_path / "d.xml", tmp_path / "s", WikiOptions(workers=1, namespaces=(1,)))
    assert all("talkpageword" in row["contents"] for row in lines(tmp_path / "s"))


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a [[b|c]] [[d_e]] [[File:x|y]] [[fr:z]] [[:Category:f]]", "a c d e Category:f"),
        ("x<ref>y</ref> z<ref name=q/>.", "x z."),
        ("{{convert|5|km|mi}}, {{convert|2|-|4|m}}, {{birth date and age|1931|5|7}}", "5 km, 2-4 m, 7 May 1931"),
        ("{{lang|fr|Ville}} {{nowrap|a b}} {{ubl|c|d}} {{unknown|e}}f", "Ville a b c, d f"),
        ("'''A''' ({{IPA|x}}; ) ''b''", "A b"),
        ("&amp; &#8211; <br/>c <s>d</s> <nowiki>''e''</nowiki>", "& –\nc d e"),
        ("== H ==\ntext\n== References ==\n* r\n=== Sub ===\ns\n== Next ==\nn", "H\n\ntext\n\nNext\n\nn"),
        ("{|\n! Y !! E\n|-\n| 1 || [[a|b]]\n|}", "Y: 1; E: b"),
        ("{|\n|+ Cap\n|-\n| 1 || 2\n| 3\n|}", "Cap\n1; 2; 3"),
        ("{{Infobox x\n| born_in = [[Arden]]\n| image = x.jpg\n}}\nBody", "born in: Arden\n\nBody"),
        ("* one\n# two\n: three", "one\ntwo\nthree"),
        ("unclosed {{a [[b", "unclosed {{a [[b"),
        ("\u200fمدينة\u200e כפר 東京", "مدينة כפר 東京"),
        ("{{formatnum:12345}} [http://x label] [http://y]", "12345 label"),
    ],
)
def test_markup_becomes_what_a_reader_sees(markup: str, text: str) -> None:
    assert page_text(markup) == text


def test_names_of_other_wikis_namespaces_are_known_from_the_head(tmp_path: Path) -> None:
    head = HEAD.replace(">File<", ">Datei<")
    page = (
        "<page><title>T</title><ns>0</ns><id>1</id><revision><text>[[Datei:x.jpg|unseen]] seen</text></revision></page>"
    )
    (tmp_path / "d.xml").write_text(f"{head}{page}</mediawiki>")
    index_wiki(tmp_path / "d.xml", tmp_path / "s", ALONE)
    assert [row["contents"] for row in lines(tmp_path / "s")] == ['"T"\nseen']
