"""What docs/guides/serve.md says is so."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

from tests.cli.test_help import options_of
from vlagent.cli.stack_profiles import PORTS, PROFILES
from vlagent.search.live_config import LiveConfig
from vlagent.search.server.app import PATHS
from vlagent.search.server.options import ServerOptions

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "serve.md").read_text()


def test_every_option_path_and_profile_of_the_guide_exists_and_none_is_left_out() -> None:
    known = {word for action in options_of("serve") for word in action.option_strings if word.startswith("--")}
    elsewhere = {"--search", "--record"}
    assert set(re.findall(r"--[a-z][a-z-]+", GUIDE)) - elsewhere <= known
    assert set(re.findall(r"`(?:POST|GET) (/\w+)`|`GET /stats`, `GET (/\w+)`", GUIDE)) >= {("/search", "")}
    assert all(path in GUIDE for path in PATHS)
    assert all(f"`{profile}`" in GUIDE for profile in PROFILES)
    assert all(str(port) in GUIDE for port in PORTS.values())


def test_the_numbers_of_the_guide_are_the_defaults() -> None:
    for name, value in re.findall(r"`--([a-z-]+)` \((\d+)\)", GUIDE):
        assert getattr(ServerOptions(), name.replace("-", "_")) == int(value)


def test_the_defaults_in_the_help_are_the_defaults() -> None:
    for action in options_of("serve"):
        found = re.search(r"\((\d+)\)$", action.help or "")
        if found and action.dest != "port" and hasattr(ServerOptions(), action.dest):
            assert getattr(ServerOptions(), action.dest) == int(found[1]), action.dest
    assert not any(isinstance(action, argparse._StoreAction) and not action.help for action in options_of("serve"))


def test_its_configuration_is_valid() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    LiveConfig.model_validate(tomllib.loads(block))
