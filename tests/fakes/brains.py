"""Brains of the fake endpoint: each computes its line from the text and the pixels that it was sent, nothing else."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw

from tests.fakes.openai_server import Brain, NativeCall

COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 255, 255), (255, 0, 255), (255, 255, 0))
LETTERS = string.ascii_lowercase + string.digits
ROWS = 2

WIRES: dict[str, dict[str, str]] = {
    "image_zoom_in_tool": {"crop": "image_zoom_in_tool", "text": "text_search_tool", "image": "image_search_tool"},
    "crop_image": {"crop": "crop_image", "text": "web_search", "image": "image_search"},
    "image_crop": {"crop": "image_crop", "text": "text_search", "image": "image_search"},
}
"""Tool names of a dialect, found by the name of its crop tool in the prompt."""


def plant_code(photo: Image.Image, word: str, at: tuple[int, int], cell: int) -> Image.Image:
    """Draw a word as a strip of coloured cells: a column a letter, its two digits in base 6 above each other.

    The first column says how many letters follow. A white edge keeps the strip apart from what the photograph shows.
    """
    photo = photo.convert("RGB")
    draw = ImageDraw.Draw(photo)
    columns = LETTERS[len(word)] + word
    edge = (at[0] - 4, at[1] - 4, at[0] + len(columns) * cell + 3, at[1] + ROWS * cell + 3)
    draw.rectangle(edge, fill=(255, 255, 255))
    for column, letter in enumerate(columns):
        for row, digit in enumerate(divmod(LETTERS.index(letter), len(COLOURS))):
            x, y = at[0] + column * cell, at[1] + row * cell
            draw.rectangle((x, y, x + cell - 1, y + cell - 1), fill=COLOURS[digit])
    return photo


def locate_code(view: Image.Image) -> tuple[int, int, int, int] | None:
    """Pixels (left, top, right, bottom) of the strip: the largest full rectangle of at least three pure colours."""
    pixels = np.asarray(view.convert("RGB")).astype(np.int16)
    near = np.abs(pixels[:, :, None, :] - np.array(COLOURS)[None, None]).max(-1) < 110
    pure = cv2.morphologyEx(near.any(-1).astype(np.uint8), cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    _, _, stats, _ = cv2.connectedComponentsWithStats(pure)
    best, best_area = None, 0
    for label, (left, top, width, height, area) in enumerate(stats.tolist()):
        colours = (near[top : top + height, left : left + width].reshape(-1, len(COLOURS)).mean(0) > 0.02).sum()
        if label and area > best_area and area > 0.9 * width * height and colours >= 3:
            best, best_area = (left, top, left + width, top + height), area
    return best


def read_code(crop: Image.Image) -> str:
    """The word of a strip that fills the crop; nonsense where it does not."""
    pixels = np.asarray(crop.convert("RGB")).astype(np.int64)
    likely = max(2, round(ROWS * crop.width / crop.height))
    read = {columns: _columns(pixels, columns) for columns in sorted(range(2, 20), key=lambda n: abs(n - likely))}
    fitting = (text for columns, text in read.items() if LETTERS.index(text[0]) == columns - 1)
    return next(fitting, read.get(likely, "?"))[1:]


def _columns(pixels: np.ndarray, columns: int) -> str:
    text = ""
    for column in range(columns):
        digits = [_digit(pixels, (row + 0.5) / ROWS, (column + 0.5) / columns) for row in range(ROWS)]
        text += LETTERS[min(digits[0] * len(COLOURS) + digits[1], len(LETTERS) - 1)]
    return text


def _digit(pixels: np.ndarray, y: float, x: float) -> int:
    colour = pixels[int(y * pixels.shape[0]), int(x * pixels.shape[1])]
    return int(((np.array(COLOURS) - colour) ** 2).sum(-1).argmin())


def colour_code_brain(skew: float = 0.0) -> Brain:
    """Crops the strip it sees, reads a word in the crop, searches for it and for the photograph, and says both.

    `skew` moves its box by that share of the picture: from 0.02 on it reads another word and answers wrongly.
    """

    def brain(messages: list[dict[str, Any]], images: list[Image.Image], body: dict[str, Any]) -> Any:
        found = observations(messages)
        box = locate_code(images[0])
        if box is None:
            return say(body, "I see no code.", answer="no code")
        if not found:
            return say(body, "There is a strip of colours; I enlarge it.", crop=_per_mille(box, images[0], skew))
        if len(found) == 1:
            word = read_code(images[1]) if len(images) > 1 else "nothing"
            return say(body, f"The strip reads {word}.", text={"query": word})
        if len(found) == 2:
            return say(body, "Now which photograph is this?", image={})
        word = read_code(images[1])
        answer = f"The photograph is {first_title(found[2])}. {sentence_with(found[1], word)}"
        return say(body, "I have the title and the passage.", answer=answer)

    return brain


def _per_mille(box: tuple[int, int, int, int], view: Image.Image, skew: float) -> list[int]:
    scale = (view.width, view.height) * 2
    return [round(1000 * (value / size + skew)) for value, size in zip(box, scale, strict=True)]


def observations(messages: list[dict[str, Any]]) -> list[str]:
    """The text that came back after each assistant message."""
    found: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            found.append("")
        elif found:
            found[-1] += text_of(message)
    return found


def text_of(message: dict[str, Any]) -> str:
    """All text of one message."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or [] if part["type"] == "text")


