"""One call as JSON -> canonical name and arguments: names and numbers of the dialect mapped, small slips mended."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from vlagent.agent.parse_json import WrongCall, read_json
from vlagent.render.dialects import Dialect, ImageKind
from vlagent.render.wire import WireTool
from vlagent.tools.base import Arguments, Tool
from vlagent.types import Call

SLACK = 0.05
"""Coordinates up to 5 % outside the picture are clamped."""
_NUMBER = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,2})?")
_DIGITS = re.compile(r"[+-]?\d{1,9}(?:\.0*)?")


@dataclass
class CallReader:
    """Reads calls of one turn. Every method raises `WrongCall` with the words for the model."""

    dialect: Dialect
    tools: Mapping[str, Tool]
    kinds: Sequence[ImageKind]
    repairs: list[str] = field(default_factory=list)

    def read(self, value: Any) -> tuple[Call, Arguments]:
        """A call in the text form, `{"name": ..., "arguments": {...}}`."""
        if not isinstance(value, dict):
            raise WrongCall("The call is not a JSON object. Write one JSON object with name and arguments.")
        if "name" not in value:
            raise WrongCall(f"The call has no name. {self._offer()}")
        if value.keys() - {"name", "arguments"}:
            self._mend("unknown_key")
        return self.read_parts(value["name"], value.get("arguments"))

    def read_parts(self, name: Any, arguments: Any) -> tuple[Call, Arguments]:
        """A call by its wire name and its arguments, which may be JSON text."""
        canonical = self._canonical_name(name)
        given = self._object(arguments)
        tool, wire = self.tools[canonical], self.dialect.wire(canonical)
        values = self._canonical_values(tool, wire, given)
        checked = self._checked(tool, wire, values)
        return Call(name=canonical, arguments=checked.model_dump(mode="json")), checked

    def _canonical_name(self, name: Any) -> str:
        if not isinstance(name, str):
            raise WrongCall(f"The name of the call is not text. {self._offer()}")
        known = {self.dialect.wire(tool).name: tool for tool in self.tools}
        if name not in known:
            raise WrongCall(f"Unknown tool {quoted(name)}. {self._offer()}")
        return known[name]

    def _offer(self) -> str:
        names = ", ".join(self.dialect.wire(tool).name for tool in self.tools)
        return f"Available tools: {names}." if names else "There are no tools; give the answer."

    def _object(self, arguments: Any) -> dict[str, Any]:
        if isinstance(arguments, str):
            self._mend("arguments")
            arguments = read_json(arguments, self.repairs) if arguments.strip() else None
        if arguments is None:
            self._mend("arguments")
            return {}
        if not isinstance(arguments, dict):
            raise WrongCall("The arguments are not a JSON object.")
        return arguments

    def _canonical_values(self, tool: Tool, wire: WireTool, given: dict[str, Any]) -> dict[str, Any]:
        """Known arguments by their canonical names; unknown ones dropped, boxes and picture numbers mapped."""
        fields = tool.arguments.model_fields
        by_wire = {wire.argument(name): name for name in fields if name not in wire.fixed}
        if given.keys() - by_wire.keys() - wire.extra.keys():
            self._mend("unknown_argument")
        for name in wire.extra:
            if not isinstance(given.get(name), str):
                self._mend(name)
        values = {canonical: given[name] for name, canonical in by_wire.items() if name in given}
        if "bbox" in values:
            values["bbox"] = self._box(wire.argument("bbox"), values["bbox"])
        if "image_index" in fields:
            values["image_index"] = self._picture(wire, values, fields["image_index"].is_required())
        return values

    def _checked(self, tool: Tool, wire: WireTool, values: dict[str, Any]) -> Arguments:
        """Valid by the tool's own schema, strictly or (a repair) leniently."""
        for name, model_field in tool.arguments.model_fields.items():
            if model_field.is_required() and name not in values:
                needed = ", ".join(wire.argument(n) for n in tool.arguments.model_fields if n not in wire.fixed)
                raise WrongCall(f"{wire.name} needs {wire.argument(name)}. Its arguments: {needed}.")
            if isinstance(values.get(name), str) and not values[name].strip():
                raise WrongCall(f"{wire.argument(name)} is empty.")
        _refuse_non_finite({wire.argument(name): value for name, value in values.items()})
        text = json.dumps(values)
        try:
            return tool.arguments.model_validate_json(text, strict=True)
        except ValidationError as error:
            problems = error.errors()
        try:
            lenient = tool.arguments.model_validate_json(text, strict=False)
        except ValidationError as error:
            raise WrongCall(_problem(wire, error)) from None
        for problem in problems:
            self._mend(str(problem["loc"][0]))
            if isinstance(problem["input"], bool):
                raise WrongCall(f"{wire.argument(str(problem['loc'][0]))}: {problem['msg']}.")
        return lenient

    def _picture(self, wire: WireTool, values: dict[str, Any], required: bool) -> int:
        """The canonical index of the picture that a call means."""
        if not self.kinds:
            raise WrongCall(f"{wire.name} needs a picture, and there is none.")
        if "image_index" in wire.fixed:
            return int(wire.fixed["image_index"])
        number = values.get("image_index")
        if number is None:
            if required or "image_index" in values:
                self._mend("image_index")
            return 0
        if isinstance(number, str) and _DIGITS.fullmatch(number.strip()):
            self._mend("image_index")
            number = int(float(number))
        numbers = self.dialect.number(self.kinds)
        if isinstance(number, bool) or not isinstance(number, int) or number not in numbers:
            allowed = ", ".join(str(n) for n in numbers if n is not None)
            raise WrongCall(
                f"{wire.argument('image_index')} = {quoted(number)} is no picture. Numbers so far: {allowed}."
            )
        return numbers.index(number)

    def _box(self, name: str, value: Any) -> list[float]:
        """Four floats 0-1000 with x1 < x2 and y1 < y2."""
        sides = self._four_numbers(name, value)
        full = self.dialect.scale
        if full > 1 and max(sides) <= 1.0:
            raise WrongCall(f"{name} = {_shown(sides)}: coordinates run from 0 to {full:g}, not from 0 to 1.")
        x1, x2 = sorted(sides[0::2])
        y1, y2 = sorted(sides[1::2])
        if x1 == x2 or y1 == y2:
            raise WrongCall(f"{name} = {_shown(sides)} has no area; x1 < x2 and y1 < y2 are needed.")
        low, high = -SLACK * full, (1 + SLACK) * full
        if min(x1, y1) < low or max(x2, y2) > high or min(x2, y2) <= 0 or max(x1, y1) >= full:
            raise WrongCall(f"{name} = {_shown(sides)} is outside the picture; coordinates run from 0 to {full:g}.")
        box = [min(max(side, 0), full) for side in (x1, y1, x2, y2)]
        if box != sides:
            self._mend("bbox")
        return [round(side * 1000.0 / full, 6) for side in box]

    def _four_numbers(self, name: str, value: Any) -> list[float]:
        flat = _flattened(value)
        if flat is not value:
            self._mend("bbox")
        numbers = [self._number(side) for side in flat] if isinstance(flat, list) else []
        if len(numbers) != 4 or None in numbers:
            raise WrongCall(f"{name} = {quoted(value)} is not four numbers [x1, y1, x2, y2].")
        return [number for number in numbers if number is not None]

    def _number(self, side: Any) -> float | None:
        if isinstance(side, str) and _NUMBER.fullmatch(side.strip()):
            self._mend("bbox")
            return float(side)
        if isinstance(side, bool) or not isinstance(side, int | float) or not math.isfinite(side):
            return None
        return float(side)

    def _mend(self, what: str) -> None:
        if what not in self.repairs:
            self.repairs.append(what)


