"""Exact arithmetic. The expression is read as syntax and never run as code; size and depth are bounded."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import ClassVar

from pydantic import Field

from vlagent.errors import ToolInputError
from vlagent.tools.base import Arguments, ToolContext, ToolOutput

Number = int | float

MAX_CHARACTERS = 500
MAX_DEPTH = 60
MAX_BITS = 4096
"""Of a whole number; also bounds the time, since every operation on such numbers is quick."""

_OPERATORS: dict[type[ast.AST], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SIGNS: dict[type[ast.AST], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_ONE: dict[str, Callable[[Number], Number]] = {
    name: getattr(math, name) for name in ("sqrt", "exp", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan")
} | {"abs": abs, "floor": math.floor, "ceil": math.ceil, "radians": math.radians, "degrees": math.degrees}
_MANY: dict[str, Callable[..., Number]] = {"min": min, "max": max, "log": math.log, "hypot": math.hypot}
_SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "π": "pi"})


class CalculatorArguments(Arguments):
    """One expression."""

    expression: str = Field(
        min_length=1,
        max_length=MAX_CHARACTERS,
        description="Numbers, + - * / // % ** ( ), and sqrt, abs, round, min, max, sum, log, exp, sin, ...; pi, e.",
    )


class Calculator:
    """Arithmetic with whole numbers of any usual size and decimals."""

    name: ClassVar[str] = "calculator"
    description: ClassVar[str] = "Work out an arithmetic expression exactly."
    arguments: ClassVar[type[Arguments]] = CalculatorArguments

    async def run(self, arguments: CalculatorArguments, context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Raises `ToolInputError` for what is no arithmetic or too big."""
        return ToolOutput(text=f"{arguments.expression.strip()} = {_text(calculate(arguments.expression))}")


def calculate(expression: str) -> Number:
    """The value of an arithmetic expression; `^` means power. Raises `ToolInputError`."""
    if len(expression) > MAX_CHARACTERS:
        raise ToolInputError(f"the expression is over {MAX_CHARACTERS} characters.")
    try:
        tree = ast.parse(expression.translate(_SPELLINGS).strip(), mode="eval")
        return _value(tree.body, 0)
    except ZeroDivisionError:
        raise ToolInputError("division by zero.") from None
    except OverflowError:
        raise ToolInputError("the result is too big.") from None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ToolInputError(
            f"{expression.strip()!r} is not arithmetic that can be worked out ({_why(error)})."
        ) from None


def _value(node: ast.AST, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise ToolInputError("the expression is nested too deeply.")
    if isinstance(node, ast.Constant):
        return _bounded(_number(node.value))
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_value(node.operand, depth + 1))
    if isinstance(node, ast.BinOp):
        return _bounded(_combined(node.op, _value(node.left, depth + 1), _value(node.right, depth + 1)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _bounded(_called(node.func.id, [_value(part, depth + 1) for part in node.args]))
    raise ToolInputError(f"{ast.unparse(node)[:60]!r} is not allowed: only numbers, operators and functions are.")


def _number(value: object) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolInputError(f"{value!r} is not a number.")
    return value


def _combined(kind: ast.AST, left: Number, right: Number) -> Number:
    if isinstance(kind, ast.Pow | ast.BitXor):
        return _power(left, right)
    if type(kind) not in _OPERATORS:
        raise ToolInputError(f"the operator {type(kind).__name__} is not allowed; use + - * / // % **.")
    return _OPERATORS[type(kind)](left, right)


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > 2 * MAX_BITS:
        if base not in (0, 1, -1):
            raise OverflowError
        exponent = exponent % 2 if base == -1 else min(abs(exponent), 1) * (1 if exponent >= 0 else -1)
    power = base**exponent
    if isinstance(power, complex):
        raise ToolInputError("a root of a negative number is not real.")
    return _number(power)


def _called(name: str, values: list[Number]) -> Number:
    if name in _ONE and len(values) == 1:
        return _ONE[name](values[0])
    if name in _MANY and values:
        return _MANY[name](*values)
    if name == "sum":
        return sum(values)
    if name == "round" and 1 <= len(values) <= 2:
        return round(values[0], _digits(values[1])) if len(values) == 2 else round(values[0])
    if name == "factorial" and len(values) == 1 and isinstance(values[0], int) and 0 <= values[0] <= 400:
        return math.factorial(values[0])
    raise ToolInputError(f"{name!r} with {len(values)} such values is not a function here.")


def _digits(value: Number) -> int:
    if not isinstance(value, int) or abs(value) > 30:
        raise ToolInputError(f"{value} is no number of digits to round to.")
    return value


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise OverflowError
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError
    return value


def _text(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"


def _why(error: Exception) -> str:
    return " ".join(str(getattr(error, "msg", "") or error).split()) or type(error).__name__
