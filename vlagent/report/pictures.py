"""Pictures of a page: thumbnails as data URLs, each stored once however often it is shown."""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path

from vlagent.errors import ServiceError, UserError
from vlagent.images import load
from vlagent.types import ImageRef

FOLDER = "report"
"""Of a run: its page, where that is a folder."""
QUALITY = 80
"""Of a thumbnail; the crops of an `ask` run lie in its images/ without loss."""


@dataclass
class PictureStore:
    """Key -> data URL. A picture that cannot be read any more has no key."""

    folder: Path
    side: int
    """Longest side of an input picture in pixels; others get half of it."""
    limit: int = 4000
    """Later pictures are left out, so that a page of a huge run still opens."""
    urls: dict[str, str] = field(default_factory=dict)

    def key(self, picture: ImageRef, *, small: bool = False) -> str | None:
        """Store a picture; None if it is gone or the page is full."""
        side = self.side // 2 if small else self.side
        name = f"{picture.path}|{picture.box}|{side}"
        key = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
        if key in self.urls:
            return key
        raw = self._thumbnail(picture, side) if len(self.urls) < self.limit else None
        if raw is None:
            return None
        self.urls[key] = self._keep(key, raw)
        return key

    def _keep(self, key: str, raw: bytes) -> str:  # noqa: ARG002
        return "data:image/jpeg;base64," + base64.b64encode(raw).decode()

    def _thumbnail(self, picture: ImageRef, side: int) -> bytes | None:
        scale = min(1.0, side / max(picture.width, picture.height))
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        try:
            image = load(self._found(picture), size)
        except (ServiceError, UserError):
            return None
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=QUALITY, optimize=True)
        return buffer.getvalue()

    def _found(self, picture: ImageRef) -> ImageRef:
        """A picture of the run folder is found there, wherever the folder has been moved."""
        path = Path(picture.path)
        places = (path, self.folder / path, self.folder / "images" / path.name)
        found = next((place for place in places if place.exists()), path)
        return picture.model_copy(update={"path": str(found)})


@dataclass
class PictureFolder(PictureStore):
    """Key -> address of a small file, for pages that are a folder."""

    limit: int = 10**9

    def _keep(self, key: str, raw: bytes) -> str:
        path = self.place / key[:2] / f"{key}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        return f"pictures/{key[:2]}/{key}.jpg"

    @property
    def place(self) -> Path:
        """Where the files lie."""
        return self.folder / FOLDER / "pictures"
