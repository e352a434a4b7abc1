"""Tables of documents that a search has found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.worlds import context
from vlagent.errors import ServiceError, ToolInputError
from vlagent.tools.base import ToolOutput
from vlagent.tools.table import Table, TableArguments
from vlagent.tools.table_files import read_html
from vlagent.types import Hit, Source

CSV = "Tower,Height,Built\nEiffel,330,1889\nTokyo,333,1958\n\nBerlin,368\n"
HTML = """<html><body><table><tr><td>layout</td></tr></table>
<table><tr><th>City</th><th colspan=2>People</th></tr>
<tr><td rowspan=2>Rome</td><td>1960</td><td>2 <b>million</b></td></tr><tr><td>2020</td><td>3 million</td></tr></table>
<table><tr><th>a</th></tr><tr><td>b<table><tr><td>in 1</td></tr><tr><td>in 2</td></tr></table></td></tr></table>"""


def hit(path: Path, page: int | None = None) -> Hit:
    return Hit(source=Source(title=path.stem.title(), file=str(path), page=page))


async def read(*hits: Hit, **arguments: object) -> ToolOutput:
    return await Table().run(TableArguments.model_validate(arguments), context(hits=list(hits)))


@pytest.fixture
def towers(tmp_path: Path) -> Path:
    (tmp_path / "towers.csv").write_text(CSV)
    return tmp_path / "towers.csv"


async def test_a_csv_hit_is_shown_with_its_header_and_source(towers: Path) -> None:
    output = await read(hit(towers), source=1)
    assert output.text == (
        "Table 1 of 1 in Towers:\n| Tower | Height | Built |\n| Eiffel | 330 | 1889 |\n"
        "| Tokyo | 333 | 1958 |\n| Berlin | 368 |  |"
    )
    assert output.sources[0].file == str(towers)


@pytest.mark.parametrize("source", [2, "2", "[2]", "Towers", "towers", "towers.csv"])
async def test_a_hit_is_named_by_number_title_or_file(source: int | str, towers: Path) -> None:
    assert "Eiffel" in (await read(Hit(source=Source(title="Other")), hit(towers), source=source)).text


async def test_contains_keeps_the_rows_that_hold_the_text(towers: Path) -> None:
    kept = (await read(hit(towers), source=1, contains="TOKYO")).text
    assert "Tokyo" in kept
    assert "Eiffel" not in kept
    assert "none of 3 rows contains 'Oslo'" in (await read(hit(towers), source=1, contains="Oslo")).text


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
async def test_other_delimiters_are_found(delimiter: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV.replace(",", delimiter))
    assert "| Tokyo | 333 | 1958 |" in (await read(hit(tmp_path / "a.csv"), source=1)).text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
async def test_other_encodings_are_read(encoding: str, tmp_path: Path) -> None:
    text = "Straße,Höhe\n" + "Müllerstraße,über dreißig Meter\n" * 20
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    assert "| Straße | Höhe |" in (await read(hit(tmp_path / "a.csv"), source=1)).text


async def test_html_tables_are_chosen_by_number_and_spans_are_filled(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(HTML)
    text = (await read(hit(tmp_path / "a.html"), source=1)).text
    assert "| City | People | People |\n| Rome | 1960 | 2 million |\n| Rome | 2020 | 3 million |" in text
    assert "| in 1 |" in (await read(hit(tmp_path / "a.html"), source=1, table=3)).text
    with pytest.raises(ToolInputError, match=r"table 4: a\.html has 3"):
        await read(hit(tmp_path / "a.html"), source=1, table=4)


def test_a_table_in_a_cell_is_a_table_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(HTML)
    outer, inner = read_html(tmp_path / "a.html")[1:]
    assert len(outer) == 2
    assert inner == [["in 1"], ["in 2"]]


async def test_a_span_of_a_million_columns_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<table><tr><td colspan=1000000>x</td></tr><tr><td>y</td></tr></table>")
    assert len((await read(hit(tmp_path / "a.html"), source=1)).text) < 1000


def pdf(path: Path, *tables: list[list[str]]) -> None:
    """A PDF with one ruled table a page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for table in tables:
        drawn = "0.5 w\n"
        for row, cells in enumerate(table):
            for column, cell in enumerate(cells):
                x, y = 50 + 100 * column, 700 - 30 * row
                drawn += f"{x} {y} 100 30 re S\nBT /F1 12 Tf {x + 5} {y + 10} Td ({cell}) Tj ET\n"
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}endstream".encode())
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {len(objects)} 0 R"
        objects.append(f"{page} /Resources << /Font << /F1 3 0 R >> >> >>".encode())
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table_at = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    body += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table_at)
    path.write_bytes(body)


async def test_the_table_of_a_pdf_page_is_read(tmp_path: Path) -> None:
    pdf(tmp_path / "a.pdf", [["Year", "Sales"], ["2020", "17"]], [["Year", "Loss"], ["2021", "9"]])
    second = await read(hit(tmp_path / "a.pdf", page=2), source=1)
    assert "Table 1 of 1 in A on page 2:\n| Year | Loss |\n| 2021 | 9 |" in second.text
    every = await read(hit(tmp_path / "a.pdf"), source=1, table=2)
    assert "Table 2 of 2" in every.text
    assert "Loss" in every.text


async def test_a_broken_file_is_the_worlds_fault(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 broken")
    for path in (tmp_path / "a.pdf", tmp_path / "gone.csv", tmp_path / "gone.pdf", tmp_path / "gone.html"):
        with pytest.raises(ServiceError, match=path.name):
            await read(hit(path), source=1)


async def test_a_wrong_source_is_the_models_fault_and_says_what_there_is(towers: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.html").write_text("<p>no table here</p>")
    cases = {
        "search first": ([], 1),
        "numbered from 1 to 1": ([hit(towers)], 2),
        "numbered from 1 to 1 ": ([hit(towers)], 0),
        "no result has this title": ([hit(towers)], "Bridges"),
        "is not a file": ([Hit(source=Source(title="Web", url="https://x"))], 1),
        "is no table document": ([Hit(source=Source(title="T", file="/x/notes.txt"))], 1),
        "holds no table": ([hit(tmp_path / "empty.html")], 1),
    }
    for words, (hits, source) in cases.items():
        with pytest.raises(ToolInputError, match=words.strip()):
            await read(*hits, source=source)


async def test_a_long_table_is_cut_and_says_how_much_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,m\n" + "".join(f"{n},{n * n}\n" for n in range(500)))
    text = (await read(hit(tmp_path / "a.csv"), source=1)).text
    assert text.endswith("(460 more rows; use contains to narrow them down)")
    assert "| 39 | 1521 |" in text
