"""`vlagent index text|images SRC... DIR`: make or refresh a search folder."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vlagent.errors import UserError

HELP = "index a folder of documents or pictures"
EPILOG = """examples:
  vlagent index text ~/papers ~/notes.md search
  vlagent index images ~/photos search
  vlagent ask photo.jpg "Which tower is this?" --search search

A second run does only what is new, changed or deleted; a run that was stopped goes on where it was."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("kind", choices=("text", "images"), help="what to index")
    parser.add_argument("paths", nargs="+", metavar="SRC... DIR", help="folders or files, then the search folder")
    parser.add_argument("--rebuild", action="store_true", help="start anew instead of refreshing what is there")
    parser.add_argument("--skip", action="append", default=[], metavar="GLOB", help="leave out names or paths (repeat)")
    parser.add_argument("--passage-words", type=int, metavar="N", help="text: the most words of a passage (180)")
    parser.add_argument("--max-mb", type=float, metavar="MB", help="text: list larger files as unreadable (100)")
    parser.add_argument(
        "--titles", type=Path, metavar="FILE", help='images: {"file", "title", "url"?} a line, files relative to it'
    )


def run(args: argparse.Namespace) -> int:
    """Index, then say what was done and list what could not be read. Unreadable files are not an error."""
    if len(args.paths) < 2:
        raise UserError(f"index {args.kind} {args.paths[0]}: give the sources, then the search folder to write")
    sources, folder = [Path(path).expanduser() for path in args.paths[:-1]], Path(args.paths[-1]).expanduser()
    if folder.is_file():
        raise UserError(f"{folder}: the last argument is the search folder to write, this is a file")
    for name in ("pypdf", "trafilatura", "charset_normalizer"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    index = _index_text if args.kind == "text" else _index_images
    with _progress() as progress:
        report = index(args, sources, folder, progress)
    _print(report, args.kind, folder)
    return 0


def _index_text(args: argparse.Namespace, sources: list[Path], folder: Path, progress: Any) -> Any:
    from vlagent.search.text_build import TextOptions, index_text

    if args.titles:
        raise UserError("--titles: only for pictures; documents carry their own titles")
    given = {"passage_words": args.passage_words, "max_mb": args.max_mb, "skip": tuple(args.skip)}
    options = TextOptions(**{key: value for key, value in given.items() if value is not None})
    return index_text(sources, folder, options, rebuild=args.rebuild, progress=progress)


def _index_images(args: argparse.Namespace, sources: list[Path], folder: Path, progress: Any) -> Any:
    from vlagent.search.picture_build import PictureOptions, index_images

    for option in ("passage_words", "max_mb"):
        if getattr(args, option) is not None:
            raise UserError(f"--{option.replace('_', '-')}: only for text")
    options = PictureOptions(titles=args.titles, skip=tuple(args.skip))
    return index_images(sources, folder, options, rebuild=args.rebuild, progress=progress)


@contextmanager
def _progress() -> Iterator[Callable[[int, int, str], None]]:
    """A bar on stderr where that is a terminal, a line now and then where it is not."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("looking for files", total=None)

        def tell(done: int, total: int, file: str) -> None:
            bar.update(task, completed=done, total=total, description=escape(Path(file).name))

        yield tell


def _print(report: Any, kind: str, folder: Path) -> None:
    parts = f"{report.parts} passages of {report.files} files" if kind == "text" else f"{report.files} pictures"
    done = ", ".join(
        f"{getattr(report, name)} {name}"
        for name in ("added", "changed", "removed", "unchanged")
        if getattr(report, name)
    )
    print(f"{folder / kind}: {parts} ({done or 'nothing new'}) in {report.seconds:.1f} s")
    if report.skipped:
        ranked = sorted(report.skipped.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{count} {suffix}" for suffix, count in ranked[:8])
        more = f" and {len(ranked) - 8} other kinds" if len(ranked) > 8 else ""
        print(f"Not of a kind that is read: {shown}{more}")
    if report.unreadable:
        print(f"Could not be read, wholly or in part ({len(report.unreadable)}):", file=sys.stderr)
        for file, reason in report.unreadable:
            print(f"  {file}: {reason}", file=sys.stderr)
