"""How a dialect writes one tool: names, arguments and schema, canonical on one side, the wire on the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vlagent.render.prompts import ToolSpec


@dataclass(frozen=True, eq=False)
class WireTool:
    """One canonical tool in a dialect's words. A tool that a dialect does not list is written canonically."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Canonical argument -> its name on the wire, where they differ."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Canonical arguments that have no wire form, and the value that they always take."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Required text arguments that exist on the wire only -> their description; they change nothing."""
    description: str = ""
    """In place of the tool's own, where the wire form does less."""

    def argument(self, canonical: str) -> str:
        return self.arguments.get(canonical, canonical)


def describe(spec: ToolSpec, wire: WireTool, about: Mapping[str, str], description: str) -> dict[str, Any]:
    """The tool as an OpenAI-style function schema. `about` describes `bbox` and `image_index` in this dialect."""
    given = spec.schema.get("properties", {})
    properties = {
        wire.argument(name): _argument(name, schema, about) for name, schema in given.items() if name not in wire.fixed
    }
    properties |= {name: {"type": "string", "description": text} for name, text in wire.extra.items()}
    required = [wire.argument(name) for name in spec.schema.get("required", []) if name not in wire.fixed]
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "required": [*required, *wire.extra]}
    if "$defs" in spec.schema:
        parameters["$defs"] = _untitled(spec.schema["$defs"])
    function = {"name": wire.name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _argument(name: str, schema: dict[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    """Boxes and picture numbers mean something else in each dialect, so their schema is written here."""
    if name == "bbox":
        return {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 4,
            "maxItems": 4,
            "description": about["bbox"],
        }
    if name == "image_index":
        return {"type": "integer", "description": about["image_index"]}
    plain: dict[str, Any] = _untitled(schema)
    return plain


def _untitled(schema: Any) -> Any:
    """Without pydantic's generated titles, which tell a model nothing."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: _untitled(v) for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
