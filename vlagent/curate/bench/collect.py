"""Stage 1: pictures from folders, lists, feeds, sitemaps and pages, each with its date, licence and source."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from PIL import Image

from vlagent.curate.bench.config import write_default
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.records import Picture, Refused
from vlagent.curate.bench.sources import Lead, iso_date, parse_list, parse_page, parse_xml
from vlagent.curate.bench.web import Unlicensed, Web, is_web
from vlagent.errors import PermanentError, ServiceError, UserError
from vlagent.files import append_jsonl, only_writer, write_atomic
from vlagent.images import probe
from vlagent.images.sources import DAMAGED
from vlagent.search.pages.encoding import decoded
from vlagent.search.pages.fetch import Fetched

SUFFIXES = {
    "JPEG": "jpg", "MPO": "jpg", "PNG": "png", "WEBP": "webp", "TIFF": "tif", "GIF": "gif", "BMP": "bmp",
    "HEIF": "heic", "AVIF": "avif", "JPEG2000": "jp2",
}  # fmt: skip
PICTURES = frozenset([*SUFFIXES.values(), "jpeg", "tiff", "heif"])
MOST_XML = 50_000_000
"""Bytes of a sitemap, as its protocol limits it."""
TAKEN, EXIF = 0x9003, 0x8769
"""EXIF tags: when a picture was taken, and the block that says so."""


@dataclass(frozen=True)
class Given:
    """What the user says of the sources, where they do not say it themselves."""

    licence: str = ""
    date: str = ""
    again: bool = False
    """Ask refused sources again, after a change of the rules."""


@dataclass
class Collected:
    """The end of a collection."""

    new: int = 0
    known: int = 0
    """Sources that an earlier call had settled."""
    refused: dict[str, str] = field(default_factory=dict)
    """Source -> why; by this call."""
    failed: dict[str, str] = field(default_factory=dict)
    """Source -> failure of the service; asked again by the next call."""


async def collect(
    bench: Bench,
    sources: Sequence[str],
    given: Given | None = None,
    *,
    web: Web | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Collected:
    """Take what the sources hold and the folder has not. `web` stands for the network in tests.

    `tell` hears (sources settled, sources known of so far). Raises `UserError` for a source that is not there.
    """
    with only_writer(bench.folder):
        write_default(bench.folder)
        work = _Work(bench, given or Given(), web or Web(bench.config.collect))
        try:
            await work.run([lead for source in sources for lead in _leads(source)], tell)
        finally:
            await work.web.aclose()
        return work.end


def _leads(source: str) -> list[Lead]:
    """A web address, the pictures of a folder, one picture, or the lines of a file."""
    if is_web(source):
        return [Lead(source)]
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        return [Lead(str(file.absolute())) for file in files if file.suffix.lower().lstrip(".") in PICTURES]
    if not path.is_file():
        raise UserError(f"{source}: no such file or folder; a web address begins with https://")
    if path.suffix.lower().lstrip(".") in PICTURES:
        return [Lead(str(path.absolute()))]
    data = path.read_bytes()
    named = parse_xml(data, path.absolute().as_uri()) if data.lstrip().startswith(b"<") else None
    if named is not None:
        return named
    return [_beside(lead, path) for lead in parse_list(decoded(data), source)]


def _beside(lead: Lead, listed_in: Path) -> Lead:
    """Files of a list lie beside it."""
    if is_web(lead.address):
        return lead
    return replace(lead, address=str((listed_in.parent / lead.address).absolute()))


@dataclass
class _Work:
    bench: Bench
    given: Given
    web: Web
    end: Collected = field(default_factory=Collected)

    def __post_init__(self) -> None:
        self.pictures = self.bench.pictures()
        refused = {} if self.given.again else self.bench.refused()
        self.settled = {each.source for each in self.pictures.values()} | set(refused)
        self.settled |= {each.page for each in self.pictures.values() if each.page}
        self.most = self.bench.config.collect.most

    async def run(self, leads: Sequence[Lead], tell: Callable[[int, int], None] | None) -> None:
        waiting, seen, done = deque(leads), {lead.address for lead in leads}, 0
        while waiting:
            lead = waiting.popleft()
            for found in await self._settle(lead):
                if found.address not in seen:
                    seen.add(found.address)
                    waiting.append(found)
            done += 1
            if tell:
                tell(done, len(seen))

    async def _settle(self, lead: Lead) -> list[Lead]:
        """Take a picture, or return what a page, a feed or a sitemap names."""
        if lead.address in self.settled:
            self.end.known += 1
            return []
        try:
            return await self._taken(lead) if is_web(lead.address) else self._copied(lead)
        except (PermanentError, UserError) as error:
            self._refuse(lead.address, str(error))
        except ServiceError as error:
            self.end.failed[lead.address] = str(error)
        return []

    def _copied(self, lead: Lead) -> list[Lead]:
        path = Path(lead.address)
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        self._keep(path.read_bytes(), self._own(lead))
        return []

    def _own(self, lead: Lead) -> Lead:
        """What the user said fills what the source does not say."""
        if self.given.licence and not lead.licence:
            lead = replace(lead, licence=self.given.licence, licence_from="--licence")
        if self.given.date and not lead.date:
            lead = replace(lead, date=self.given.date, date_from="--date")
        return lead

    async def _taken(self, lead: Lead) -> list[Lead]:
        own = self._own(lead)
        if lead.kind == "picture":
            own = self._licensed(own)  # before anything is asked of the site
        answer = await self.web.get(lead.address)
        if _is_picture(answer):
            self._keep(answer.data, self._licensed(own))
            return []
        if lead.kind == "picture":
            raise PermanentError("collect", f"no picture but {answer.content_type or 'something else'}")
        return self._named(answer, lead)

    def _licensed(self, lead: Lead) -> Lead:
        licence, origin = self.web.licence_of(lead)
        return replace(lead, licence=licence, licence_from=origin)

    def _named(self, answer: Fetched, lead: Lead) -> list[Lead]:
        data = _unpacked(answer.data)
        if "html" not in answer.content_type and data.lstrip().startswith(b"<"):
            found = parse_xml(data, answer.url)
            if found is not None:
                return [each for each in found if is_web(each.address)][: self.most]
        page = parse_page(decoded(answer.data, answer.charset), lead, answer.url)
        if page.reserved and not self.web.permits(answer.url):
            raise PermanentError("collect", "the page asks that its pictures are not used")
        if page.lead is None or not is_web(page.lead.address):
            raise PermanentError("collect", "neither a picture, nor a feed, a sitemap or a page with a main picture")
        try:
            return [self._licensed(self._own(page.lead))]
        except Unlicensed as error:
            self._refuse(lead.address, str(error))
            return []

    def _keep(self, data: bytes, lead: Lead) -> None:
        """The file, then its record: a record never lacks its file."""
        digest = hashlib.sha256(data).hexdigest()[:12]
        if digest in self.pictures:
            self._refuse(lead.address, f"the same file as {self.pictures[digest].source}")
            return
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            ref = probe(file.name)
            suffix, taken = _format_and_date(Path(file.name))
        if taken and not lead.date:
            lead = replace(lead, date=taken, date_from="exif")
        name = f"pictures/{digest}.{suffix}"
        write_atomic(self.bench.folder / name, data)
        picture = Picture(id=digest, file=name, width=ref.width, height=ref.height, **_facts(lead))
        append_jsonl(self.bench.folder / "pictures.jsonl", picture)
        self.pictures[digest] = picture
        self.settled |= {lead.address}
        self.end.new += 1

    def _refuse(self, source: str, why: str) -> None:
        why = why.removeprefix("collect: ").removeprefix("page: ")
        append_jsonl(self.bench.folder / "refused.jsonl", Refused(source=source, why=why))
        self.settled.add(source)
        self.end.refused[source] = why


def _unpacked(data: bytes) -> bytes:
    """The content of a .gz, which sitemaps often are; never more than `MOST_XML`."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return zlib.decompressobj(31).decompress(data, MOST_XML)
    except zlib.error:
        return data


def _facts(lead: Lead) -> dict[str, str]:
    names = ("page", "title", "date", "date_from", "licence", "licence_from")
    return {"source": lead.address, **{name: getattr(lead, name) for name in names}}


def _is_picture(answer: Fetched) -> bool:
    magic = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"II*\0", b"MM\0*", b"BM")
    return answer.content_type.startswith("image/") or answer.data.startswith(magic)


def _format_and_date(path: Path) -> tuple[str, str]:
    """The suffix that a file should have, and the day that its EXIF block says it was taken on."""
    try:
        with Image.open(path) as image:
            taken = image.getexif().get_ifd(EXIF).get(TAKEN, "")
            return SUFFIXES.get(image.format or "", "img"), iso_date(str(taken))
    except DAMAGED:
        return "tif", ""  # read by `probe` but not by Pillow: a TIFF of an unusual kind


def collect_now(bench: Bench, sources: Sequence[str], given: Given, tell: Callable[[int, int], None]) -> Collected:
    """`collect` for plain code."""
    return asyncio.run(collect(bench, sources, given, tell=tell))
