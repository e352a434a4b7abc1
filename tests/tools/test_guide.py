"""The guide says what the example holds, and its code runs as it stands, with the example installed as a package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "add_a_tool.md"
EXAMPLE = ROOT / "examples" / "add_a_tool"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_guide_shows_the_example_as_it_is() -> None:
    assert blocks("python")[0] == (EXAMPLE / "vlagent_colour.py").read_text()
    assert blocks("toml") == [(EXAMPLE / "pyproject.toml").read_text()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("guide")
    for path in EXAMPLE.glob("*.*"):
        (folder / path.name).write_bytes(path.read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(folder)], check=True, capture_output=True, timeout=120)
    return folder / "site"


def test_the_code_of_the_guide_prints_what_the_guide_says(installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "guide.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(installed)!r})\n" + "\n".join(blocks("python")[1:]))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(blocks("text"))


def test_a_tool_that_says_what_is_missing_is_refused_at_the_start() -> None:
    from vlagent.search.base import SearchServices
    from vlagent.tools.registry import Needy

    scope: dict[str, type] = {"SearchServices": SearchServices}
    exec(blocks("python")[-1], scope)
    tool = scope["LatestNews"]()
    assert isinstance(tool, Needy)
    assert tool.missing(SearchServices()) == "there is no text index; give one with --search"
