"""Bring a published set from a hub into a data folder, in the layout in which it is published.

Rows come by split through `datasets` (a picture stays the bytes that were published); sets that are files come as
files. A folder that is laid out like a hub (FOLDER/OWNER/NAME/...) serves as one, for machines without a network.
"""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from vlagent.errors import AuthError, PermanentError, TransientError, UserError
from vlagent.files import sha256_of, write_json
from vlagent.types import Record

RECORD = "fetched.json"
INSTALL = "fetching needs the package datasets: pip install 'datasets>=3.0'"


class Fetched(Record):
    """What was fetched, kept beside the files."""

    version: Literal[1] = 1
    repo: str
    revision: str | None
    """The commit that was fetched; None of a local folder."""
    date: str
    rows: int | None
    """Of a split; None where files were fetched."""
    files: dict[str, str]
    """Path below the folder -> SHA-256."""


@dataclass(frozen=True)
class Wanted:
    """What to fetch: the rows of a split, or files as they are."""

    repo: str
    config: str | None = None
    split: str | None = None
    target: str = ""
    """The file below the folder that rows are written to."""
    files: Sequence[str] = ()
    """Globs."""


def fetch(wanted: Wanted, folder: Path, *, hub: Path | None = None, revision: str | None = None) -> Fetched:
    """Fetch into a folder, anew if it holds the files already.

    `hub` is a folder that stands for the hub. Raises `UserError` where the hub has no such set, or `datasets` is
    missing, and `ServiceError` where it cannot be reached or refuses.
    """
    if hub is not None and not (hub / wanted.repo).is_dir():
        raise UserError(f"{hub / wanted.repo}: no such folder; a local hub has OWNER/NAME folders")
    folder.mkdir(parents=True, exist_ok=True)
    commit = None if hub else _commit_of(wanted.repo, revision)
    rows = None
    if wanted.split is not None:
        rows, files = _fetch_rows(wanted, folder, hub, commit)
    else:
        files = _copy_files(wanted, folder, hub) if hub else _download_files(wanted, folder, commit)
    record = Fetched(
        repo=wanted.repo,
        revision=commit,
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        rows=rows,
        files={name: sha256_of(folder / name) for name in sorted(files)},
    )
    write_json(folder / RECORD, record)
    return record


def _fetch_rows(wanted: Wanted, folder: Path, hub: Path | None, commit: str | None) -> tuple[int, list[str]]:
    datasets = _module("datasets")
    source = str(hub / wanted.repo) if hub else wanted.repo
    with _named_failures(wanted.repo):
        table = datasets.load_dataset(
            source, wanted.config, split=wanted.split, revision=commit, cache_dir=str(folder / ".cache")
        )
    table = _with_bytes(table, datasets)
    path = folder / wanted.target
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    table.to_parquet(str(part))
    rows = len(table)
    del table
    part.replace(path)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return rows, [wanted.target]


def _with_bytes(table: Any, datasets: ModuleType) -> Any:
    """The same rows with pictures as they were published: decoding and encoding them anew would change them."""
    for name, feature in table.features.items():
        inner = getattr(feature, "feature", feature)
        if isinstance(inner, datasets.Image):
            raw = datasets.Image(decode=False)
            table = table.cast_column(name, raw if inner is feature else datasets.Sequence(raw))
    return table


def _copy_files(wanted: Wanted, folder: Path, hub: Path) -> list[str]:
    root = hub / wanted.repo
    found = sorted({path for pattern in wanted.files for path in root.glob(pattern) if path.is_file()})
    _refuse_nothing(found, wanted)
    for path in found:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return [str(path.relative_to(root)) for path in found]


def _download_files(wanted: Wanted, folder: Path, commit: str | None) -> list[str]:
    hub = _module("huggingface_hub")
    with _named_failures(wanted.repo):
        hub.snapshot_download(
            wanted.repo, repo_type="dataset", revision=commit, allow_patterns=list(wanted.files), local_dir=str(folder)
        )
    found = [path for pattern in wanted.files for path in folder.glob(pattern) if path.is_file()]
    _refuse_nothing(found, wanted)
    return sorted({str(path.relative_to(folder)) for path in found})


def _refuse_nothing(found: Sequence[Path], wanted: Wanted) -> None:
    if not found:
        raise UserError(f"{wanted.repo}: it holds none of {', '.join(wanted.files)}")


def _commit_of(repo: str, revision: str | None) -> str:
    """The commit behind a branch or tag, so that what is fetched has a name that stays."""
    hub = _module("huggingface_hub")
    with _named_failures(repo):
        return str(hub.HfApi().dataset_info(repo, revision=revision).sha)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(INSTALL) from None


@contextmanager
def _named_failures(repo: str) -> Iterator[None]:
    """The hub's failures in our own terms, each in one line."""
    hub, ours = _module("huggingface_hub.errors"), _module("datasets.exceptions")
    absent = (hub.RepositoryNotFoundError, hub.RevisionNotFoundError, ours.DatasetNotFoundError)
    try:
        yield
    except hub.GatedRepoError as error:
        raise AuthError("hub", f"{repo} is gated: accept its terms on the hub and set HF_TOKEN") from error
    except absent as error:
        raise UserError(
            f"{repo}: the hub has no such data set or revision, or it is private ({_line(error)})"
        ) from None
    except ValueError as error:  # an unknown split or configuration
        raise UserError(f"{repo}: {_line(error)}") from None
    except ours.DatasetsError as error:
        raise PermanentError("hub", f"{repo} cannot be fetched ({_line(error)})") from error
    except (OSError, _transport_error()) as error:
        said = f"{repo} cannot be fetched ({_line(error)}); fetch it elsewhere and copy its files"
        raise TransientError("hub", said) from error


def _transport_error() -> type[Exception]:
    """What the hub's own HTTP client raises; which client that is depends on the hub's release."""
    client = type(_module("huggingface_hub.utils").get_session()).__module__.partition(".")[0]
    found: type[Exception] = _module(client).HTTPError
    return found


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