def first_title(observation: str) -> str:
    """The first title that an image search gave."""
    found = re.search(r"(?:Title\s*1\s*:|^\s*1[.)]|^\s*\[\d+\])\s*(.+)", observation, re.MULTILINE)
    return found[1].split(" (")[0].strip() if found else "unknown"


def sentence_with(observation: str, word: str) -> str:
    """The first line of a text search's results that holds the word; headings of results do not count."""
    lines = [line.strip() for line in observation.splitlines() if not line.lstrip().startswith("[")]
    return next((line for line in lines if word.lower() in line.lower()), "Nothing was found.")


def say(
    body: dict[str, Any],
    think: str,
    *,
    crop: list[int] | None = None,
    text: dict[str, Any] | None = None,
    image: dict[str, Any] | None = None,
    answer: str | None = None,
) -> str | list[NativeCall]:
    """One action in the wire form that the request asks for."""
    if answer is not None:
        return answer if body.get("tools") else f"<think>{think}</think><answer>{answer}</answer>"
    marker, names = _wire(body)
    if crop is not None:
        name, arguments = names["crop"], _crop_arguments(marker, crop)
    elif text is not None:
        name, arguments = names["text"], text
    else:
        name, arguments = names["image"], image or {}
    if body.get("tools"):
        return [NativeCall(name, arguments)]
    tag = "thinking" if marker == "image_zoom_in_tool" else "think"
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<{tag}>{think}</{tag}><tool_call>{call}</tool_call>"


def _wire(body: dict[str, Any]) -> tuple[str, dict[str, str]]:
    prompt = json.dumps(body["messages"][0]) + json.dumps(body.get("tools") or [])
    marker = next((name for name in WIRES if name in prompt), "image_crop")
    return marker, WIRES[marker]


def _crop_arguments(marker: str, box: list[int]) -> dict[str, Any]:
    if marker == "image_zoom_in_tool":
        return {"bbox_2d": box, "label": "strip", "img_idx": 0}
    if marker == "crop_image":
        return {"bbox": [value / 1000 for value in box], "image_index": 1}
    return {"bbox": box, "image_index": 0}


def always(line: str) -> Brain:
    """Says the same line whatever it is sent."""
    return lambda messages, images, body: line


def lines(*said: str) -> Brain:
    """Says one line a turn, counted by the assistant messages so far; the last one again and again."""
    return lambda messages, images, body: said[min(len(observations(messages)), len(said) - 1)]


BRAINS: dict[str, Callable[[], Brain]] = {
    "colour-code": colour_code_brain,
    "colour-code-off": lambda: colour_code_brain(skew=0.02),
    "endless": lambda: always(
        '<think>again</think><tool_call>{"name": "text_search", "arguments": {"query": "x"}}</tool_call>'
    ),
}
