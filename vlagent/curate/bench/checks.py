"""Stage 4 by machine: each question must need its picture and its tools, stand on its evidence, and leak nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.leaks import Leaks
from vlagent.curate.bench.play import Player, Tell, folder_of, play, samples_of
from vlagent.curate.bench.records import PERSON, Checked, CheckName, Item
from vlagent.curate.bench.web import is_web
from vlagent.data.overlap import plain_key
from vlagent.errors import PermanentError, ServiceError, UserError
from vlagent.files import append_jsonl
from vlagent.rewards.dates import read_date
from vlagent.rewards.numbers import read_number
from vlagent.search.base import PageReader
from vlagent.search.pages.extract import NotText, extract
from vlagent.types import EvalRow, Record, Sample


class Found(Record):
    """The end of a round of checks."""

    passed: int
    failed: dict[str, str]
    """`QUESTION CHECK` -> why."""
    undecided: dict[str, str]
    """The same where a service failed."""


@dataclass
class Checker:
    """What the checks have at hand; what is missing is not checked."""

    blind: Player | None = None
    """Answers without picture and tools."""
    no_tools: Player | None = None
    """Answers with the picture, without tools."""
    pages: PageReader | None = None
    train: Sequence[Sample] = ()
    """What a leak is looked for in, besides the question itself."""
    tell: Tell | None = None


async def check(bench: Bench, checker: Checker) -> Found:
    """Make every check that is not made yet of each finished question, and keep it."""
    items = [item for item in bench.items().values() if item.state == "done"]
    leaks = Leaks(bench, checker.train)
    said: list[Checked] = await _leak(bench, items, leaks)
    players: dict[CheckName, Player | None] = {"blind": checker.blind, "no_tools": checker.no_tools}
    for name, player in players.items():
        if player is not None:
            said += await _answers(bench, items, player, name, checker.tell)
    if checker.pages is not None:
        said += await _evidence(bench, items, checker.pages)
    return Found(
        passed=sum(each.ok is True for each in said),
        failed={f"{each.item} {each.check}": each.why for each in said if each.ok is False},
        undecided={f"{each.item} {each.check}": each.why for each in said if each.ok is None},
    )


def accept(bench: Bench, name: str, check: str, why: str) -> Checked:
    """Overrule a failed check of a question; the card counts it. A change of the question makes it void.

    Raises `UserError` for a check that has not failed, and without a reason.
    """
    failed = {str(each): said for each, said in bench.checks().get(name, {}).items() if said.ok is False}
    if check not in failed:
        known = ", ".join(sorted(failed)) or "none"
        raise UserError(f"{name}:{check}: no failed check of that name; failed there: {known}")
    if not why.strip():
        raise UserError(f"{name}:{check}: say why it is right all the same (--because TEXT)")
    return _keep(bench, failed[check].model_copy(update={"ok": True, "why": why.strip(), "by": PERSON}))


def _due(bench: Bench, items: Sequence[Item], name: CheckName, by: str) -> tuple[list[Item], list[Checked]]:
    """Questions that this check has not decided, and the decisions that stand."""
    known = bench.checks()
    settled = [known[item.id][name] for item in items if name in known[item.id]]
    stand = {each.item: each for each in settled if each.ok is not None and each.by in (by, PERSON)}
    return [item for item in items if item.id not in stand], list(stand.values())


def _keep(bench: Bench, checked: Checked) -> Checked:
    append_jsonl(bench.folder / "checks.jsonl", checked)
    return checked


# ---- answerable without the picture, or without tools


async def _answers(
    bench: Bench, items: Sequence[Item], player: Player, name: CheckName, tell: Tell | None
) -> list[Checked]:
    """Any right answer in `tries` fails the question."""
    tries = bench.config.tries
    by = f"{player.digest} x{tries}"
    due, stand = _due(bench, items, name, by)
    samples = samples_of(bench, due, with_picture=name == "no_tools")
    rows = await play(folder_of(bench, name, player), player, list(samples.values()), tries, tell)
    for item in due:
        ok, why = _verdict(rows[samples[item.id].id], tries, name)
        content = item.content_for(name)
        stand.append(_keep(bench, Checked(item=item.id, content=content, check=name, ok=ok, why=why, by=by)))
    return stand


def _verdict(rows: Sequence[EvalRow], tries: int, name: CheckName) -> tuple[bool | None, str]:
    right = [row for row in rows if row.outcome == "right"]
    what = "without its picture" if name == "blind" else "without tools"
    if right:
        return False, f"answered {what} in {len(right)} of {len(rows)} tries ({right[0].answer})"
    if len(rows) < tries:
        return None, f"only {len(rows)} of {tries} tries could be scored"
    return True, ""


# ---- the answer stands in the evidence


async def _evidence(bench: Bench, items: Sequence[Item], pages: PageReader) -> list[Checked]:
    due, stand = _due(bench, [item for item in items if item.evidence], "evidence", "")
    for item in due:
        ok, why = await _stands_in(item, pages, bench.folder)
        content = item.content_for("evidence")
        stand.append(_keep(bench, Checked(item=item.id, content=content, check="evidence", ok=ok, why=why)))
    return stand


async def _stands_in(item: Item, pages: PageReader, folder: Path) -> tuple[bool | None, str]:
    """One link that holds one accepted answer is enough; where the others failed to load, it is undecided."""
    failures, looked = [], 0
    for link in item.evidence:
        try:
            text = await _text_of(link, pages, folder)
        except PermanentError as error:
            looked += 1
            failures.append(str(error))
            continue
        except ServiceError as error:
            failures.append(str(error))
            continue
        looked += 1
        if any(holds(text, answer) for answer in item.answers):
            return True, ""
    if looked < len(item.evidence):
        return None, failures[0]
    return False, f"no accepted answer stands in {len(item.evidence)} links{f' ({failures[0]})' if failures else ''}"


async def _text_of(link: str, pages: PageReader, folder: Path) -> str:
    if is_web(link):
        page = await pages.read(link)
        return f"{page.title}\n{page.text}"
    return await asyncio.to_thread(_file_text, folder / link.split("#")[0])


def _file_text(path: Path) -> str:
    kinds = {".pdf": "application/pdf", ".html": "text/html", ".htm": "text/html"}
    try:
        return extract(path.read_bytes(), kinds.get(path.suffix.lower(), "text/plain"), max_chars=2_000_000).text
    except (OSError, NotText) as error:
        raise PermanentError("evidence", f"{path}: {error}") from None


def holds(text: str, answer: str) -> bool:
    """Whether a text states an answer: its words in a row, or the same number or date written otherwise."""
    known, wanted = f" {plain_key(text)} ", plain_key(answer)
    if wanted and f" {wanted} " in known:
        return True
    number, day = read_number(answer), read_date(answer)
    if day is not None:
        words = text.replace("\n", " ").split()
        spans = (" ".join(words[at : at + size]).strip(".,;:()") for size in (1, 2, 3) for at in range(len(words)))
        return any(read_date(span) == day for span in spans)
    if number is not None:
        found = (read_number(word.strip(".,;:()%$€£")) for word in text.split())
        return any(each is not None and each.value == number.value for each in found)
    return False


# ---- nothing is given away


async def _leak(bench: Bench, items: Sequence[Item], leaks: Leaks) -> list[Checked]:
    known, everything, pictures = bench.checks(), list(bench.items().values()), bench.pictures()
    said = []
    for item in items:
        before = known[item.id].get("leak")
        by = leaks.by(item, everything, before)
        if before is not None and (before.by == by or leaks.stands(before)):
            said.append(before)
            continue
        why = await asyncio.to_thread(leaks.why, item, pictures[item.picture], everything)
        new = Checked(item=item.id, content=item.content_for("leak"), check="leak", ok=not why, why=why, by=by)
        said.append(_keep(bench, new))
    return said
