from pathlib import Path

import pytest

from tests.search.files import photo
from vlagent.cli.main import main


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
    (mixed / "t.jsonl").write_text('{"file": "p.png", "title": "x"}\n{"file": 3}')
    assert main(["index", "images", str(mixed), str(mixed.parent / "s3"), "--titles", str(mixed / "t.jsonl")]) == 2
