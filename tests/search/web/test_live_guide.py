"""The configurations of docs/guides/live_search.md are valid."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from vlagent.search.live_config import LiveConfig

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "live_search.md"


def test_every_configuration_of_the_guide_is_valid() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        LiveConfig.model_validate(tomllib.loads(block))


def test_a_cache_can_be_switched_off() -> None:
    assert LiveConfig.model_validate(tomllib.loads("cache = false")).cache is None
