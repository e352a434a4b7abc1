import asyncio
import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.search.files import pdf
from vlagent.errors import UserError
from vlagent.search.base import TextQuery
from vlagent.search.ledger import Marker, writing
from vlagent.search.text_build import TextOptions, index_text
from vlagent.search.text_index import VERSION, TextIndex
from vlagent.types import Hit


def find(search: Path, text: str, top_k: int = 5) -> list[Hit]:
    return TextIndex(search / "text").find(TextQuery(text=text, top_k=top_k))


def titles(search: Path, text: str) -> list[str]:
    return [hit.source.title for hit in find(search, text)]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "tower.md").write_text("# Belmont Tower\n\nThe tower was founded in 1931 by Ada Field.")
    (folder / "bridge.txt").write_text("Walden Bridge opened in 1987. It spans the river.")
    (folder / "tokyo.txt").write_text("東京の国立競技場です。2019年に完成しました。")
    (folder / "thai.txt").write_text("กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย")
    (folder / "korea.txt").write_text("서울은 한국의 수도이다.")
    (folder / "cafe.txt").write_text("Le café de la gare est fermé.")
    pdf(folder / "report.pdf", ["nothing here", "the zeppelin landed"])
    return folder


@pytest.fixture
def search(docs: Path, tmp_path: Path) -> Path:
    index_text([docs], tmp_path / "search")
    return tmp_path / "search"


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("国立競技場", "tokyo"),
        ("ประเทศไทย", "thai"),
        ("서울", "korea"),
        ("CAFE", "cafe"),
        ("who founded Belmont Tower?", "Belmont Tower"),
        ("founding of the tower", "Belmont Tower"),
        ("zeppelins", "report"),
    ],
)
def test_a_passage_is_found_in_its_script(search: Path, query: str, title: str) -> None:
    assert titles(search, query)[0] == title


def test_a_hit_carries_title_file_page_and_a_float_score(search: Path, docs: Path) -> None:
    (hit,) = find(search, "zeppelin")
    assert (hit.source.file, hit.source.page) == (str(docs / "report.pdf"), 2)
    assert isinstance(hit.score, float)
    assert hit.score > 0
    assert hit.text == "the zeppelin landed"


@given(st.text(max_size=60))
@example('AND OR NOT ( "')
@example("title:tower^3 +must -not [a TO b] field:*")
@example("\ud800\x00\\")
@settings(max_examples=150, deadline=None)
def test_any_string_is_a_query(shared: TextIndex, text: str) -> None:
    hits = shared.find(TextQuery.model_construct(text=text, top_k=5))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> TextIndex:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "a.txt").write_text("and or not title must tower the a b 1 2 3")
    index_text([folder / "a.txt"], folder / "s")
    return TextIndex(folder / "s" / "text")


def test_no_word_and_no_room_give_no_hits(search: Path) -> None:
    assert find(search, "🙂 !!") == []
    assert find(search, "tower", top_k=0) == []
    assert find(search, "xylophone") == []


def test_searches_at_once_give_what_one_gives(search: Path) -> None:
    index = TextIndex(search / "text")

    async def both() -> list[list[Hit]]:
        return await asyncio.gather(*(index.search(TextQuery(text="tower river 国立競技場")) for _ in range(16)))

    answers = asyncio.run(both())
    assert len(answers[0]) == 3
    assert all(answer == answers[0] for answer in answers)


def test_equal_scores_come_in_the_order_of_their_files(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"zebra {name}x")
    index_text([tmp_path / f"{name}.txt" for name in "cab"], tmp_path / "s")
    assert titles(tmp_path / "s", "zebra") == ["a", "b", "c"]


