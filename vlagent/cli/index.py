"""`vlagent index KIND SRC... DIR`: make or refresh a search folder."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vlagent.errors import UserError

HELP = "index a folder of documents or pictures, or a dump of a wiki"
EPILOG = """kinds:
  text       documents, searched by their words
  dense      the same documents, searched by vectors (pip install 'vlagent[dense]')
  wiki       a MediaWiki dump (pages-articles.xml.bz2) as passages of about 100 words, searched by their words
  search-r1  Search-R1's formatted_wiki.jsonl and its faiss index, used where they are
  images     pictures, the same one found in any size, crop or colour
  semantic   pictures of the same kind of thing, by CLIP or SigLIP2 (pip install 'vlagent[dense,train]')

examples:
  vlagent index text ~/papers ~/notes.md search
  vlagent index images ~/photos search
  vlagent index dense ~/papers search --embedder intfloat/e5-base-v2
  vlagent index wiki enwiki-latest-pages-articles-multistream.xml.bz2 wikipedia --shards 8
  vlagent index search-r1 formatted_wiki.jsonl e5_Flat.index wiki18
  vlagent ask photo.jpg "Which tower is this?" --search search

A second run does only what is new, changed or deleted; a run that was stopped goes on where it was."""
KINDS = ("text", "dense", "wiki", "search-r1", "images", "semantic")
EACH_S = 10.0
"""Seconds between two lines of progress where there is no terminal."""
OPTIONS: dict[str, tuple[str, ...]] = {
    "skip": ("text", "dense", "images", "semantic"),
    "passage_words": ("text", "dense", "wiki"),
    "max_mb": ("text", "dense"),
    "shards": ("text", "wiki"),
    "embedder": ("dense", "search-r1"),
    "vectors": ("dense", "semantic"),
    "model": ("semantic",),
    "titles": ("images", "semantic"),
    "workers": ("wiki",),
    "namespaces": ("wiki",),
}
"""Option -> the kinds that it is for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("kind", choices=KINDS, help="what to index")
    parser.add_argument("paths", nargs="+", metavar="SRC... DIR", help="folders or files, then the search folder")
    parser.add_argument("--rebuild", action="store_true", help="start anew instead of refreshing what is there")
    parser.add_argument("--skip", action="append", metavar="GLOB", help="leave out names or paths (repeat)")
    parser.add_argument(
        "--passage-words", type=int, metavar="N", help="text, dense: the most words of a passage (180); wiki: (100)"
    )
    parser.add_argument("--max-mb", type=float, metavar="MB", help="text, dense: list larger files as unreadable (100)")
    parser.add_argument("--shards", type=int, metavar="N", help="text, wiki: parts written and searched at once (1)")
    parser.add_argument("--embedder", metavar="NAME", help="dense: `static`, or a sentence-transformers model")
    parser.add_argument(
        "--vectors", choices=("flat", "ivf-sq8", "ivf-rabitq"), help="dense, semantic: how they are kept (ivf-sq8)"
    )
    parser.add_argument("--model", metavar="NAME", help="semantic: a CLIP or SigLIP2 model of transformers")
    parser.add_argument(
        "--titles", type=Path, metavar="FILE", help='images: {"file", "title", "url"?} a line, files relative to it'
    )
    parser.add_argument("--workers", type=int, metavar="N", help="wiki: processes that clean markup (cores less one)")
    parser.add_argument("--namespaces", metavar="N,N", help="wiki: of the pages that are taken (0: articles)")