def quoted(value: Any) -> str:
    """What the model wrote, short and on one line, for an error message."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return f"'{text if len(text) <= 60 else text[:57] + '...'}'"


def _flattened(value: Any) -> Any:
    """A box as one list: of text, of corner pairs, of an object with x1 to y2; else the value itself."""
    if isinstance(value, str):
        return re.sub(r"[\[\](),;]", " ", value).split()
    if isinstance(value, dict) and value.keys() == {"x1", "y1", "x2", "y2"}:
        return [value[side] for side in ("x1", "y1", "x2", "y2")]
    if isinstance(value, list) and value and all(isinstance(inner, list) for inner in value):
        return [side for inner in value for side in inner]
    return value


def _refuse_non_finite(values: dict[str, Any]) -> None:
    waiting = list(values.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            raise WrongCall(f"{name} holds {value}, which is not a number.")
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        waiting += [(name, each) for each in inner]


def _problem(wire: WireTool, error: ValidationError) -> str:
    first = error.errors()[0]
    where = wire.argument(str(first["loc"][0])) if first["loc"] else "the arguments"
    return f"{where} = {quoted(first['input'])}: {first['msg']}."


def _shown(sides: Sequence[float]) -> str:
    return "[" + ", ".join(f"{side:g}" for side in sides) + "]"
