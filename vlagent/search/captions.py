"""What a picture is called: a side file first, then what the file says about itself, then its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from PIL import Image, IptcImagePlugin, UnidentifiedImageError

from vlagent.errors import UserError
from vlagent.files import iter_jsonl
from vlagent.search.documents import file_title
from vlagent.search.passages import clean
from vlagent.search.picture_store import Caption

SIDE_FILE = "titles.jsonl"
"""Lies beside the pictures: {"file", "title", "url"?, "text"?} a line, `file` relative to it."""
_CAMERA = re.compile(
    r"olympus|sony dsc|dcim|digital camera|minolta|kodak|samsung|\bdsc\w*\d|^img\w*\d|^screenshot$|^untitled",
    re.IGNORECASE,
)
_DESCRIPTION = 0x010E


class Captions:
    """Captions by file. Raises UserError for a broken side file."""

    def __init__(self, side_file: Path | None = None) -> None:
        self._named = _read(side_file) if side_file else {}
        self._seen: set[Path] = set()

    def of(self, file: str) -> Caption:
        """The caption of a picture, by its real path."""
        named = self.named(file)
        if named:
            return named
        own = _embedded(file)
        return Caption(own[:200], own if len(own) > 200 else "") if own else Caption(file_title(file))

    def named(self, file: str) -> Caption | None:
        """The caption that a side file gives, if one does."""
        folder = Path(file).parent
        if folder not in self._seen:
            self._seen.add(folder)
            if (folder / SIDE_FILE).is_file():
                self._named = _read(folder / SIDE_FILE) | self._named
        return self._named.get(file)


def _read(side_file: Path) -> dict[str, Caption]:
    captions = {}
    for number, row in enumerate(iter_jsonl(side_file), 1):
        if not isinstance(row.get("file"), str) or not isinstance(row.get("title"), str):
            raise UserError(f'{side_file}:{number}: "file" and "title" are needed')
        file = str((side_file.parent / row["file"]).resolve())
        captions[file] = Caption(_line(row["title"]), str(row.get("text") or ""), row.get("url"))
    return captions


def _embedded(file: str) -> str:
    """IPTC headline or caption, EXIF description, PNG title; nothing where a camera has left its own name."""
    try:
        with Image.open(file) as picture:
            candidates = [*_iptc(picture), picture.getexif().get(_DESCRIPTION)]
            candidates += [picture.info.get(key) for key in ("Title", "Description")]
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, TypeError, Image.DecompressionBombError):
        return ""
    lines = (_line(text) for text in candidates if isinstance(text, str))
    return next((line for line in lines if re.search(r"\w{3}", line) and not _CAMERA.search(line)), "")


def _iptc(picture: Any) -> list[str]:
    fields = IptcImagePlugin.getiptcinfo(picture) or {}
    values = [fields.get(key) for key in ((2, 105), (2, 5), (2, 120))]
    return [value.decode("utf-8", "replace") for value in values if isinstance(value, bytes)]


def _line(text: str) -> str:
    return " ".join(clean(text).split())
