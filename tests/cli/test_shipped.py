"""Checkpoints in this process: by folder, by shipped name, and as the default where neither model nor endpoint is."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlagent.agent.config import AgentConfig
from vlagent.chat.base import Sampling
from vlagent.cli import shipped
from vlagent.cli.main import main
from vlagent.cli.models import name_or_default, open_model
from vlagent.cli.shipped import settings_of
from vlagent.errors import UserError
from vlagent.files import read_json, write_json
from vlagent.render.sizing import LIMITS

pytest.importorskip("torch", reason="models in this process need the extra [train]")
pytestmark = pytest.mark.torch
SETTINGS = AgentConfig(
    pixels=LIMITS["tiny"],
    tools=("image_crop", "text_search", "image_search"),
    top_k=1,
    max_turns=2,
    max_tokens_turn=8,
    max_tokens_total=4000,
    sampling=Sampling(temperature=1.0),
)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of shipped checkpoints that holds one random tiny model."""
    from vlagent.model.tiny import PROTOCOL_PIECES, TinySpec, make_policy

    folder = tmp_path_factory.mktemp("checkpoints")
    make_policy(TinySpec(pieces=PROTOCOL_PIECES), seed=0).save(folder / "rl")
    write_json(folder / "rl" / shipped.SETTINGS, SETTINGS)
    return folder


@pytest.fixture
def in_package(checkpoints: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(shipped, "CHECKPOINTS", checkpoints)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_shipped_model_is_used_and_named_where_nothing_else_is(
    in_package: Path, capsys: pytest.CaptureFixture
) -> None:
    assert name_or_default(None, None) == "shipped:rl"
    assert "shipped:rl" in capsys.readouterr().err
    assert name_or_default("mine", None) == "mine"
    assert name_or_default(None, "http://127.0.0.1:1/v1") is None
    assert capsys.readouterr().err == ""


def test_without_torch_the_message_says_how_to_get_it(in_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"vlagent\[train\]"):
        name_or_default(None, None)


@pytest.mark.parametrize(("name", "said"), [("shipped:nope", "shipped:rl"), ("local:nowhere", "config.json")])
def test_a_checkpoint_that_is_not_there_is_one_line(in_package: Path, name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        shipped.folder_of(name)


def test_eval_runs_a_folder_with_its_own_settings_unless_others_are_given(in_package: Path, checkpoints: Path) -> None:
    assert main(["toy", "make", "world", "--seed", "5", "--per-kind", "1", "--splits", "test", "--short-prompt"]) == 0
    words = ["eval", "world/manifest.json", "--search", "world/test/search", "--model", f"local:{checkpoints}/rl"]
    assert main([*words, "--run", "own"]) == 0
    assert main([*words, "--run", "given", "--temperature", "0.5", "--max-turns", "1"]) == 0
    own, given = (read_json(Path(run) / "config.json")["agent"] for run in ("own", "given"))
    assert (own["max_tokens_turn"], own["top_k"], own["sampling"]["temperature"], own["max_turns"]) == (8, 1, 1.0, 2)
    assert (given["max_tokens_turn"], given["sampling"]["temperature"], given["max_turns"]) == (8, 0.5, 1)
    counts = read_json(Path("own") / "summary.json")["counts"]
    assert counts["right"] + counts["wrong"] + counts["unscored"] + counts["failed"] == counts["total"] == 5


def test_the_demo_lets_it_play_in_three_workflows_and_with_broken_tools(
    in_package: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["demo", "--per-kind", "1", "--folder", "demo"]) == 0
    said = capsys.readouterr().out
    assert "shipped:rl plays" in said
    for run, workflow in (("direct", "direct"), ("rag", "rag"), ("agent", "agent"), ("control", "agent")):
        assert run in said
        summary = read_json(Path("demo") / run / "summary.json")
        assert (summary["workflow"], summary["counts"]["total"], summary["counts"]["failed"]) == (workflow, 5, 0)


def test_the_demo_can_be_scripted_all_the_same(in_package: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["demo", "--per-kind", "1", "--folder", "demo", "--scripted"]) == 0
    assert "Scripted policies play" in capsys.readouterr().out


@pytest.mark.parametrize("content", ['{"max_turns": ', "[]", '{"max_turns": "many"}', '{"sampling": 3}', '{"odd": 1}'])
def test_broken_settings_beside_a_checkpoint_are_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "agent.json").write_text(content)
    with pytest.raises(UserError, match=r"agent\.json") as error:
        settings_of(f"local:{tmp_path}")
    assert "\n" not in str(error.value)


def test_a_checkpoint_without_settings_brings_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert settings_of(f"local:{tmp_path}") == {}


def test_an_endpoint_and_a_model_in_this_process_are_not_both_given(in_package: Path) -> None:
    with pytest.raises(UserError, match="--base-url http://x"):
        name_or_default("shipped:rl", "http://x")
    with pytest.raises(UserError, match="--base-url http://x"):
        name_or_default(f"local:{in_package}", "http://x")


def test_native_tool_calls_are_refused_before_anything_is_counted_as_wrong(in_package: Path) -> None:
    with pytest.raises(UserError, match="text dialect"):
        open_model("shipped:rl", dialect="openai-tools")
