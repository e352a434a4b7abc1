"""Stage 1: pictures from folders, lists, feeds, sitemaps and pages, each with its date, licence and source."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections import Counter, deque
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
from vlagent.files import append_jsonl, only_writer, write_atomic, writing
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
    completed: int = 0
    """Pictures that an earlier call took without the licence or the date that is given now."""
    cut: list[str] = field(default_factory=list)
    """Feeds and sitemaps that name more addresses than `collect.most`."""
    empty: list[str] = field(default_factory=list)
    """Those that name none; asked again by the next call."""


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
    leads = [lead for source in sources for lead in _leads(source)]
    with only_writer(bench.folder):
        write_default(bench.folder)
        work = _Work(bench, given or Given(), web or Web(bench.config.collect))
        try:
            await work.run(leads, tell)
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
    data = _bytes_of(path)
    named = parse_xml(data, path.absolute().as_uri()) if data.lstrip().startswith(b"<") else None
    if named is not None:
        return named
    return [_beside(lead, path) for lead in parse_list(decoded(data), source)]


def _beside(lead: Lead, listed_in: Path) -> Lead:
    """Files of a list lie beside it."""
    if is_web(lead.address):
        return lead
    return replace(lead, address=str((listed_in.parent / lead.address).absolute()))


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({(error.strerror or str(error)).lower()})") from None


@dataclass(frozen=True)
class _File:
    """What may be a picture, as it came."""

    data: bytes
    lead: Lead


@dataclass
class _Work:
    bench: Bench
    given: Given
    web: Web
    end: Collected = field(default_factory=Collected)

    def __post_init__(self) -> None:
        self.pictures = self.bench.pictures()
        self.by_source = {each.source: each.id for each in self.pictures.values()}
        refused = {} if self.given.again else self.bench.refused()
        self.settled = {each.source for each in self.pictures.values()} | set(refused)
        self.settled |= {each.page for each in self.pictures.values() if each.page}
        self.most = self.bench.config.collect.most

    async def run(self, leads: Sequence[Lead], tell: Callable[[int, int], None] | None) -> None:
        waiting = deque((lead, lead.address) for lead in leads)
        seen, named, done = {lead.address for lead in leads}, Counter[str](), 0
        while waiting:
            lead, source = waiting.popleft()
            for found in await self._settle(lead):
                if found.address in seen:
                    continue
                if named[source] >= self.most:
                    self.end.cut += [source] if source not in self.end.cut else []
                    break
                named[source] += found.page != lead.address  # the picture of a page is the page's address
                seen.add(found.address)
                waiting.append((found, source))
            done += 1
            if tell:
                tell(done, len(seen))

    async def _settle(self, lead: Lead) -> list[Lead]:
        """Take a picture, or return what a page, a feed or a sitemap names."""
        if lead.address in self.settled:
            self.end.known += 1
            self._complete(self.by_source.get(lead.address), self._own(lead))
            return []
        try:
            found = await self._taken(lead) if is_web(lead.address) else self._copied(lead)
        except (PermanentError, UserError) as error:
            self._refuse(lead.address, str(error))
        except ServiceError as error:
            self.end.failed[lead.address] = str(error)
        else:
            if isinstance(found, list):
                self.end.empty += [] if found or lead.address in self.end.refused else [lead.address]
                return found
            self._keep(found.data, found.lead)
        return []

    def _copied(self, lead: Lead) -> _File:
        path = Path(lead.address)
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        return _File(_bytes_of(path), self._own(lead))

    def _complete(self, name: str | None, lead: Lead) -> None:
        """Give a picture the licence and the date that it came without."""
        known = self.pictures.get(name or "")
        if known is None:
            return
        change = {} if known.licence or not lead.licence else _some(lead, "licence")
        change |= {} if known.date or not lead.date else _some(lead, "date")
        if change:
            self.pictures[known.id] = known.model_copy(update=change)
            append_jsonl(self.bench.folder / "pictures.jsonl", self.pictures[known.id])
            self.end.completed += 1

    def _own(self, lead: Lead) -> Lead:
        """What the user said fills what the source does not say."""
        if self.given.licence and not lead.licence:
            lead = replace(lead, licence=self.given.licence, licence_from="--licence")
        if self.given.date and not lead.date:
            lead = replace(lead, date=self.given.date, date_from="--date")
        return lead

    async def _taken(self, lead: Lead) -> _File | list[Lead]:
        own = self._own(lead)
        if lead.kind == "picture":
            own = self._licensed(own)  # before anything is asked of the site
        answer = await self.web.get(lead.address)
        if _is_picture(answer):
            return _File(answer.data, self._licensed(own))
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
                return [each for each in found if is_web(each.address)]
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
        """The file, then its record: a record never lacks its file.

        Raises what writing raises: a full disk is no fault of the picture.
        """
        digest = hashlib.sha256(data).hexdigest()[:12]
        if digest in self.pictures:
            self._complete(digest, lead)
            self._refuse(lead.address, f"the same file as {self.pictures[digest].source}")
            return
        held = self.bench.folder / "pictures" / f".{digest}"
        write_atomic(held, data)
        try:
            ref = probe(held)
        except UserError as error:
            held.unlink()
            self._refuse(lead.address, str(error).removeprefix(f"{held}: "))
            return
        suffix, taken = _format_and_date(held)
        if taken and not lead.date:
            lead = replace(lead, date=taken, date_from="exif")
        name = f"pictures/{digest}.{suffix}"
        with writing(held):
            held.replace(self.bench.folder / name)
        picture = Picture(id=digest, file=name, width=ref.width, height=ref.height, **_facts(lead))
        append_jsonl(self.bench.folder / "pictures.jsonl", picture)
        self.pictures[digest] = picture
        self.by_source[lead.address] = digest
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


def _some(lead: Lead, name: str) -> dict[str, str]:
    return {each: getattr(lead, each) for each in (name, f"{name}_from")}


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
