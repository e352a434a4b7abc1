"""What docs/guides/index_your_files.md says is read is read, and its code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vlagent.search.documents import is_document
from vlagent.search.picture_build import SUFFIXES

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "index_your_files.md"
WIKIPEDIA = GUIDE.parent / "index_wikipedia.md"


def suffixes(kind: str) -> set[str]:
    (line,) = re.findall(rf"^\| {kind} \| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    return set(re.findall(r"`(\.\w+)`", line))


def test_every_suffix_that_the_guide_names_is_read() -> None:
    text, pictures = suffixes("text"), suffixes("pictures")
    assert min(len(text), len(pictures)) > 5
    assert all(is_document(f"x{suffix}") for suffix in text)
    assert pictures <= SUFFIXES


@pytest.mark.parametrize("guide", [GUIDE, WIKIPEDIA])
def test_the_code_finds_what_was_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], guide: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("# Arden\n\nThe clock tower is 61 metres high.\n")
    (code,) = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    exec(code, {})
    assert "61 metres" in capsys.readouterr().out
