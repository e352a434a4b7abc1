"""`vlagent demo`: the whole chain on a small toy world."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Cli
from vlagent.files import read_json
from vlagent.report.cards import read_run


def test_the_demo_shows_that_the_oracle_is_right_and_guessing_is_not(cli: Cli) -> None:
    done = cli("demo", "--per-kind", "2", "--folder", "demo")
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
