"""What the README says works as it stands there."""

from __future__ import annotations

import asyncio
import doctest
import os
import re
from importlib.resources import files
from pathlib import Path

import pytest
from PIL import Image

import vlagent
from tests.fakes.brains import colour_code_brain, plant_code
from tests.fakes.openai_server import KEY, FakeOpenAI
from vlagent.cli.main import VERBS
from vlagent.cli.main import main as run
from vlagent.types import Trajectory

README = Path(__file__).parents[1] / "README.md"
skimage = pytest.importorskip("skimage", reason="scikit-image's photographs are needed")


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """photo.png and my-index of the quickstart, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("docs", "photos"):
        Path(name).mkdir()
    Path("docs/valve.txt").write_text("The quasar valve opens at 412 kelvin.\n")
    picture = files(skimage) / "data" / "astronaut.png"
    Path("photos/astronaut.png").write_bytes(picture.read_bytes())
    with Image.open(str(picture)) as image:
        plant_code(image, "quasar", at=(32, 400), cell=16).save("photo.png")
    assert run(["index", "text", "docs", "my-index"]) == 0
    assert run(["index", "images", "photos", "my-index"]) == 0
    return tmp_path


def test_the_python_quickstart_prints_what_the_readme_shows(content: Path) -> None:
    with FakeOpenAI(colour_code_brain(), model="my-model") as server:
        text = README.read_text().replace("http://127.0.0.1:8000/v1", server.base_url)
        test = doctest.DocTestParser().get_doctest(_python(text), {}, "README", str(README), 0)
        assert test.examples
        said: list[str] = []
        failed = doctest.DocTestRunner().run(test, out=said.append).failed
    assert failed == 0, "".join(said)


def _python(text: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


async def test_ask_works_inside_a_running_event_loop_as_in_a_notebook(content: Path) -> None:
    with FakeOpenAI(colour_code_brain()) as server:
        words = (["photo.png"], "What does the coded word mean?", server.model)
        blocking = await asyncio.to_thread(_ask_in_a_loop, server.base_url, words)
        awaited = await vlagent.ask_async(*words, base_url=server.base_url, search="my-index")
    assert "412 kelvin" in (blocking.answer or "")
    assert blocking.answer == awaited.answer


def _ask_in_a_loop(base_url: str, words: tuple[list[str], str, str]) -> Trajectory:
    async def cell() -> Trajectory:
        return vlagent.ask(*words, base_url=base_url, search="my-index")

    return asyncio.run(cell())


def test_every_verb_that_the_readme_types_exists() -> None:
    shell = "\n".join(re.findall(r"```bash\n(.*?)```", README.read_text(), re.DOTALL))
    typed = set(re.findall(r"bin/vlagent (\w[\w-]*)", shell))
    assert typed
    assert typed <= set(VERBS)


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for page in (README, README.parent / "CONTRIBUTING.md", *(README.parent / "docs").rglob("*.md")):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_names_only_files_that_exist() -> None:
    for name in re.findall(r"`((?:vlagent|benchmarks|accept|docs|configs)/[\w./-]*)`", README.read_text()):
        assert os.path.exists(README.parent / name), name  # noqa: PTH110
