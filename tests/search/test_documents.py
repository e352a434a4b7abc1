import contextlib
import gzip
import io
import json
import os
import zipfile
from pathlib import Path

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from tests.search.files import pdf
from vlagent.errors import UserError
from vlagent.search.documents import READERS, file_title, is_document, read_documents
from vlagent.search.readers import Unreadable
from vlagent.search.walk import walk


def read(path: Path, limit: int = 1_000_000) -> tuple[list[tuple[str, list[tuple[int | None, str]]]], list[str]]:
    """Titles with their (page, text) sections, and the notes."""
    notes: list[str] = []
    documents = read_documents(str(path), limit, notes.append)
    return [(d.title, [(s.page, s.text.strip()) for s in d.sections]) for d in documents], notes


def one(path: Path) -> tuple[str, str]:
    (title, sections), *more = read(path)[0]
    assert not more
    return title, "\n".join(text for _, text in sections)


def test_text_is_titled_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "my_notes.txt").write_text("Hello")
    assert one(tmp_path / "my_notes.txt") == ("my notes", "Hello")


def test_a_conventional_name_is_titled_with_its_folder_and_needs_no_suffix(tmp_path: Path) -> None:
    (tmp_path / "zlib").mkdir()
    for name in ("copyright", "README.Debian", "changelog.Debian.gz"):
        assert is_document(str(tmp_path / "zlib" / name))
        assert file_title(str(tmp_path / "zlib" / name)) == f"zlib {name.split('.')[0]}"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# The *Title*\n\nBody", "The Title"),
        ("---\ntitle: From the front\n---\n# Other\nBody", "From the front"),
        ("=====\nTitle\n=====\n\nBody", "Title"),
        ("Just text", "page"),
        ("## [A link](http://x.y) here ##\n", "A link here"),
    ],
)
def test_markdown_is_titled_by_its_first_heading(tmp_path: Path, text: str, title: str) -> None:
    (tmp_path / "page.md").write_text(text)
    assert one(tmp_path / "page.md")[0] == title


def test_html_gives_its_title_and_text_but_no_script(tmp_path: Path) -> None:
    body = "<p>Caf&eacute; was <b>founded</b> in 1987.</p><script>var hidden = 1</script><table><tr><td>a<td>b</table>"
    (tmp_path / "p.html").write_text(f"<html><head><title>My &amp; page</title></head><body>{body}</body></html>")
    title, text = one(tmp_path / "p.html")
    assert title == "My & page"
    assert "Café was founded in 1987." in text
    assert "hidden" not in text


def test_html_that_is_all_links_still_gives_its_visible_text(tmp_path: Path) -> None:
    links = "".join(f"<li><a href='{i}.html'>Chapter {i} of the manual</a></li>" for i in range(30))
    (tmp_path / "toc.html").write_text(f"<html><body><nav><ul>{links}</ul></nav></body></html>")
    assert "Chapter 29 of the manual" in one(tmp_path / "toc.html")[1]


def test_html_honours_its_declared_charset(tmp_path: Path) -> None:
    raw = '<html><head><meta charset="shift_jis"></head><body><p>東京の天気</p></body></html>'.encode("shift_jis")
    (tmp_path / "j.html").write_bytes(raw)
    assert "東京の天気" in one(tmp_path / "j.html")[1]


def test_pdf_sections_carry_their_page_from_one(tmp_path: Path) -> None:
    path = pdf(tmp_path / "p.pdf", ["First page here", "Second page there"], title="The report")
    assert read(path)[0] == [("The report", [(1, "First page here"), (2, "Second page there")])]


def test_an_encrypted_pdf_says_that_it_needs_a_password(tmp_path: Path) -> None:
    writer = PdfWriter(clone_from=PdfReader(pdf(tmp_path / "p.pdf", ["secret"])))
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(tmp_path / "locked.pdf")
    with pytest.raises(Unreadable, match="password"):
        read(tmp_path / "locked.pdf")


