"""A search folder to search services."""

from __future__ import annotations

from pathlib import Path

from vlagent.errors import UserError
from vlagent.search.base import SearchServices
from vlagent.search.cached import CachedImages
from vlagent.search.summary import ExtractiveSummariser
from vlagent.search.walk import MARKER, shown


def open_search(folder: Path | None, *, top_k: int = 5, published: bool = True) -> SearchServices:
    """What `vlagent index text|images SOURCE... FOLDER` made, ready to be searched.

    With `published`, an image search that comes with a sample wins over the index, with at most `top_k` hits; without
    a folder it is the only one. Raises UserError if the folder holds neither index, or one of another release.
    """
    summariser = ExtractiveSummariser()
    if folder is None:
        return SearchServices(images=CachedImages(top_k=top_k) if published else None, summariser=summariser)
    has_text, has_images = (folder / "text" / MARKER).exists(), (folder / "images" / MARKER).exists()
    if not (has_text or has_images):
        what = "no index in it" if folder.is_dir() else "no such folder"
        raise UserError(f"{shown(folder)}: {what}; make one: vlagent index text SOURCE... {shown(folder)}")
    from vlagent.search.picture_index import PictureIndex
    from vlagent.search.text_index import TextIndex

    pictures = PictureIndex(folder / "images") if has_images else None
    return SearchServices(
        text=TextIndex(folder / "text") if has_text else None,
        images=CachedImages(pictures, top_k=top_k) if published else pictures,
        summariser=summariser,
    )
