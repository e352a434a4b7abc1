"""A user's own prompts, from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlagent.errors import UserError
from vlagent.render.prompts import Prompts, fill, load_prompts


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    toml = written(tmp_path, "p.toml", 'system = "Be brief. {tools}"\n[tools]\nimage_crop = "Zoom."\n')
    plain = written(tmp_path, "p.json", '{"system": "Be brief. {tools}", "tools": {"image_crop": "Zoom."}}')
    assert load_prompts(toml) == load_prompts(plain)
    assert load_prompts(toml) == Prompts(system="Be brief. {tools}", tools={"image_crop": "Zoom."})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.toml", "system = ", "neither TOML"),
        ("p.json", "{", "neither TOML"),
        ("p.toml", 'sytem = "a"', "sytem: unknown key; known are system, question, tools"),
        ("p.toml", "system = 3", "system: Input should be a valid string"),
        ("p.toml", 'question = "no slot"', "question: the template lacks {question}"),
        ("p.json", "[]", "the file: "),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_key(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(UserError) as error:
        load_prompts(path)
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        load_prompts(tmp_path / "nowhere.toml")


def test_slots_are_filled_once_and_other_braces_stay() -> None:
    template = 'Write {"name": "x"} about {a} and {b}; {c} stays.'
    assert fill(template, a="{b}", b="{a}") == 'Write {"name": "x"} about {b} and {a}; {c} stays.'
