"""Tools by name; what cannot work is refused at the start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.tools.worlds import Album, Shelf
from vlagent.errors import UserError
from vlagent.search.base import SearchServices
from vlagent.tools.base import Arguments
from vlagent.tools.registry import TOOLS, make_tools, tool_names

PLUGIN = """
from vlagent.tools.base import Arguments, ToolOutput

class Nothing(Arguments):
    pass

class Echo:
    name, description, arguments = "echo", "Says it again.", Nothing
    def __init__(self, times=1):
        self.times = times
    async def run(self, arguments, context):
        return ToolOutput(text="again " * self.times)

class Nameless:
    pass
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugged.py").write_text(PLUGIN)
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    points = "echo = plugged:Echo\nbad = plugged:Nameless\ngone = plugged:Gone\nlost = nowhere:X\n"
    (info / "entry_points.txt").write_text(f"[vlagent.tools]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plugged", raising=False)


def test_every_tool_of_ours_says_what_it_is() -> None:
    for name, tool in make_tools(list(TOOLS)).items():
        assert tool.name == name
        assert tool.description.endswith(".")
        assert issubclass(tool.arguments, Arguments)
        assert all(field.description for field in tool.arguments.model_fields.values())


def test_tools_come_in_the_order_of_their_names() -> None:
    assert list(make_tools(["calculator", "image_crop"])) == ["calculator", "image_crop"]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="tool 'telescope': no such tool; there are image_crop, text_search"):
        make_tools(["image_crop", "telescope"])


def test_a_search_without_its_service_is_refused_at_the_start() -> None:
    everything = ["image_crop", "text_search", "image_search"]
    full = SearchServices(text=Shelf(), images=Album())
    assert list(make_tools(everything, search=full)) == everything
    with pytest.raises(UserError, match="tool 'text_search' cannot work: there is no text index"):
        make_tools(everything, search=SearchServices(images=Album()))
    with pytest.raises(UserError, match="tool 'image_search' cannot work: there is no picture index"):
        make_tools(everything, search=SearchServices(text=Shelf()))


@pytest.mark.usefixtures("plugin")
def test_another_packages_tool_is_found_by_its_entry_point() -> None:
    assert "echo" in tool_names()
    assert make_tools(["echo"])["echo"].description == "Says it again."


@pytest.mark.usefixtures("plugin")
async def test_options_reach_the_tool() -> None:
    said = [
        (await make_tools(["echo"], options=options)["echo"].run(None, None)).text  # type: ignore[arg-type]
        for options in ({}, {"echo": {"times": 3}})
    ]
    assert said == ["again ", "again again again "]
    with pytest.raises(UserError, match=r"tool 'echo'.*loud"):
        make_tools(["echo"], options={"echo": {"loud": True}})


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("name", "why"), [("bad", "needs the attribute"), ("gone", "cannot be loaded"), ("lost", "cannot be loaded")]
)
def test_a_broken_tool_of_another_package_is_named(name: str, why: str) -> None:
    with pytest.raises(UserError, match=rf"tool '{name}'.*{why}"):
        make_tools([name])