def test_docx_gives_paragraphs_and_tables_in_order(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading("Bridge report", 0)
    document.add_paragraph("Before the table.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "span", "300 m"
    document.add_paragraph("After it.")
    document.save(str(tmp_path / "r.docx"))
    title, text = one(tmp_path / "r.docx")
    assert title == "Bridge report"
    assert text.index("Before") < text.index("span | 300 m") < text.index("After")


def test_a_docx_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("word/document.xml", b"0" * 20_000_000)
    with pytest.raises(Unreadable, match="unpacks"):
        read(tmp_path / "bomb.docx")


@pytest.mark.parametrize(("name", "mark"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t")])
def test_table_rows_name_their_columns(tmp_path: Path, name: str, mark: str) -> None:
    (tmp_path / name).write_text(f"city{mark}year\nOslo{mark}1048\nRoma{mark}\n")
    assert one(tmp_path / name)[1] == "city: Oslo; year: 1048\n\ncity: Roma"


def test_a_corpus_gives_a_document_a_line_and_notes_bad_lines(tmp_path: Path) -> None:
    rows = [
        {"id": "7", "contents": '"Belmont Tower"\nIt opened in 1931.'},
        {"title": "Other", "text": "Body", "url": "https://x.y"},
        {"text": "No title"},
    ]
    lines = [*map(json.dumps, rows), "{broken", json.dumps({"nothing": 1}), "[1]"]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    documents, notes = read(tmp_path / "c.jsonl")
    assert documents[0] == ("Belmont Tower", [(None, "It opened in 1931.")])
    assert [title for title, _ in documents] == ["Belmont Tower", "Other", "c 3"]
    assert [note.split()[1] for note in notes] == ["4", "5", "6"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "cp1250", "koi8-r", "gb18030"])
def test_text_in_any_common_character_set_is_read(tmp_path: Path, encoding: str) -> None:
    text = {
        "cp1252": "Les élèves français étudient à l’école pendant l’été, où la chaleur règne. " * 5,
        "cp1250": "Zażółć gęślą jaźń, a potem źdźbło trawy na łące pod Łodzią. " * 5,
        "koi8-r": "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5,
        "gb18030": "中华人民共和国的首都是北京，这里有很多名胜古迹。" * 5,
    }.get(encoding, "Ångström 東京")
    (tmp_path / "t.txt").write_bytes(text.encode(encoding))
    assert one(tmp_path / "t.txt")[1] == text.strip()


def test_gzipped_text_is_read_and_its_bomb_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"packed words"))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"0" * 3_000_000))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"cut off" * 100)[:-20])
    assert one(tmp_path / "a.txt.gz") == ("a", "packed words")
    with pytest.raises(Unreadable, match="larger than 1 MB"):
        read(tmp_path / "b.txt.gz")
    with pytest.raises(Unreadable):
        read(tmp_path / "c.txt.gz")


def test_binary_bytes_under_a_text_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(Unreadable, match="binary"):
        read(tmp_path / "x.txt")


def _good(suffix: str, folder: Path) -> bytes:
    if suffix == ".pdf":
        return pdf(folder / "g.pdf", ["some page", "another"]).read_bytes()
    if suffix == ".docx":
        buffer = io.BytesIO()
        document = docx.Document()
        document.add_paragraph("some paragraph")
        document.save(buffer)
        return buffer.getvalue()
    return b"<html><title>t</title><body><p>a,b\n1,2"


@pytest.mark.parametrize("suffix", sorted(READERS))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_unreadable_or_read_but_never_another_error(
    suffix: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("d")
    raw = bytearray(_good(suffix, folder))
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    (folder / f"x{suffix}").write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    with contextlib.suppress(Unreadable):
        read(folder / f"x{suffix}")


def test_a_walk_follows_links_once_and_survives_loops(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x.txt").write_text("x")
    (tmp_path / "a" / "b" / "loop").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "again.txt").symlink_to(tmp_path / "a" / "x.txt")
    (tmp_path / "a" / "gone.txt").symlink_to(tmp_path / "nowhere")
    found = walk([tmp_path, tmp_path / "a"], is_document)
    assert list(found.files) == [str(tmp_path / "a" / "x.txt")]
    assert found.problems == [(str(tmp_path / "nowhere"), "a link that leads nowhere")]


def test_a_walk_leaves_out_hidden_skipped_and_foreign_files(tmp_path: Path) -> None:
    for name in (".hidden.txt", "keep.txt", "drop.txt", "picture.png", "pipe"):
        (tmp_path / name).write_text("x") if name != "pipe" else os.mkfifo(tmp_path / name)
    found = walk([tmp_path], is_document, skip=["drop*"])
    assert [Path(file).name for file in found.files] == ["keep.txt"]
    assert found.skipped == {".png": 1}


def test_a_missing_source_is_one_line_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: no such file or folder"):
        walk([tmp_path / "nowhere"], is_document)
