from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fakes.brains import always
from tests.fakes.openai_server import KEY, FakeOpenAI
from vlagent.cli.doctor import diagnose
from vlagent.cli.endpoint import only_model, served_models
from vlagent.cli.main import main
from vlagent.errors import PermanentError, TransientError, UserError
from vlagent.search.text_build import index_text


def finding(what: str, base_url: str | None = None, search: Path | None = None) -> tuple[str, str]:
    (found,) = [each for each in diagnose(base_url, search) if each.what == what]
    return found.state, found.detail


def test_this_environment_is_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert "core packages" in capsys.readouterr().out


def test_a_key_is_said_to_be_set_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert finding("OPENAI_API_KEY") == ("absent", "not set")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert finding("OPENAI_API_KEY") == ("ok", "set")
    main(["doctor"])
    seen = capsys.readouterr()
    assert "very-secret" not in seen.out + seen.err


def test_a_living_endpoint_is_named_with_its_model() -> None:
    with FakeOpenAI(always("x"), key=None) as server:
        assert finding("endpoint", server.base_url) == ("ok", f"{server.base_url} serves fake-vlm")
        assert only_model(server.base_url) == "fake-vlm"


def test_a_dead_endpoint_is_exit_3_with_the_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--base-url", "http://127.0.0.1:9/v1"]) == 3
    out = capsys.readouterr().out
    assert "cannot connect" in out
    assert "start the server" in out


def test_a_bad_address_or_answer_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(UserError, match="write it as"):
        served_models("ftp://x/v1")
    with pytest.raises(TransientError):
        served_models("http://127.0.0.1:9/v1")
    with FakeOpenAI(always("x")) as server, pytest.raises(PermanentError, match="404"):
        served_models(server.base_url.removesuffix("/v1"))


def test_a_search_folder_is_checked(tmp_path: Path) -> None:
    assert finding("search index", search=tmp_path)[0] == "bad"
    (tmp_path / "note.md").write_text("# Title\nThe bridge opened in 1931.")
    index_text([tmp_path / "note.md"], tmp_path / "search")
    assert finding("search index", search=tmp_path / "search") == ("ok", f"{tmp_path / 'search'} has 1 passage")
    (tmp_path / "note.md").write_text("")
    index_text([tmp_path / "note.md"], tmp_path / "search")
    state, detail = finding("search index", search=tmp_path / "search")
    assert (state, "nothing in it" in detail) == ("bad", True)


def test_a_package_that_is_there_but_cannot_be_imported_is_no_health(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)  # as where a package lacks one that it needs in turn
    state, detail = finding("core packages")
    assert state == "bad"
    assert "trafilatura" in detail


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert finding("run folders")[0] == "bad"
