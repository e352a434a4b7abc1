"""`vlagent demo`: the whole chain on a small toy world."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Cli
from vlagent.files import read_json
from vlagent.report.cards import read_run


def test_the_demo_shows_that_the_oracle_is_right_and_guessing_is_not(cli: Cli) -> None:
    done = cli("demo", "--scripted", "--per-kind", "2", "--folder", "demo")
    assert done.returncode == 0, done.stderr
    folder = cli.folder / "demo"
    right = {name: read_json(folder / name / "summary.json")["counts"]["right"] for name in ("oracle", "random")}
    assert right["oracle"] == 10
    assert right["random"] < 5
    for kind in ("read", "fact", "place", "brand", "both", "guess level"):
        assert kind in done.stdout
    pages = [Path(word) for word in done.stdout.split() if word.endswith("report.html")]
    assert len(pages) == 3
    assert all(page.exists() for page in pages)
    crops = [card for card in read_run(folder / "oracle").cards if "image_crop" in card.tools]
    assert crops
    assert all(card.marks_on(card.inputs[0]) for card in crops)


@pytest.mark.torch
def test_the_demo_shows_that_the_shipped_model_needs_its_tools(cli: Cli) -> None:
    pytest.importorskip("torch", reason="models in this process need the extra [train]")
    done = cli("demo", "--per-kind", "3", "--folder", "demo")
    assert done.returncode == 0, done.stderr
    assert "shipped:" in done.stdout
    names = ("direct", "rag", "agent", "control")
    right = {name: read_json(cli.folder / "demo" / name / "summary.json")["counts"]["right"] for name in names}
    assert right["agent"] >= 12
    assert max(right["direct"], right["rag"], right["control"]) <= 5
