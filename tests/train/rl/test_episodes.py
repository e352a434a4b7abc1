from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.rl import world as parts
from vlagent.model.load import load_policy
from vlagent.search.base import SearchServices
from vlagent.train.rl import episodes


def test_the_searches_of_a_run_are_closed_with_it(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("search")

    monkeypatch.setattr(episodes, "open_services", lambda _: SearchServices(closers=[close]))
    parts.write_rows(tmp_path / "rows.jsonl", parts.make_questions(tmp_path))
    run = episodes.Episodes(
        parts.config(tmp_path, tmp_path / "run"), tmp_path / "run", load_policy(tiny), lambda: False
    )
    assert closed == []
    run.close()
    assert closed == ["search"]
