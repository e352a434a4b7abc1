"""Questions about things in coloured pictures, and a world in which only looking and searching answers them.

A picture is grey but for its lower right corner, whose colour is the thing's. Perception asks for the option with that
colour; knowledge asks for the name that the passage about that colour and number gives.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image

PALETTE = {
    "red": (220, 30, 30),
    "green": (30, 170, 60),
    "blue": (40, 70, 220),
    "yellow": (230, 210, 40),
    "purple": (140, 50, 170),
}
NAMES = ("Aldon Reach", "Birmal Hill", "Corvan Lake", "Dunrick Hall", "Estley Moor", "Farnor Weir", "Galdon Pass")


@dataclass(frozen=True)
class Item:
    """One question, and what is planted in it."""

    number: int
    colour: str
    plant: str = "right"
    """right, alias (only a judge accepts it), lie (the passage, or the label, is wrong), missing (nothing answers it),
    both (two options are stated), mute (the judge gives no verdict), down (the model's endpoint fails)."""

    @property
    def question(self) -> str:
        return f"What is thing {self.number}?"

    @property
    def name(self) -> str:
        """The truth of a knowledge question."""
        return NAMES[self.number % len(NAMES)]

    @property
    def said(self) -> str | None:
        """What the passage says; None where there is no passage."""
        given = {"alias": f"{self.name}, also known as The Old One", "mute": "Something Unclear", "lie": "Nowhere"}
        return None if self.plant == "missing" else given.get(self.plant, self.name)

    @property
    def options(self) -> dict[str, str]:
        """Letter -> colour, five of them; the right one is A, B or C, so that four suffice too."""
        colours = [colour for colour in PALETTE if colour != self.colour]
        colours.insert(self.number % 3, self.colour)
        return dict(zip("ABCDE", colours, strict=True))

    @property
    def letter(self) -> str:
        """The label of a perception question; that of a lie is the next option."""
        letters = "".join(self.options)
        place = list(self.options.values()).index(self.colour)
        return letters[(place + 1) % len(letters)] if self.plant == "lie" else letters[place]

    def png(self) -> bytes:
        image = Image.new("RGB", (160, 120), (128, 128, 128 + self.number % 100))
        image.paste(PALETTE[self.colour], (120, 90, 160, 120))
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return buffer.getvalue()


def items(plants: str) -> list[Item]:
    """Items with these plants, by their first letters: r, a, l, x (missing), b, m, d."""
    names = {"r": "right", "a": "alias", "l": "lie", "x": "missing", "b": "both", "m": "mute", "d": "down"}
    colours = list(PALETTE)
    return [Item(n, colours[(n * 2) % len(colours)], names[letter]) for n, letter in enumerate(plants)]


KNOWLEDGE = items("rrralxmdr")
PERCEPTION = items("rrrlbdr")
EXPECTED = {
    "knowledge": {"right": 5, "wrong": 2, "unscored": 1, "failed": 1},
    "perception": {"right": 4, "wrong": 2, "unscored": 0, "failed": 1},
}
"""Outcomes of one rollout, counted by hand from the plants."""
