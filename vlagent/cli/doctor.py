"""`vlagent doctor`: what is installed, reachable and missing, and the fix. Keys are only said to be set or not."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path
from typing import Any, Literal

from rich.text import Text

from vlagent.cli.terminal import clean, console_for
from vlagent.errors import PermanentError, ServiceError, UserError
from vlagent.version import VERSION

HELP = "what is installed, reachable, missing, and the fix"
KEYS = (
    "VLAGENT_API_KEY",
    "OPENAI_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "SERPER_API_KEY",
)
EXTRAS = {
    "train": ("supervised and reinforcement training", ("torch", "transformers", "accelerate", "peft", "trl")),
    "ocr": ("the tool `ocr`", ("rapidocr", "onnxruntime")),
    "dev": ("tests and checks", ("pytest", "ruff", "mypy", "playwright")),
}
MARKS = {"ok": ("✓", "green"), "absent": ("–", "dim"), "bad": ("✗", "red")}


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis."""

    state: Literal["ok", "absent", "bad"]
    """`absent`: optional and not there; `bad`: it must work and does not."""
    what: str
    detail: str
    fix: str = ""
    code: int = 2
    """Exit code where it is bad."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `doctor`."""
    parser.add_argument("--base-url", help="also try this endpoint")
    parser.add_argument("--search", type=Path, metavar="DIR", help="also check this index")


def run(args: argparse.Namespace) -> int:
    """Print the diagnosis; 0 if all that is needed works."""
    findings = list(diagnose(args.base_url, args.search))
    console = console_for(sys.stdout)
    for each in findings:
        mark, style = MARKS[each.state]
        console.print(Text.assemble((mark, style), f" {each.what:<18} {clean(each.detail)}"))
        if each.fix:
            console.print(Text(f"    → {clean(each.fix)}", style="yellow"))
    return max((each.code for each in findings if each.state == "bad"), default=0)


def diagnose(base_url: str | None = None, search: Path | None = None) -> Iterable[Finding]:
    """Every finding, what must work first."""
    yield _python()
    yield _core()
    yield _formats()
    yield _fonts()
    yield _writable(Path.cwd())
    yield from (_extra(name, use, modules) for name, (use, modules) in EXTRAS.items())
    yield _chromium()
    yield from (_key(name) for name in KEYS)
    yield _endpoint(base_url) if base_url else Finding("absent", "endpoint", "not tried", "doctor --base-url URL")
    yield _index(search) if search else Finding("absent", "search index", "not tried", "doctor --search DIR")


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Finding("ok" if good else "bad", "python", f"{found}, vlagent {VERSION}", "" if good else "use 3.11 or up")


def _core() -> Finding:
    try:
        lines = [line for line in requires("vlagent") or [] if "extra ==" not in line]
    except PackageNotFoundError:
        return Finding("bad", "core packages", "vlagent is not installed", "pip install -e .")
    names = [re.match(r"[A-Za-z0-9._-]+", line)[0] for line in lines]  # type: ignore[index]
    missing = [name for name in names if not _installed(name)]
    if missing:
        return Finding("bad", "core packages", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    if broken := [f"{name} ({why})" for name in names if (why := _why_unusable(name))]:
        return Finding("bad", "core packages", f"cannot be used: {'; '.join(broken)}", "make setup, in a new .venv")
    return Finding("ok", "core packages", f"all {len(names)} installed")


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _why_unusable(name: str) -> str:
    """What stops an installed package from being imported, such as a package that it needs in turn; mostly nothing."""
    for module in modules_of(name):
        try:
            importlib.import_module(module)
        except ImportError as error:
            return str(error).splitlines()[0]
    return ""


def modules_of(name: str) -> list[str]:
    """The public modules of an installed distribution; packaging spells `a_b` and `a-b` alike."""
    return [
        module
        for module, owners in _owners().items()
        if _plain(name) in map(_plain, owners) and module.isidentifier() and not module.startswith("_")
    ]


@cache
def _owners() -> Mapping[str, list[str]]:
    return packages_distributions()


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _formats() -> Finding:
    from PIL import features

    codecs = {"JPEG": "jpg", "JPEG 2000": "jpg_2000", "WebP": "webp", "AVIF": "avif", "TIFF": "libtiff"}
    has: list[str] = [name for name, codec in codecs.items() if features.check(codec)]
    has += ["HEIC"] if importlib.util.find_spec("pi_heif") else []
    lacks = [name for name in (*codecs, "HEIC") if name not in has]
    if "JPEG" in lacks:
        return Finding("bad", "picture formats", "Pillow has no JPEG", "pip install --force-reinstall pillow")
    return Finding("ok", "picture formats", ", ".join(has) + (f" (not {', '.join(lacks)})" if lacks else ""))


def _fonts() -> Finding:
    from PIL import ImageFont
    from PIL.ImageFont import FreeTypeFont

    good = isinstance(ImageFont.load_default(16), FreeTypeFont)
    fix = "" if good else "pip install --force-reinstall pillow (a build with FreeType)"
    return Finding("ok" if good else "bad", "fonts", "Pillow's own" if good else "Pillow lacks FreeType", fix)


def _writable(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free / 1e9
    if not os.access(folder, os.W_OK):
        return Finding("bad", "run folders", f"{folder} cannot be written", "work in another folder, or pass --run DIR")
    return Finding("ok", "run folders", f"{folder / 'runs'}, {free:.1f} GB free")


def _extra(name: str, use: str, modules: tuple[str, ...]) -> Finding:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    fix = f"pip install 'vlagent[{name}]'" if missing else ""
    detail = f"for {use}" + (f"; missing: {', '.join(missing)}" if missing else "")
    return Finding("absent" if missing else "ok", f"extra [{name}]", detail, fix)


def _chromium() -> Finding:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    fix = "" if found else "apt-get install chromium"
    return Finding("ok" if found else "absent", "chromium", found or "only the page's own tests need it", fix)


def _key(name: str) -> Finding:
    there = bool(os.environ.get(name, "").strip())
    return Finding("ok" if there else "absent", name, "set" if there else "not set")


def _tried(what: str, attempt: Callable[[], str], fix: str) -> Finding:
    try:
        return Finding("ok", what, attempt())
    except UserError as error:
        return Finding("bad", what, str(error))
    except ServiceError as error:
        return Finding("bad", what, str(error), fix, code=3)


def _endpoint(base_url: str) -> Finding:
    from vlagent.cli.endpoint import served_models

    def attempt() -> str:
        names = served_models(base_url)
        return f"{base_url} serves {', '.join(names[:8]) or 'no model'}" + (", ..." if len(names) > 8 else "")

    return _tried("endpoint", attempt, "start the server, check the address (it often ends in /v1) and the key")


def _index(folder: Path) -> Finding:
    def attempt() -> str:
        from vlagent.search.open import open_search

        services = open_search(folder, published=False)
        kinds: dict[str, Any] = {"passage": services.text, "picture": services.images}
        sizes = {name: len(service) for name, service in kinds.items() if service is not None}
        if not any(sizes.values()):
            raise PermanentError(str(folder), "an index with nothing in it")
        return f"{folder} has {' and '.join(f'{size:,} {name}' for name, size in sizes.items())}"

    return _tried("search index", attempt, "make it again: vlagent index text|images SRC... DIR")
