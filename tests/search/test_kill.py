import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.search.files import photo
from vlagent.search.base import TextQuery
from vlagent.search.picture_build import PictureOptions, index_images
from vlagent.search.text_build import TextOptions, index_text
from vlagent.search.text_index import TextIndex


def killed(kind: str, source: Path, search: Path, moment: float) -> int:
    command = [sys.executable, "-m", "tests.search.killed", kind, str(source), str(search), str(moment)]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode


def text_content(search: Path) -> list[tuple[str, str]]:
    """Every passage, by words that each of them holds."""
    index = TextIndex(search / "text", per_document=10_000)
    hits = index.find(TextQuery(text="common", top_k=1000))
    assert len(index) == len(hits)
    return sorted((hit.source.title, hit.text) for hit in hits)


def picture_content(search: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(search / "images" / "ledger.sqlite")
    rows = connection.execute("SELECT file, title, hash, points, words, signatures FROM pictures ORDER BY file")
    ledger = connection.execute("SELECT file, size, sha256, parts, done FROM files ORDER BY file")
    content = [*rows, *ledger]
    connection.close()
    return content


@pytest.mark.parametrize(("kind", "moments"), [("text", (0.9, 3, 5.5, 7)), ("shards", (2, 6.5))])
def test_a_text_run_that_is_killed_anywhere_ends_as_an_undisturbed_one(
    tmp_path: Path, kind: str, moments: tuple[float, ...]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for i in range(12):
        (docs / f"d{i:02}.txt").write_text(f"common words of document {i}. " * (1 + i))
    rows = [{"id": i, "contents": f"Record {i}\ncommon fact number {i}"} for i in range(60)]
    (docs / "d05.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = TextOptions(commit_every=7, shards=3 if kind == "shards" else 1)
    index_text([docs], tmp_path / "calm", options)
    codes = [killed(kind, docs, tmp_path / "torn", moment) for moment in moments]
    report = index_text([docs], tmp_path / "torn", options)
    assert -9 in codes
    assert report.files == 13
    assert text_content(tmp_path / "torn") == text_content(tmp_path / "calm")


def test_a_long_corpus_goes_on_in_the_middle_and_drops_what_the_ledger_does_not_know(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("\n".join(json.dumps({"contents": f"R{i}\ncommon {i}"}) for i in range(100)))
    index_text([corpus], tmp_path / "calm")
    index_text([corpus], tmp_path / "torn")
    with sqlite3.connect(tmp_path / "torn" / "text" / "ledger.sqlite") as ledger:
        ledger.execute("UPDATE files SET done = 0, parts = 40")
    ledger.close()
    report = index_text([corpus], tmp_path / "torn")
    assert report.parts == 100
    assert text_content(tmp_path / "torn") == text_content(tmp_path / "calm")


@pytest.mark.parametrize("moment", [1, 4, 9.5])
def test_a_picture_run_that_is_killed_anywhere_ends_as_an_undisturbed_one(tmp_path: Path, moment: float) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for i in range(11):
        photo(i, (200, 150)).save(pictures / f"p{i:02}.png")
    options = PictureOptions(commit_every=3)
    index_images([pictures], tmp_path / "calm", options)
    code = killed("images", pictures, tmp_path / "torn", moment)
    report = index_images([pictures], tmp_path / "torn", options)
    assert (code, report.files) == (-9, 11)
    assert picture_content(tmp_path / "torn") == picture_content(tmp_path / "calm")