def test_the_title_boost_lifts_the_document_of_that_name(tmp_path: Path) -> None:
    rows = [{"title": "Oslo", "text": "A city in the north of Europe."}, {"title": "Travel", "text": "Oslo and Rome."}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    index_text([tmp_path / "c.jsonl"], tmp_path / "s")
    query = TextQuery(text="oslo")
    first = TextIndex(tmp_path / "s" / "text", title_boost=5).find(query)[0].source.title
    without = TextIndex(tmp_path / "s" / "text", title_boost=0).find(query)
    assert first == "Oslo"
    assert [hit.source.title for hit in without] == ["Travel"]


@pytest.mark.parametrize(("query", "first"), [("corking", "note"), ("cork", "stream"), ("uncorked corks", "stream")])
def test_the_very_form_that_was_asked_for_comes_before_others_of_its_stem(
    tmp_path: Path, query: str, first: str
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "stream.txt").write_text("Cork the stream, then cork it again; uncorked corks cork a cork.")
    (folder / "note.txt").write_text(
        "A long list of changes, of which one is about corking and the others are not at all."
    )
    index_text([folder], tmp_path / "search")
    assert find(tmp_path / "search", query)[0].source.title == first
    assert len(find(tmp_path / "search", query)) == 2


def test_one_long_document_leaves_room_for_others_and_copies_are_shown_once(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(
        "\n\n".join(f"Zebra zebra number {i}. " + "Filler words here. " * 40 for i in range(6))
    )
    (tmp_path / "short.txt").write_text("Filler " * 150 + "zebra")
    (tmp_path / "copy.txt").write_text("Filler " * 150 + "zebra")
    index_text([tmp_path], tmp_path / "s")

    def found(per_document: int) -> list[str]:
        index = TextIndex(tmp_path / "s" / "text", per_document=per_document)
        return [hit.source.title for hit in index.find(TextQuery(text="zebra", top_k=3))]

    assert found(2) == ["long", "long", "copy"]
    assert found(3) == ["long", "long", "long"]


def test_passage_words_decides_the_size_of_passages(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Six words are in this sentence. " * 60)
    small = index_text([tmp_path / "a.txt"], tmp_path / "s1", TextOptions(passage_words=30))
    large = index_text([tmp_path / "a.txt"], tmp_path / "s2", TextOptions(passage_words=180))
    assert small.parts > 2 * large.parts


def test_max_mb_and_skip_leave_files_out(docs: Path, tmp_path: Path) -> None:
    (docs / "big.txt").write_text("mammoth " * 20_000)
    report = index_text([docs], tmp_path / "s", TextOptions(max_mb=0.1, skip=("tow*",)))
    assert [(Path(file).name, "larger" in reason) for file, reason in report.unreadable] == [("big.txt", True)]
    assert titles(tmp_path / "s", "mammoth") == []
    assert titles(tmp_path / "s", "Belmont") == []


def test_a_second_run_does_only_what_is_new_changed_or_gone(docs: Path, search: Path) -> None:
    same = index_text([docs], search)
    assert (same.added, same.changed, same.removed, same.unchanged) == (0, 0, 0, 7)
    (docs / "bridge.txt").write_text("Walden Bridge burnt down.")
    (docs / "cafe.txt").unlink()
    (docs / "new.txt").write_text("A walrus.")
    os.utime(docs / "tower.md", (1, 1))
    report = index_text([docs], search)
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 5)
    assert find(search, "opened") == []
    assert titles(search, "burnt") == ["bridge"]
    assert find(search, "gare") == []
    assert titles(search, "walrus") == ["new"]


def test_a_run_over_other_sources_keeps_what_is_there(search: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.txt").write_text("An ocelot.")
    assert index_text([tmp_path / "more"], search).files == 8
    assert titles(search, "ocelot") == ["x"]
    assert titles(search, "Belmont") == ["Belmont Tower"]


def test_a_document_that_became_unreadable_is_listed_and_no_longer_found(docs: Path, search: Path) -> None:
    (docs / "report.pdf").write_bytes(b"%PDF-1.4 torn")
    report = index_text([docs], search)
    assert [Path(file).name for file, _ in report.unreadable] == ["report.pdf"]
    assert find(search, "zeppelin") == []


def test_an_empty_file_is_listed_and_a_name_that_is_not_utf8_is_indexed(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 notes.txt")).write_text("An ocelot.")
    report = index_text([tmp_path], tmp_path / "my search")
    pdf(tmp_path / "scan.pdf", [""])
    again = index_text([tmp_path], tmp_path / "my search")
    assert report.unreadable == ((str(tmp_path / "empty.txt"), "no text in it"),)
    assert [reason for _, reason in again.unreadable if "OCR" in reason] == [again.unreadable[-1][1]]
    assert titles(tmp_path / "my search", "ocelot") == ["caf� notes"]


def test_a_folder_with_nothing_to_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(UserError, match="no document to index"):
        index_text([tmp_path], tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_the_index_inside_its_own_source_is_not_indexed(docs: Path) -> None:
    first = index_text([docs], docs / "search")
    assert index_text([docs], docs / "search").files == first.files


def test_another_schema_version_says_how_to_rebuild(docs: Path, search: Path) -> None:
    marker = Marker(kind="text", version=VERSION + 1, options={"passage_words": 180})
    (search / "text" / "vlagent-index.json").write_text(marker.model_dump_json())
    with pytest.raises(UserError, match="--rebuild"):
        TextIndex(search / "text")
    with pytest.raises(UserError, match="--rebuild"):
        index_text([docs], search)
    assert index_text([docs], search, rebuild=True).added == 7
    assert titles(search, "Belmont") == ["Belmont Tower"]


def test_other_passage_words_need_a_rebuild(docs: Path, search: Path) -> None:
    with pytest.raises(UserError, match="passage_words"):
        index_text([docs], search, TextOptions(passage_words=50))
    index_text([docs], search, TextOptions(passage_words=50), rebuild=True)


def test_a_rebuild_drops_files_of_other_sources(search: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("An ocelot.")
    assert index_text([tmp_path / "x.txt"], search, rebuild=True).files == 1


def test_a_second_writer_is_one_line(docs: Path, search: Path) -> None:
    marker = Marker(kind="text", version=VERSION, options={"passage_words": 180})
    with writing(search / "text", marker), pytest.raises(UserError, match="another process is writing"):
        index_text([docs], search)


def test_a_foreign_folder_is_never_written_nor_emptied(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine" / "text").mkdir(parents=True)
    (tmp_path / "mine" / "text" / "thesis.txt").write_text("years of work")
    for rebuild in (False, True):
        with pytest.raises(UserError, match="holds other files"):
            index_text([docs], tmp_path / "mine", rebuild=rebuild)
    assert (tmp_path / "mine" / "text" / "thesis.txt").exists()


def test_a_target_that_cannot_be_made_is_one_line(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        index_text([docs], tmp_path / "file" / "search")


def test_a_world_can_be_moved_with_its_index(docs: Path, search: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    docs.rename(tmp_path / "there" / "docs")
    search.rename(tmp_path / "there" / "search")
    (hit,) = find(tmp_path / "there" / "search", "zeppelin")
    assert hit.source.file == str(tmp_path / "there" / "docs" / "report.pdf")
    assert index_text([tmp_path / "there" / "docs"], tmp_path / "there" / "search").unchanged == 7


def test_progress_ends_with_everything_done(docs: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    index_text([docs], tmp_path / "s", progress=lambda *now: told.append(now))
    assert told[0][:2] == (0, 7)
    assert told[-1] == (7, 7, "")


def test_shards_find_what_one_part_finds_and_are_filled_about_equally(tmp_path: Path) -> None:
    rows = [{"id": i, "contents": f"T{i}\ncommon word{i % 50} number{i}"} for i in range(400)]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for i in range(40):
        (tmp_path / f"f{i}.txt").write_text(f"common single{i}")
    index_text([tmp_path], tmp_path / "one")
    index_text([tmp_path], tmp_path / "four", TextOptions(shards=4))
    one, four = (TextIndex(tmp_path / name / "text", per_document=999) for name in ("one", "four"))
    assert len(one) == len(four) == 440
    assert all(int(shard.searcher().num_docs) > 4 for shard in four._shards)
    for query in ("number7", "single3", "word11"):
        found = [sorted(hit.text for hit in index.find(TextQuery(text=query, top_k=8))) for index in (one, four)]
        assert found[0] == found[1] != []
    (tmp_path / "f3.txt").unlink()
    assert index_text([tmp_path], tmp_path / "four", TextOptions(shards=4)).removed == 1
    assert TextIndex(tmp_path / "four" / "text").find(TextQuery(text="single3")) == []
    with pytest.raises(UserError, match="--rebuild"):
        index_text([tmp_path], tmp_path / "four", TextOptions(shards=2))


def test_a_long_corpus_is_spread_over_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlagent.search.text_build.BLOCK", 10)
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps({"contents": f"T{i}\nword{i}"}) for i in range(90)))
    index_text([tmp_path / "c.jsonl"], tmp_path / "s", TextOptions(shards=3, commit_every=20))
    index = TextIndex(tmp_path / "s" / "text")
    assert [int(shard.searcher().num_docs) for shard in index._shards] == [30, 30, 30]
    (tmp_path / "c.jsonl").write_text(json.dumps({"contents": "T\nonly"}))
    index_text([tmp_path / "c.jsonl"], tmp_path / "s", TextOptions(shards=3))
    assert len(TextIndex(tmp_path / "s" / "text")) == 1
