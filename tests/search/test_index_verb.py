import json
import re
from pathlib import Path

import faiss
import pytest

from tests.search.files import photo
from tests.search.wiki_dump import write_dump
from vlagent.cli.main import main
from vlagent.search.dense_embedders import StaticEmbedder
from vlagent.search.open import open_passages


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    folder = tmp_path / "my files"
    folder.mkdir()
    (folder / "a.txt").write_text("A walrus.")
    (folder / "b.pdf").write_bytes(b"%PDF torn")
    photo(0).save(folder / "p.png")
    (folder / "q.jpg").write_text("no picture")
    return folder


@pytest.mark.parametrize(("kind", "bad"), [("text", "b.pdf"), ("images", "q.jpg")])
def test_unreadable_files_are_listed_at_the_end_and_are_no_error(
    mixed: Path, capsys: pytest.CaptureFixture[str], kind: str, bad: str
) -> None:
    assert main(["index", kind, str(mixed), str(mixed.parent / "s")]) == 0
    said = capsys.readouterr()
    assert "1 added" in said.out
    assert "Not of a kind that is read" in said.out
    assert said.err.splitlines()[0].startswith("Could not be read")
    assert said.err.splitlines()[-1].startswith(f"  {mixed / bad}: ")
    assert main(["index", kind, str(mixed), str(mixed.parent / "s")]) == 0
    assert "1 unchanged" in capsys.readouterr().out
    assert main(["index", kind, str(mixed), str(mixed.parent / "s"), "--rebuild"]) == 0
    assert "1 added" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["text", "nowhere", "s"], "nowhere: no such file or folder"),
        (["text", "."], "give the sources, then the search folder"),
        (["text", ".", "a.txt"], "this is a file"),
        (["images", "a.txt", "s"], "no picture to index"),
        (["images", ".", "s", "--max-mb", "3"], "only for text"),
        (["text", ".", "s", "--titles", "t.jsonl"], "only for pictures"),
        (["text", ".", "s", "--passage-words", "2"], "passage_words = 2"),
        (["text", ".", "a.txt/s"], "cannot be written"),
        (["text", ".", "s", "--embedder", "static"], "only for dense and search-r1"),
        (["text", ".", "s", "--shards", "0"], "shards = 0"),
        (["dense", ".", "s", "--shards", "2"], "only for text and wiki"),
        (["dense", ".", "s", "--passage-words", "2"], "passage_words = 2"),
        (["wiki", "a.txt", "b.pdf", "s"], "one dump is expected"),
        (["wiki", "a.txt", "s", "--namespaces", "x"], "--namespaces x"),
        (["wiki", "a.txt", "s", "--workers", "1"], "not a MediaWiki export"),
        (["search-r1", "a.txt", "s"], "give the corpus"),
        (["search-r1", "a.txt", "b.pdf", "s"], "unpacked .jsonl"),
        (["semantic", "a.txt", "s"], "no picture to index"),
    ],
)
def test_a_users_mistake_is_one_line(
    mixed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(mixed)
    assert main(["index", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert len(said.err.splitlines()) == 1


def test_options_of_the_verb_reach_the_index(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (mixed / "long.txt").write_text("Six words are in this sentence. " * 60)
    main(["index", "text", str(mixed), str(mixed.parent / "s1"), "--skip", "*.pdf", "--passage-words", "20"])
    said = capsys.readouterr()
    assert said.err == ""
    assert int(said.out.split(": ")[1].split()[0]) > 15
    main(["index", "text", str(mixed), str(mixed.parent / "s2"), "--max-mb", "0.001"])
    assert "long.txt: larger than 0.001 MB" in capsys.readouterr().err
    main(["index", "text", str(mixed), str(mixed.parent / "s4"), "--shards", "3"])
    assert len(list((mixed.parent / "s4" / "text").glob("tantivy*"))) == 3
    capsys.readouterr()
    (mixed / "t.jsonl").write_text('{"file": "p.png", "title": "x"}\n{"file": 3}')
    assert main(["index", "images", str(mixed), str(mixed.parent / "s3"), "--titles", str(mixed / "t.jsonl")]) == 2


def test_dense_wiki_and_search_r1_indexes_are_made_and_opened(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = mixed.parent
    assert main(["index", "dense", str(mixed), str(folder / "d"), "--vectors", "flat"]) == 0
    assert "d/dense: 1 passages of 1 files (1 added)" in capsys.readouterr().out
    assert open_passages(folder / "d").passages(["walrus"], 1)[0][0].text == "A walrus."
    write_dump(folder / "w.xml.bz2", pages=12, sections=1)
    assert main(["index", "wiki", str(folder / "w.xml.bz2"), str(folder / "w"), "--workers", "1", "--shards", "2"]) == 0
    said = capsys.readouterr()
    assert "12 pages and 3 redirects became" in said.out
    assert re.search(r"100.0 % read, 12 pages, \d+ passages, \d+ pages/s, 0:00:00 left", said.err)
    index = faiss.IndexFlatIP(256)
    corpus = folder / "w" / "wiki" / "passages-00000.jsonl"
    lines = corpus.read_text().splitlines()
    index.add(StaticEmbedder().passages([json.loads(line)["contents"] for line in lines]))
    faiss.write_index(index, str(folder / "e5_Flat.index"))
    words = ["index", "search-r1", str(corpus), str(folder / "e5_Flat.index"), str(folder / "r")]
    assert main([*words, "--embedder", "static"]) == 0
    assert f"{len(lines)} passages" in capsys.readouterr().out
    contents = json.loads(lines[3])["contents"]
    assert open_passages(folder / "r").passages([contents], 1)[0][0].contents == contents


@pytest.mark.parametrize("kind", ["text", "dense"])
@pytest.mark.parametrize("most", ["-1", "0", "inf", "nan"])
def test_a_largest_file_of_no_size_is_one_line(
    mixed: Path, capsys: pytest.CaptureFixture[str], kind: str, most: str
) -> None:
    assert main(["index", kind, str(mixed), str(mixed.parent / "s"), "--max-mb", most]) == 2
    assert capsys.readouterr().err.startswith(f"vlagent: max_mb = {most}: ")


def test_the_home_of_nobody_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "text", "~nobody-of-this-name/x", "s"]) == 2
    assert "no user of this name" in capsys.readouterr().err


def test_a_dump_in_longer_passages_is_found_in_longer_passages(tmp_path: Path) -> None:
    write_dump(tmp_path / "d.xml", pages=3)
    command = ["index", "wiki", str(tmp_path / "d.xml"), str(tmp_path / "s"), "--passage-words", "400"]
    assert main([*command, "--workers", "1"]) == 0
    made = [json.loads(line) for line in (tmp_path / "s/wiki/passages-00000.jsonl").read_text().splitlines()]
    assert max(len(row["contents"].split()) for row in made) > 250
    found = open_passages(tmp_path / "s").passages([row["contents"].split("\n")[0] for row in made], 50)
    assert {one.id for of_query in found for one in of_query} <= {row["id"] for row in made}
    assert max(len(one.text.split()) for of_query in found for one in of_query) > 250
