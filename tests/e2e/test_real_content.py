"""Index real documents and photographs, then ask about a photograph: title, passage and sources must be found.

The fake model computes each line from the text and pixels it is sent: it finds a strip of colours in the photograph,
reads a word in the crop it gets, looks up that word and the photograph. A box that is off by 2 % reads another word.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.e2e.conftest import Cli
from tests.fakes.brains import colour_code_brain, plant_code
from tests.fakes.openai_server import FakeOpenAI

skimage = pytest.importorskip("skimage", reason="scikit-image's photographs are needed")
PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg", "brick.png")
PDF_PAGES = ("Contents of the manual. Nothing of interest.", "The quasar valve opens at 412 kelvin.")


def write_pdf(path: Path, pages: tuple[str, ...]) -> None:
    """A plain PDF, a line of text a page."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        font = "/Resources << /Font << /F1 3 0 R >> >>"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * index} 0 R {font} >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    body, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    path.write_text(f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}", encoding="latin-1")


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the licences that numpy ships, a PDF, and scikit-image's photographs, made by the real verbs."""
    folder = tmp_path_factory.mktemp("content")
    (folder / "docs").mkdir()
    (folder / "photos").mkdir()
    write_pdf(folder / "docs" / "manual.pdf", PDF_PAGES)
    licences = Path(np.__file__).parents[1].glob("numpy-*.dist-info/licenses/**/*.md")
    for path in licences:
        (folder / "docs" / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
    for name in PHOTOGRAPHS:
        (folder / "photos" / name).write_bytes((files(skimage) / "data" / name).read_bytes())
    cli = Cli(folder)
    assert cli("index", "text", "docs", "search").returncode == 0
    assert cli("index", "images", "photos", "search").returncode == 0
    return folder / "search"


def photo_with(tmp_path: Path, word: str) -> Path:
    path = tmp_path / "holiday.png"
    with Image.open(str(files(skimage) / "data" / "astronaut.png")) as image:
        plant_code(image, word, at=(32, 400), cell=16).save(path)
    return path


DIALECTS = ("default", "mars-released", "mars-paper", "openai-tools")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_title_the_passage_and_its_file_are_found(cli: Cli, search: Path, tmp_path: Path, dialect: str) -> None:
    photo = photo_with(tmp_path, "twister")
    with FakeOpenAI(colour_code_brain()) as server:
        words = (photo, "Which photograph is it, and what does the coded word mean?", "--search", search)
        code, value = cli.ask_json(server, *words, "--dialect", dialect)
    assert code == 0
    assert "The photograph is astronaut" in value["answer"]
    assert "Mersenne Twister" in value["answer"] or "mt19937" in value["answer"].lower()
    assert [turn["call"] and turn["call"]["name"] for turn in value["turns"]] == [
        "image_crop",
        "text_search",
        "image_search",
        None,
    ]
    assert any(str(source["file"]).endswith("mt19937-LICENSE.md") for source in value["sources"])
    assert any(source["title"] == "astronaut" for source in value["sources"])
    assert {seen.status for seen in server.seen} == {200}


@pytest.mark.parametrize("skew", [0.02, -0.02])
def test_a_box_that_is_off_by_two_percent_answers_wrongly(cli: Cli, search: Path, tmp_path: Path, skew: float) -> None:
    with FakeOpenAI(colour_code_brain(skew)) as server:
        _, value = cli.ask_json(server, photo_with(tmp_path, "twister"), "What is it?", "--search", search)
    assert value["turns"][1]["call"]["arguments"]["query"] != "twister"
    assert "Twister" not in value["answer"]


def test_a_passage_of_a_pdf_is_shown_with_its_page(cli: Cli, search: Path, tmp_path: Path) -> None:
    photo = photo_with(tmp_path, "quasar")
    with FakeOpenAI(colour_code_brain()) as server:
        done = cli.ask(server, photo, "What does the coded word mean?", "--search", search)
    assert done.returncode == 0
    assert "opens at 412 kelvin" in done.stdout
    assert "manual.pdf, page 2" in done.stdout


def test_rag_answers_in_one_turn_from_what_was_looked_up(cli: Cli, search: Path, tmp_path: Path) -> None:
    def brain(messages: object, images: object, body: object) -> str:
        return f"<think>read</think><answer>{'412 kelvin' in str(messages)}</answer>"

    photo = photo_with(tmp_path, "quasar")
    with FakeOpenAI(brain) as server:
        words = (photo, "At what temperature does the quasar valve open?", "--search", search)
        _, value = cli.ask_json(server, *words, "--workflow", "rag")
        _, blind = cli.ask_json(server, *words, "--workflow", "direct")
    assert (value["answer"], len(value["turns"])) == ("True", 1)
    assert any(source["page"] == 2 for source in value["sources"])
    assert blind["answer"] == "False"


def test_offline_searches_without_any_network(cli: Cli, search: Path, tmp_path: Path) -> None:
    with FakeOpenAI(colour_code_brain()) as server:
        code, value = cli.ask_json(server, photo_with(tmp_path, "twister"), "What?", "--search", search, "--offline")
    assert (code, value["stop"]) == (0, "answered")
