"""Where text and pictures stand in a message. A picture's slot is an `ImagePart`, never text."""

from __future__ import annotations

from collections.abc import Sequence

from vlagent.chat.base import ImagePart, Part, TextPart
from vlagent.types import Hit

SEARCH_HEADING = "Reverse Image Search Results:"
"""Label of the released form."""


def one_line(text: str) -> str:
    """White space of any kind as single spaces."""
    return " ".join(text.split())


def numbered(images: Sequence[ImagePart], numbers: Sequence[int | None], notes: Sequence[str] = ()) -> list[Part]:
    """Each picture after a line that says its number: `Image 2 (result 1): <picture>`."""
    parts: list[Part] = []
    for at, (image, number) in enumerate(zip(images, numbers, strict=True)):
        note = f" ({notes[at]})" if at < len(notes) else ""
        parts += [TextPart(f"\nImage {number}{note}: "), image]
    return parts


def unnumbered(images: Sequence[ImagePart]) -> list[Part]:
    """Each picture on a line of its own."""
    return [part for image in images for part in (TextPart("\n"), image)]


def interleaved(hits: Sequence[Hit], titles: Sequence[str], images: Sequence[ImagePart]) -> list[Part]:
    """The released form of an image search; a hit without a thumbnail keeps its title and shifts nothing."""
    parts: list[Part] = [TextPart(SEARCH_HEADING)]
    shown = thumbnails_of(hits, images)
    for at, title in enumerate(titles):
        parts.append(TextPart(f"\n\nTitle {at + 1}: {title}"))
        if (image := shown[at]) is not None:
            parts += [TextPart(f"\nThumbnail {at + 1}: "), image]
    rest = images[sum(image is not None for image in shown) :]
    return parts + unnumbered(rest)


def thumbnails_of(hits: Sequence[Hit], images: Sequence[ImagePart]) -> list[ImagePart | None]:
    """The picture of each hit: the pictures come in the order of the hits that have one."""
    waiting = list(images)
    shown: list[ImagePart | None] = []
    by_place = sum(hit.thumbnail is not None for hit in hits) == len(waiting)
    for hit in hits:
        fits = waiting and hit.thumbnail is not None and (by_place or waiting[0].ref == hit.thumbnail)
        shown.append(waiting.pop(0) if fits else None)
    return shown


def joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbouring texts as one part; empty ones left out."""
    out: list[Part] = []
    for part in parts:
        if isinstance(part, TextPart) and out and isinstance(out[-1], TextPart):
            out[-1] = TextPart(out[-1].text + part.text)
        elif not isinstance(part, TextPart) or part.text:
            out.append(part)
    return tuple(out)
