"""`vlagent.ask` from Python: what it opens it closes."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import vlagent
from vlagent import api
from vlagent.chat.scripted import Scripted
from vlagent.errors import UserError
from vlagent.search.base import SearchServices


@pytest.mark.parametrize("picture", ["photo.png", "none.png"])
async def test_ask_closes_the_searches_that_it_opened(
    picture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("search")

    monkeypatch.setattr(api, "open_search", lambda *_, **__: SearchServices(closers=[close]))
    Image.new("RGB", (64, 64)).save(tmp_path / "photo.png")
    model = Scripted(["<think>I see.</think><answer>black</answer>"])
    if picture == "none.png":
        with pytest.raises(UserError, match="none"):
            await vlagent.ask_async([tmp_path / picture], "Which colour?", model, search="live.toml")
    else:
        assert (await vlagent.ask_async([tmp_path / picture], "Which colour?", model, search="live.toml")).answer
    assert closed == ["search"]
