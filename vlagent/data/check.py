"""Look a data set over before it is trusted: pictures, answers, duplicates, counts, and what a training set shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from vlagent.data.manifest import Entry, common_rows, is_manifest, load_manifest, split_spec
from vlagent.data.overlap import Pictures, Print, answer_keys, fingerprint, first_of, plain_key
from vlagent.data.rows import Origin, read_row
from vlagent.data.rows import Pictures as PictureFiles
from vlagent.errors import ServiceError, UserError
from vlagent.types import ImageRef, Record, Sample

Kind = Literal["row", "picture", "answer", "contradiction", "duplicate", "overlap", "count"]


class Finding(Record):
    """One thing that is wrong, or may be."""

    kind: Kind
    dataset: str
    item: str
    """The question's id, `row N` where it has none, empty for the whole set."""
    what: str


class DataCheck(Record):
    """What was looked at, and what was found."""

    version: Literal[1] = 1
    rows: dict[str, int]
    questions: dict[str, int]
    """Rows that can be used."""
    pictures: int
    """Files looked at."""
    findings: tuple[Finding, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Findings by kind."""
        return dict(Counter(finding.kind for finding in self.findings))


@dataclass(frozen=True)
class RowSet:
    """The rows of one data set, before anything is dropped."""

    name: str
    origin: Origin
    rows: Callable[[], Iterable[Mapping[str, Any]]]
    """In the common layout."""
    wanted: int | None = None
    """The number of rows that it should have."""
    options: bool = False
    """Every question has options."""


def row_sets(spec: str) -> list[RowSet]:
    """The data sets behind what `load_samples` takes: a manifest, entries of one, or a file of rows."""
    path, names = split_spec(spec)
    if not is_manifest(path):
        name = path.parent.name if path.stem in ("rows", "data") and path.parent.name else path.stem
        origin = Origin(source=name, root=path.parent, file=path)
        return [RowSet(name, origin, lambda: common_rows(origin))]
    manifest = load_manifest(path)
    unknown = [name for name in names if name not in manifest.entries]
    if unknown:
        raise UserError(f"{path}: no entry {unknown[0]!r}; there are {', '.join(manifest.entries)}")
    return [_of_entry(name, manifest.entries[name], manifest.origin(name)) for name in names or manifest.entries]


def _of_entry(name: str, entry: Entry, origin: Origin) -> RowSet:
    return RowSet(name, origin, lambda: common_rows(origin), entry.length, "em_score_mcq" in origin.reward_fn)


@dataclass
class _Look:
    """The state of one check."""

    decode: bool
    findings: list[Finding] = field(default_factory=list)
    prints: dict[str, Print] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def say(self, kind: Kind, dataset: str, item: str, what: str) -> None:
        self.findings.append(Finding(kind=kind, dataset=dataset, item=item, what=what))

    def print_of(self, ref: ImageRef) -> Print | None:
        """What a picture is known by; None where it cannot be read, which is said once."""
        if ref.path not in self.prints and ref.path not in self.broken:
            try:
                self.prints[ref.path] = fingerprint(ref, decode=self.decode)
            except ServiceError as error:
                self.broken[ref.path] = str(error)
        return self.prints.get(ref.path)


def check(sets: Sequence[RowSet], *, train: Sequence[RowSet] = (), decode: bool = True) -> DataCheck:
    """Look over data sets, and for what `train` shares with them.

    Without `decode` a picture need only open: truncated ones, and copies that were encoded anew, are not found.
    Raises `UserError` where a file of rows cannot be read at all; everything else is a finding.
    """
    look = _Look(decode)
    rows, usable = {}, {}
    samples: list[Sample] = []
    for each in sets:
        rows[each.name], own = _read(each, look)
        usable[each.name] = len(own)
        _check_answers(own, each, look)
        _check_duplicates(own, look)
        samples += own
    if train:
        aside = _Look(decode, prints=look.prints, broken=look.broken)  # what is wrong in it is not what is asked
        _check_overlap(samples, [sample for each in train for sample in _read(each, aside)[1]], look)
    return DataCheck(rows=rows, questions=usable, pictures=len(look.prints), findings=tuple(look.findings))


def _read(rows: RowSet, look: _Look) -> tuple[int, list[Sample]]:
    """(rows, usable questions); says what cannot be used and why."""
    count, samples = 0, []
    for number, row in enumerate(rows.rows(), 1):
        count += 1
        files = PictureFiles()
        try:
            sample = read_row(row, number, rows.origin, files)
        except UserError as error:
            look.say("row", rows.name, f"row {number}", str(error))
            continue
        if sample is None:
            look.say("picture", rows.name, str(row.get("id") or f"row {number}"), "; ".join(files.unusable.values()))
        elif _pictures_are_whole(sample, rows, look):
            samples.append(sample)
    if count == 0:
        look.say("count", rows.name, "", f"{rows.origin.file} holds no row")
    elif rows.wanted is not None and count != rows.wanted:
        look.say("count", rows.name, "", f"{count} rows, {rows.wanted} are expected")
    return count, samples


def _pictures_are_whole(sample: Sample, rows: RowSet, look: _Look) -> bool:
    bad = [look.broken[ref.path] for ref in sample.images if look.print_of(ref) is None]
    if bad:
        look.say("picture", rows.name, sample.id, "; ".join(bad))
    return not bad


def _check_answers(samples: Iterable[Sample], rows: RowSet, look: _Look) -> None:
    for sample in samples:
        if not any(answer.strip() for answer in sample.answers):
            look.say("answer", rows.name, sample.id, "no accepted answer")
        elif sample.choices:
            for what in _wrong_options(sample):
                look.say("contradiction", rows.name, sample.id, what)
        if rows.options and len(sample.choices) < 2:
            look.say("answer", rows.name, sample.id, "options are scored, and it has none")


def _wrong_options(sample: Sample) -> Iterator[str]:
    """Truths that are no option, several truths, and options that say the same."""
    texts = {letter: plain_key(text) for letter, text in sample.choices.items()}
    stated = set()
    for answer in sample.answers:
        letter = answer.strip().strip("().").upper()
        own = (
            {letter}
            if letter in texts
            else {each for each, text in texts.items() if text and text == plain_key(answer)}
        )
        if not own:
            yield f"the answer {answer!r} is none of the options {', '.join(texts)}"
        stated |= own
    if len(stated) > 1:
        yield f"several options are right: {', '.join(sorted(stated))}"
    for text, number in Counter(text for text in texts.values() if text).items():
        if number > 1:
            yield f"{number} options say the same: {text!r}"


def _check_duplicates(samples: Sequence[Sample], look: _Look) -> None:
    """The same question about the same pictures twice; with other answers it is a contradiction."""
    seen: dict[tuple[str, tuple[str, ...]], Sample] = {}
    ids: Counter[str] = Counter(sample.id for sample in samples)
    for name, number in ids.items():
        if number > 1:
            look.say("duplicate", samples[0].source, name, f"{number} rows have this id")
    for sample in samples:
        digests = tuple(sorted(look.prints[ref.path].digest for ref in sample.images))
        first = seen.setdefault((plain_key(sample.question), digests), sample)
        if first is sample:
            continue
        if answer_keys(first.answers) & answer_keys(sample.answers) or not (first.answers and sample.answers):
            look.say("duplicate", sample.source, sample.id, f"asks the same as {first.id} about the same pictures")
        else:
            what = f"{first.id} asks the same about the same pictures, but {first.answers} is not {sample.answers}"
            look.say("contradiction", sample.source, sample.id, what)


def _check_overlap(samples: Sequence[Sample], train: Sequence[Sample], look: _Look) -> None:
    """Pictures, and questions with their answers, that a training set shares with the sets."""
    pictures, asked = Pictures(), _Asked()
    for sample in train:
        asked.add(sample)
        for ref in sample.images:
            known = look.print_of(ref)
            if known is not None:
                pictures.add(sample.id, ref, known)
    for sample in samples:
        shown = [name for ref in sample.images for name in pictures.same_look(ref, look.prints[ref.path])]
        alike = asked.like(sample)
        for what in _shared(sample, shown, alike, pictures, look):
            look.say("overlap", sample.source, sample.id, what)


def _shared(
    sample: Sample, shown: Sequence[str], alike: Sequence[str], pictures: Pictures, look: _Look
) -> Iterator[str]:
    both = [name for name in shown if name in alike]
    files = {name for ref in sample.images for name in pictures.same_file(look.prints[ref.path])}
    if both:
        yield f"the same question about the same picture is trained on ({first_of(both)})"
    elif shown:
        how = "its picture" if files else "a copy of its picture"
        yield f"{how} is trained on ({first_of(shown)})"
    if alike and not both:
        yield f"the same question with the same answer is trained on ({first_of(alike)})"


@dataclass
class _Asked:
    """Questions of a training set by their texts."""

    known: dict[str, list[Sample]] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        self.known.setdefault(plain_key(sample.question), []).append(sample)

    def like(self, sample: Sample) -> list[str]:
        """Those that ask the same and accept an answer of this one: "Who is this?" alone says nothing."""
        own = answer_keys(sample.answers)
        same = self.known.get(plain_key(sample.question), [])
        return [other.id for other in same if own & answer_keys(other.answers)]
