"""Options such as `--mix a=0.5,b=0.5`."""

from __future__ import annotations

from vlagent.errors import UserError


def shares(text: str, option: str, form: str) -> dict[str, float]:
    """`a=0.2,b=0.1` as a table. Raises `UserError` that names the option and how to write it."""
    table = {}
    for word in filter(None, text.split(",")):
        name, _, share = word.partition("=")
        try:
            table[name] = float(share)
        except ValueError:
            raise UserError(f"{option} {word}: write it as {form}") from None
    return table
