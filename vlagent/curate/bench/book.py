"""Stages 3 and 4 by people: questions are saved, reviewed blind by others, disputed, and settled by an expert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from pydantic import Field

from vlagent.bench.agreement import Agreement, agreement
from vlagent.curate.bench.config import BenchConfig
from vlagent.curate.bench.folder import Bench, checked_name, now
from vlagent.curate.bench.records import Item, Picture, Review, Verdict
from vlagent.data.overlap import plain_key
from vlagent.errors import UserError
from vlagent.files import append_jsonl
from vlagent.rewards.matcher import accepts
from vlagent.rewards.opinions import Opinion
from vlagent.rewards.opinions import Verdict as Mark
from vlagent.types import Record

Standing = Literal["draft", "waiting", "agreed", "disputed", "dropped"]
FIELDS = ("state", "box", "question", "answers", "domain", "tools", "evidence", "notes")
"""What an annotator changes."""


class Stale(UserError):
    """The question was saved elsewhere since it was loaded."""


class Tally(Record):
    """How the people agree."""

    questions: int
    standings: dict[str, int]
    reviews: int
    blind_matched: int
    """Reviews whose own answer, given before the accepted ones were shown, is accepted."""
    agreement: Agreement | None = None
    """Of reviewers on whether a question is good, where at least two saw the same."""
    disputes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Question -> `NAME: why`, of those that wait for an expert."""


def create(bench: Bench, author: str, picture: str) -> Item:
    """A new, empty question about a picture. Raises `UserError` for a picture that is not there."""
    if picture not in bench.usable():
        raise UserError(f"picture {picture!r}: the filter keeps no such picture")
    taken = bench.names_taken()
    number = next(n for n in range(1, len(taken) + 2) if f"{picture[:8]}-{n}" not in taken)
    item = Item(id=f"{picture[:8]}-{number}", picture=picture, author=checked_name(author), revision=1, saved_at=now())
    append_jsonl(bench.annotations_of(author), item)
    return item


class Saved(Record):
    """What was kept, and why it is a draft though it was to be finished."""

    item: Item
    problems: tuple[str, ...] = ()


def save(bench: Bench, author: str, name: str, base: int, fields: dict[str, Any]) -> Saved:
    """The next revision of one's own question; the same content again is no revision.

    What is not fit to be `done` is kept as a draft. Raises `Stale` where `base` is not the last revision, and
    `UserError` where it is not there.
    """
    before = next((each for each in reversed(bench.history(author)) if each.id == name), None)
    if before is None:
        raise UserError(f"question {name!r}: {author} has none of that name")
    if before.revision != base:
        raise Stale(f"{name} was saved elsewhere (revision {before.revision}); load it again")
    known = {key: value for key, value in fields.items() if key in FIELDS}
    after = Item.model_validate(before.model_dump() | known | {"revision": base + 1, "saved_at": now()})
    picture = bench.pictures()[before.picture]
    after = _tidied(after, picture)
    wrong = problems(after, picture, bench.config) if after.state == "done" else []
    if wrong:
        after = after.model_copy(update={"state": "draft"})
    if _same(before, after):
        return Saved(item=before, problems=tuple(wrong))
    append_jsonl(bench.annotations_of(author), after)
    return Saved(item=after, problems=tuple(wrong))


def _tidied(item: Item, picture: Picture) -> Item:
    """Lines without empty ones, the box inside the picture."""
    box = item.box
    if box is not None:
        box = max(0, box[0]), max(0, box[1]), min(picture.width, box[2]), min(picture.height, box[3])
        box = box if box[0] < box[2] and box[1] < box[3] else None
    lines = {
        name: tuple(each.strip() for each in getattr(item, name) if each.strip()) for name in ("answers", "evidence")
    }
    return item.model_copy(update={**lines, "box": box})


def _same(a: Item, b: Item) -> bool:
    return all(getattr(a, name) == getattr(b, name) for name in FIELDS)


def problems(item: Item, picture: Picture, config: BenchConfig) -> list[str]:
    """Why a question is not finished, in words for its author."""
    share = item.share(picture)
    asked, known = plain_key(item.question), [plain_key(answer) for answer in item.answers]
    wrong = {
        "draw the box of the asked-for object": share is None,
        f"the box covers {(share or 0):.1%} of the picture, {config.object_share:.0%} at most": (
            share is not None and share > config.object_share
        ),
        "write the question": not asked,
        "give at least one answer": not item.answers,
        "an answer stands in the question": any(f" {key} " in f" {asked} " for key in known if key),
        f"choose one of the domains ({', '.join(config.domains)})": item.domain not in config.domains,
        "choose the tools that are needed": not item.tools or not set(item.tools) <= set(config.tools),
        "give a link in which the answer stands": not item.evidence and _searches(item, config),
    }
    return [what for what, holds in wrong.items() if holds]