def run(args: argparse.Namespace) -> int:
    """Index, then say what was done and list what could not be read. Unreadable files are not an error."""
    if len(args.paths) < 2:
        raise UserError(f"index {args.kind} {args.paths[0]}: give the sources, then the search folder to write")
    *sources, folder = [_place(path) for path in args.paths]
    if folder.is_file():
        raise UserError(f"{folder}: the last argument is the search folder to write, this is a file")
    given = _given(args)
    for name in ("pypdf", "trafilatura", "charset_normalizer"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    INDEXERS[args.kind](sources, folder, given, args.rebuild)
    return 0


def _place(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"{path}: no user of this name is known here; write the folder out, or ./{path}") from None


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """The options that were given. UserError for one that is not for this kind."""
    given = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    for name in given:
        if args.kind not in OPTIONS[name]:
            kinds = "pictures; documents carry their own titles" if name == "titles" else " and ".join(OPTIONS[name])
            raise UserError(f"--{name.replace('_', '-')}: only for {kinds}")
    if "skip" in given:
        given["skip"] = tuple(given["skip"])
    return given


def _text(sources: list[Path], folder: Path, given: dict[str, Any], rebuild: bool) -> None:
    from vlagent.search.text_build import TextOptions, index_text

    with _progress() as progress:
        report = index_text(sources, folder, TextOptions(**given), rebuild=rebuild, progress=progress)
    _print(report, f"{report.parts} passages of {report.files} files", folder / "text")


def _dense(sources: list[Path], folder: Path, given: dict[str, Any], rebuild: bool) -> None:
    from vlagent.search.dense_build import DenseOptions, index_dense

    options = DenseOptions(**_renamed(given))
    with _progress() as progress:
        report = index_dense(sources, folder, options, rebuild=rebuild, progress=progress)
    _print(report, f"{report.parts} passages of {report.files} files", folder / "dense")


def _images(sources: list[Path], folder: Path, given: dict[str, Any], rebuild: bool) -> None:
    from vlagent.search.picture_build import PictureOptions, index_images

    with _progress() as progress:
        report = index_images(sources, folder, PictureOptions(**given), rebuild=rebuild, progress=progress)
    _print(report, f"{report.files} pictures", folder / "images")


def _semantic(sources: list[Path], folder: Path, given: dict[str, Any], rebuild: bool) -> None:
    from vlagent.search.semantic import SemanticOptions, index_semantic

    options = SemanticOptions(**_renamed(given))
    with _progress() as progress:
        report = index_semantic(sources, folder, options, rebuild=rebuild, progress=progress)
    _print(report, f"{report.files} pictures", folder / "semantic")


def _search_r1(sources: list[Path], folder: Path, given: dict[str, Any], rebuild: bool) -> None:
    from vlagent.search.corpus_formats import link_search_r1

    if len(sources) != 2:
        raise UserError("index search-r1: give the corpus (.jsonl), its faiss index, then the search folder to write")
    count = link_search_r1(sources[0], sources[1], folder, rebuild=rebuild, **given)
    print(f"{folder / 'search-r1'}: {count} passages, used where they are")


def _wiki(sources: list[Path], folder: Path, given: dict[str, Any], rebuild: bool) -> None:
    from vlagent.search.wiki.build import WikiOptions, index_wiki

    if len(sources) != 1:
        raise UserError(f"index wiki: one dump is expected, these are {len(sources)}")
    options = WikiOptions(**_wiki_options(given))
    with _dump_progress() as progress, _progress(at_once=False) as indexing:
        report = index_wiki(sources[0], folder, options, rebuild=rebuild, progress=progress, index_progress=indexing)
    done = f"{report.pages} pages and {report.redirects} redirects became {report.passages} passages"
    print(f"{folder}: {done} in {report.seconds:.1f} s")


INDEXERS: dict[str, Callable[[list[Path], Path, dict[str, Any], bool], None]] = {
    "text": _text,
    "dense": _dense,
    "wiki": _wiki,
    "search-r1": _search_r1,
    "images": _images,
    "semantic": _semantic,
}


def _renamed(given: dict[str, Any]) -> dict[str, Any]:
    return {"kind" if name == "vectors" else name: value for name, value in given.items()}


def _wiki_options(given: dict[str, Any]) -> dict[str, Any]:
    options = {"words" if name == "passage_words" else name: value for name, value in given.items()}
    if "namespaces" in options:
        numbers = options["namespaces"].split(",")
        if not all(number.strip().lstrip("-").isdigit() for number in numbers):
            raise UserError(f"--namespaces {options['namespaces']}: numbers such as 0 or 0,14 are expected")
        options["namespaces"] = tuple(int(number) for number in numbers)
    return options


@contextmanager
def _progress(*, at_once: bool = True) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on stderr where that is a terminal; from the beginning, or once there is something to tell."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("looking for files", total=None, visible=at_once)

        def tell(done: int, total: int, file: str) -> None:
            bar.update(task, completed=done, total=total, description=escape(Path(file).name), visible=True)

        yield tell


@contextmanager
def _dump_progress() -> Iterator[Callable[[Any], None]]:
    """Share, rate and time left on stderr: one line that changes on a terminal, else a line now and then."""
    from rich.console import Console

    terminal, said = Console(stderr=True).is_terminal, [0.0]

    def tell(now: Any) -> None:
        if terminal or time.monotonic() - said[0] > EACH_S or now.packed_bytes >= now.total_bytes:
            said[0] = time.monotonic()
            print(dump_line(now), end="\r" if terminal else "\n", file=sys.stderr, flush=True)

    yield tell
    if terminal:
        print(file=sys.stderr)


def dump_line(now: Any) -> str:
    """How far the reading of a dump is, in one line."""
    share = 100 * now.packed_bytes / max(now.total_bytes, 1)
    left = "" if now.eta_s is None else f", {_hours(now.eta_s)} left"
    return f"{share:5.1f} % read, {now.pages} pages, {now.passages} passages, {now.pages_per_s:.0f} pages/s{left}   "


def _hours(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _print(report: Any, parts: str, folder: Path) -> None:
    done = ", ".join(
        f"{getattr(report, name)} {name}"
        for name in ("added", "changed", "removed", "unchanged")
        if getattr(report, name)
    )
    print(f"{folder}: {parts} ({done or 'nothing new'}) in {report.seconds:.1f} s")
    if report.skipped:
        ranked = sorted(report.skipped.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{count} {suffix}" for suffix, count in ranked[:8])
        more = f" and {len(ranked) - 8} other kinds" if len(ranked) > 8 else ""
        print(f"Not of a kind that is read: {shown}{more}")
    if report.unreadable:
        print(f"Could not be read, wholly or in part ({len(report.unreadable)}):", file=sys.stderr)
        for file, reason in report.unreadable:
            print(f"  {file}: {reason}", file=sys.stderr)
