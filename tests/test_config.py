"""A broken configuration is one line that names the file, whatever is wrong with it."""

import pytest

from vlagent.bench.config import EvalConfig
from vlagent.config import load_config
from vlagent.errors import UserError


@pytest.mark.parametrize("content", [b"x = ", b"\xff", b"x = " + b"[" * 99_999, b"x = " + b"9" * 5000, b"\0"])
def test_a_file_that_is_no_toml_is_named(tmp_path, content):
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"run\.toml: not TOML"):
        load_config(EvalConfig, path)


def test_a_folder_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(UserError, match="is a directory"):
        load_config(EvalConfig, tmp_path)
    with pytest.raises(UserError, match="no such configuration file"):
        load_config(EvalConfig, tmp_path / "gone.toml")


@pytest.mark.parametrize("text", ["target=" + "[" * 99_999, "target=a b\nc = 1", "target='x"])
def test_an_override_that_is_no_toml_is_a_text(text):
    config = load_config(EvalConfig, None, [text])
    assert config.target == text.partition("=")[2]


def test_a_mistake_names_its_value_where_that_can_be_read(tmp_path):
    with pytest.raises(UserError, match=r"^k = 0: "):
        load_config(EvalConfig, None, ["target=a", "k=0"])
    with pytest.raises(UserError, match=r"^limits: ") as caught:
        load_config(EvalConfig, None, ["target=a", "limits=[" + "1, " * 60 + "1]"])
    assert len(str(caught.value)) < 100