def _searches(item: Item, config: BenchConfig) -> bool:
    return bool({"text_search", "image_search"} & set(item.tools) & set(config.tools))


def answer_blind(bench: Bench, reviewer: str, name: str, answer: str) -> Review:
    """A reviewer's own answer, kept before the accepted ones are shown; it cannot be changed afterwards."""
    item = _reviewable(bench, reviewer, name)
    said = _own(bench, reviewer, name)
    if said is not None:
        return said
    if not answer.strip():
        raise UserError(f"{name}: give your own answer first, or write that you found none")
    review = Review(
        item=name,
        content=item.content,
        reviewer=checked_name(reviewer),
        answer=answer.strip(),
        matched=bool(accepts(answer, item.answers, item.question)),
        saved_at=now(),
    )
    append_jsonl(bench.reviews_of(reviewer), review)
    return review


def review(bench: Bench, reviewer: str, name: str, verdict: Verdict, why: str = "") -> Review:
    """A reviewer's verdict after the blind answer, or an expert's final word on a disputed question."""
    item = _reviewable(bench, reviewer, name)
    if verdict in ("dispute", "drop") and not why.strip():
        raise UserError(f"{name}: say why, so that it can be mended")
    said = _own(bench, reviewer, name)
    if verdict in ("agree", "dispute"):
        if said is None:
            raise UserError(f"{name}: give your own answer before you see the accepted ones")
    elif standing(item, bench.reviews()[name], bench.config) != "disputed" or said is not None:
        raise UserError(f"{name}: only a disputed question is settled, by someone who has not reviewed it")
    base = said or Review(item=name, content=item.content, reviewer=checked_name(reviewer), answer="", matched=False)
    given = base.model_copy(update={"verdict": verdict, "why": why.strip(), "saved_at": now()})
    append_jsonl(bench.reviews_of(reviewer), given)
    return given


def _reviewable(bench: Bench, reviewer: str, name: str) -> Item:
    item = bench.items().get(name)
    if item is None or item.state != "done":
        raise UserError(f"question {name!r}: there is no finished one of that name")
    if item.author == reviewer:
        raise UserError(f"{name}: its author cannot review it")
    return item


def _own(bench: Bench, reviewer: str, name: str) -> Review | None:
    return next((each for each in bench.reviews()[name] if each.reviewer == reviewer), None)


def standing(item: Item, reviews: Sequence[Review], config: BenchConfig) -> Standing:
    """Where a question stands. An expert's word settles it; else one dispute is enough to hold it back."""
    if item.state != "done":
        return "draft"
    final = [each for each in reviews if each.verdict in ("keep", "drop")]
    if final:
        return "agreed" if max(final, key=lambda each: each.saved_at).verdict == "keep" else "dropped"
    if any(each.verdict == "dispute" for each in reviews):
        return "disputed"
    agreed = {each.reviewer for each in reviews if each.verdict == "agree"} - {item.author}
    return "agreed" if len(agreed) >= config.reviews else "waiting"


def tally(bench: Bench) -> Tally:
    """Agreement and disputes of a benchmark."""
    items, reviews, config = bench.items(), bench.reviews(), bench.config
    standings = {name: standing(item, reviews[name], config) for name, item in items.items()}
    said = [each for own in reviews.values() for each in own if each.verdict in ("agree", "dispute")]
    return Tally(
        questions=len(items),
        standings={kind: list(standings.values()).count(kind) for kind in get_args(Standing)},
        reviews=len(said),
        blind_matched=sum(each.matched for each in said),
        agreement=agreement(_as_opinion(each) for each in said),
        disputes={
            name: tuple(f"{each.reviewer}: {each.why}" for each in reviews[name] if each.verdict == "dispute")
            for name, kind in standings.items()
            if kind == "disputed"
        },
    )


def _as_opinion(review: Review) -> Opinion:
    mark = Mark(right=review.verdict == "agree", why=review.why)
    return Opinion(key=review.item, judge=review.reviewer, sample_id=review.item, answer=review.content, verdict=mark)
