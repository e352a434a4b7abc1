"""A search folder to search services."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from vlagent.errors import UserError
from vlagent.search.base import ImageSearch, SearchServices, TextSearch
from vlagent.search.cache.tape import Tape
from vlagent.search.cached import CachedImages
from vlagent.search.retrieval import PassageSearch
from vlagent.search.summary import ExtractiveSummariser
from vlagent.search.walk import MARKER, shown

Retrieval = Literal["auto", "lexical", "dense", "hybrid"]
"""By words, by vectors, or both; `auto` is by words where there is an index of them, else by vectors."""


class TextIndexes(TextSearch, PassageSearch, Protocol):
    """One query at a time for the agent, many at once for training."""


def open_search(
    folder: Path | None,
    *,
    top_k: int = 5,
    published: bool = True,
    retrieval: Retrieval = "auto",
    tape: Tape | None = None,
) -> SearchServices:
    """What `vlagent index text|dense|images|... SOURCE... FOLDER` made, or a TOML of `LiveConfig`, ready to use.

    A `tape` records or replays the live web; folders are read as they are.
    With `published`, an image search that comes with a sample wins over the index, with at most `top_k` hits; without
    a folder it is the only one. Raises UserError if the folder holds no index, or one of another release.
    """
    if folder is not None and folder.suffix == ".toml":
        from vlagent.search.live import open_live_file

        return open_live_file(folder, top_k=top_k, published=published, tape=tape)
    summariser = ExtractiveSummariser()
    if folder is None:
        return SearchServices(images=CachedImages(top_k=top_k) if published else None, summariser=summariser)
    parts = [part for part in (*TEXT, *IMAGES) if _has(folder, part)]
    if not parts:
        what = "no index in it" if folder.is_dir() else "no such folder"
        raise UserError(f"{shown(folder)}: {what}; make one: vlagent index text SOURCE... {shown(folder)}")
    pictures = _open_images(folder)
    return SearchServices(
        text=open_passages(folder, retrieval) if any(part in TEXT for part in parts) else None,
        images=CachedImages(pictures, top_k=top_k) if published else pictures,
        summariser=summariser,
    )


def open_passages(folder: Path, retrieval: Retrieval = "auto") -> TextIndexes:
    """The passages of a search folder, for single queries and for `retrieval.retrieve`.

    Raises UserError if the folder lacks an index that `retrieval` asks for.
    """
    lexical = "text" if _has(folder, "text") else None
    dense = next((part for part in ("dense", "search-r1") if _has(folder, part)), None)
    wanted = {"auto": [lexical or dense], "lexical": [lexical], "dense": [dense], "hybrid": [lexical, dense]}[retrieval]
    if None in wanted:
        missing = "text" if lexical is None else "dense"
        raise UserError(
            f"{shown(folder)}: retrieval {retrieval} needs an index that is not there; make it: "
            f"vlagent index {missing} SOURCE... {shown(folder)}"
        )
    opened = [TEXT[part](folder / part) for part in wanted if part]
    if len(opened) == 1:
        return opened[0]
    from vlagent.search.hybrid import HybridIndex

    return HybridIndex(opened)


def _has(folder: Path, part: str) -> bool:
    return (folder / part / MARKER).exists()


def _open_images(folder: Path) -> ImageSearch | None:
    """The same picture first, then what looks alike, where there are both."""
    opened = [IMAGES[part](folder / part) for part in IMAGES if _has(folder, part)]
    if len(opened) < 2:
        return opened[0] if opened else None
    from vlagent.search.semantic import InTurn

    return InTurn(opened)


def _open_lexical(folder: Path) -> TextIndexes:
    from vlagent.search.text_index import TextIndex

    return TextIndex(folder)


def _open_dense(folder: Path) -> TextIndexes:
    from vlagent.search.dense_index import DenseIndex

    return DenseIndex(folder)


def _open_search_r1(folder: Path) -> TextIndexes:
    from vlagent.search.corpus_formats import SearchR1Index

    return SearchR1Index(folder)


def _open_pictures(folder: Path) -> ImageSearch:
    from vlagent.search.picture_index import PictureIndex

    return PictureIndex(folder)


def _open_semantic(folder: Path) -> ImageSearch:
    from vlagent.search.semantic import SemanticIndex

    return SemanticIndex(folder)


TEXT: dict[str, Callable[[Path], TextIndexes]] = {
    "text": _open_lexical,
    "dense": _open_dense,
    "search-r1": _open_search_r1,
}
"""Sub-folder of a search folder -> how it is opened."""
IMAGES: dict[str, Callable[[Path], ImageSearch]] = {"images": _open_pictures, "semantic": _open_semantic}
