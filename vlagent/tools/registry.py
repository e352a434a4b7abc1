"""Tools by name: ours, and those that other packages bring by the entry-point group `vlagent.tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from vlagent.errors import UserError
from vlagent.plugins import loaded, plugins
from vlagent.search.base import SearchServices
from vlagent.tools.base import Arguments, Tool
from vlagent.tools.calculator import Calculator
from vlagent.tools.image_crop import ImageCrop
from vlagent.tools.image_search import ImageSearch
from vlagent.tools.ocr import Ocr
from vlagent.tools.table import Table
from vlagent.tools.text_search import TextSearch

GROUP = "vlagent.tools"
TOOLS: dict[str, type] = {
    "image_crop": ImageCrop,
    "text_search": TextSearch,
    "image_search": ImageSearch,
    "calculator": Calculator,
    "table": Table,
    "ocr": Ocr,
}


@runtime_checkable
class Needy(Protocol):
    """A tool that works only with some search service or extra."""

    def missing(self, search: SearchServices) -> str | None:
        """What is missing and how to get it, in one line; None when the tool can work."""
        ...


def tool_names() -> list[str]:
    """Every tool that can be asked for."""
    return [*TOOLS, *sorted(set(plugins(GROUP)) - set(TOOLS))]


def make_tools(
    names: Sequence[str],
    *,
    search: SearchServices | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Tool]:
    """Make the tools of a run, in the order of their names.

    `options` are constructor arguments by tool (`{"ocr": {"min_confidence": 0.8}}`). With `search`, a tool that could
    not work in this run is refused now and not in mid-run. Raises `UserError`.
    """
    tools = {name: _made(name, (options or {}).get(name, {})) for name in names}
    for name, tool in tools.items():
        lack = tool.missing(search) if search is not None and isinstance(tool, Needy) else None
        if lack:
            raise UserError(f"tool {name!r} cannot work: {lack}")
    return tools


def _made(name: str, options: Mapping[str, Any]) -> Tool:
    kind = TOOLS.get(name) or _plugin(name)
    try:
        tool: Tool = kind(**options)
    except TypeError as error:
        raise UserError(f"tool {name!r}: {error}") from error
    return tool


def _plugin(name: str) -> type:
    found = plugins(GROUP).get(name)
    if found is None:
        raise UserError(f"tool {name!r}: no such tool; there are {', '.join(tool_names())}")
    kind = loaded(f"tool {name!r}", found)
    _check(name, kind)
    return kind  # type: ignore[no-any-return]


def _check(name: str, kind: Any) -> None:
    """A tool of another package must be what `tools.base.Tool` says."""
    arguments = getattr(kind, "arguments", None)
    if getattr(kind, "name", None) != name or not callable(getattr(kind, "run", None)):
        raise UserError(f"tool {name!r}: {kind!r} needs the attribute name = {name!r} and a method run")
    if not (isinstance(arguments, type) and issubclass(arguments, Arguments)) or not getattr(kind, "description", ""):
        raise UserError(f"tool {name!r}: {kind!r} needs a description and arguments, of kind tools.base.Arguments")
