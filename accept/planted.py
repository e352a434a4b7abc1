"""Episodes with one planted flaw each, from a generator of its own: it knows the world, not the rules.

Clean episodes are the toy demonstrator's, played through the real loop and told in other words. A flaw is an edit of
one of them; `Planted.kinds` says what is truly wrong, the planted kind first, and what follows from it.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from accept import planted_words as words
from accept.planted_words import Phrases
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.agent.parse import parse
from vlagent.agent.pool import run_pool
from vlagent.agent.store import write_trajectory
from vlagent.data.manifest import load_samples
from vlagent.files import append_jsonl, write_json
from vlagent.images import probe
from vlagent.randomness import rng_of
from vlagent.render.dialects import get_dialect
from vlagent.render.sizing import LIMITS
from vlagent.search.base import SearchServices, TextQuery
from vlagent.search.open import open_search
from vlagent.tools.registry import make_tools
from vlagent.toy.demonstrations import DemoConfig, FlawedOracle
from vlagent.toy.lexicon import PASSAGE_BRANDS, PLACES
from vlagent.toy.world import SYSTEM_PROMPT, WorldConfig, make_world
from vlagent.types import Call, EvalRow, ImageRef, Observation, Outcome, Sample, StopReason, Trajectory, Turn

KINDS = (
    *("wrong_format", "lucky_guess", "leaked_answer", "incoherent_step", "ungrounded_query"),
    *("near_duplicate", "overlap"),
)
EACH = 40
CLEAN = 120
DIALECT = get_dialect("default")
CONFIG = AgentConfig(pixels=LIMITS["tiny"], top_k=3)


@dataclass(frozen=True)
class Planted:
    """One episode, and what is wrong with it."""

    sample: Sample
    trajectory: Trajectory
    kinds: tuple[str, ...] = ()
    """Empty for a clean one; the first is the planted flaw, the rest may rightly be found besides."""


@dataclass(frozen=True)
class Set:
    """Everything that is to be verified, and the test data that it may not overlap with."""

    episodes: list[Planted]
    test: list[Sample]


@dataclass
class Maker:
    """What the flaws are made with."""

    rng: random.Random
    say: Phrases
    search: SearchServices
    folder: Path
    others: Sequence[Trajectory] = ()

    def find(self, query: str) -> Observation:
        """What the real search answers."""
        assert self.search.text is not None
        hits = tuple(asyncio.run(self.search.text.search(TextQuery(text=query, top_k=3)))[:3])
        blocks = [f"[{number}] {hit.source.title}\n{hit.text}" for number, hit in enumerate(hits, 1)]
        text = "\n\n".join(blocks) or f"No results for {query!r}."
        return Observation(text=text, hits=hits, sources=tuple(hit.source for hit in hits))


def make(folder: Path, seed: int, each: int = EACH, clean: int = CLEAN) -> Set:
    """Draw a world of its own, play it, plant the flaws."""
    per_kind = -(-(each * len(KINDS) + clean) // 5) + each // 4
    world = folder / f"world-{seed}"
    config = WorldConfig(seed=50_000 + seed, per_kind={"train": per_kind}, system_prompt=SYSTEM_PROMPT)
    make_world(world, config)
    samples = load_samples(f"{world / 'manifest.json'}:toy_train")
    search = open_search(world / "train" / "search", top_k=3)
    rng = rng_of("planted", seed)
    maker = Maker(rng, Phrases(seed, rng), search, folder / f"pictures-{seed}")
    told = [_told(sample, each_one, maker) for sample, each_one in asyncio.run(_play(_once(samples), search))]
    rng.shuffle(told)
    maker.others = [trajectory for _, trajectory in told]
    return _plant(told, maker, each)


def _once(samples: Sequence[Sample]) -> list[Sample]:
    """Questions that name their subject, each once: asked twice they would be duplicates that nobody planted."""
    first = {sample.question: sample.id for sample in reversed(samples) if sample.extra["kind"] == "fact"}
    return [sample for sample in samples if first.get(sample.question, sample.id) == sample.id]


async def _play(samples: Sequence[Sample], search: SearchServices) -> list[tuple[Sample, Trajectory]]:
    agent = Agent(
        FlawedOracle(samples, DemoConfig(agent=CONFIG)), CONFIG, make_tools(CONFIG.tools, search=search), search
    )
    found = []
    async with aclosing(run_pool(agent, [(sample, 0) for sample in samples], concurrency=32)) as ended:
        async for sample, trajectory in ended:
            found.append((sample, trajectory))
    return sorted(found, key=lambda pair: pair[0].id)


def _plant(told: list[tuple[Sample, Trajectory]], maker: Maker, each: int) -> Set:
    """The first that a flaw fits take it; what is left is clean."""
    episodes, test, left = list[Planted](), list[Sample](), list(told)
    for kind in KINDS:
        made = 0
        for sample, trajectory in list(left):
            if made == each:
                break
            flawed = FLAWS[kind](sample, trajectory, maker, made)
            if flawed is None:
                continue
            left.remove((sample, trajectory))
            episodes += flawed if isinstance(flawed, list) else [flawed]
            made += 1
        if made < each:
            raise AssertionError(f"{kind}: {made} of {each} planted; draw more questions")
    episodes += [Planted(sample, trajectory) for sample, trajectory in left]
    test += [_seen_before(each_one.sample, maker, number) for number, each_one in enumerate(_of(episodes, "overlap"))]
    return Set(episodes, test)


def _of(episodes: Sequence[Planted], kind: str) -> list[Planted]:
    return [each for each in episodes if each.kinds[:1] == (kind,)]


def _told(sample: Sample, played: Trajectory, maker: Maker) -> tuple[Sample, Trajectory]:
    """The oracle's episode with thoughts as a talkative model writes them."""
    turns = [_with_thought(turn, _thought(sample, played, number, maker)) for number, turn in enumerate(played.turns)]
    return sample, played.model_copy(update={"turns": tuple(turns)})


def _thought(sample: Sample, played: Trajectory, number: int, maker: Maker) -> str:
    turn, say = played.turns[number], maker.say
    gold = sample.extra["gold"]
    if turn.call is None:
        return _last_thought(sample, played, maker)
    if turn.call.name == "image_crop":
        return say.pick(words.CROP, colour=gold["colour"])
    if turn.call.name == "image_search":
        return say.pick(words.PLACE)
    return say.pick(words.LOOK_UP, name=str(turn.call.arguments["query"]).rsplit(" ", 1)[0])


def _last_thought(sample: Sample, played: Trajectory, maker: Maker) -> str:
    value = played.answer or ""
    if sample.extra["kind"] == "read":
        return maker.say.pick(words.READS, value=value)
    if sample.extra["kind"] == "both":
        years = re.findall(r"\d{4}", played.turns[-1].think or "")
        return maker.say.pick(words.BOTH, a=years[0], b=years[1], value=value)
    return maker.say.pick(words.FOUND, value=value)


def _with_thought(turn: Turn, think: str) -> Turn:
    told = turn.model_copy(update={"think": think, "tokens": None})
    return told.model_copy(update={"text": DIALECT.assistant(told).text})


def _with_query(turn: Turn, query: str, seen: Observation, think: str) -> Turn:
    call = Call(name="text_search", arguments={"query": query})
    return _with_thought(turn.model_copy(update={"call": call, "observation": seen}), think)


def _edited(played: Trajectory, turns: Sequence[Turn]) -> Trajectory:
    return played.model_copy(update={"turns": tuple(turns)})


def _searches(played: Trajectory) -> list[int]:
    return [n for n, turn in enumerate(played.turns) if turn.call is not None and turn.call.name == "text_search"]


def _format(sample: Sample, played: Trajectory, maker: Maker, number: int) -> Planted | None:
    """A turn out of form; every other record claims that it is fine."""
    at = maker.rng.randrange(len(played.turns))
    turn = played.turns[at]
    text = _BROKEN[number % len(_BROKEN)](turn.text)
    read = parse(text, "stop", DIALECT, make_tools(CONFIG.tools), ["input"] * 8)
    if read.format_ok:
        return None
    claims = number % 2 == 1 and (read.call is None) == (turn.call is None)
    changed = turn.model_copy(update={"text": text, "format_ok": claims})
    turns = [*played.turns[:at], changed, *played.turns[at + 1 :]]
    return Planted(sample, _edited(played, turns), ("wrong_format",))


_BROKEN: tuple[Callable[[str], str], ...] = (
    lambda text: f"Sure! {text}",
    lambda text: re.sub(r"<think>.*?</think>\s*", "", text, flags=re.DOTALL),
    lambda text: re.sub(r"<think>.*?</think>", "<think></think>", text, flags=re.DOTALL),
    lambda text: f"{text}\n<answer>one more</answer>",
    lambda text: text.replace("<think>", "<thinking>").replace("</think>", "</thinking>"),
    lambda text: text.replace("</think>", " <answer>soon</answer></think>"),
    lambda text: f"{text}\nThat was my turn.",
    lambda text: text.replace("</think>", ""),
    lambda text: re.sub(r"<(tool_call|answer)>\s*", r"<\1>```json ", text).replace("</", "```</", 2),
    lambda text: f"<think>and another thing</think>{text}",
)


def _lucky(sample: Sample, played: Trajectory, maker: Maker, number: int) -> Planted | None:
    """Right without support: nothing looked up, the last search left out, or one that speaks of something else."""
    if sample.extra["kind"] in ("read", "both") and number % 3:
        return None
    if sample.extra["kind"] == "read":
        return None
    last = _with_thought(played.turns[-1], maker.say.pick(words.GUESSES, value=played.answer or ""))
    searches = _searches(played)
    if number % 3 == 0:
        return Planted(sample, _edited(played, [last]), ("lucky_guess",))
    if number % 3 == 1 and searches[-1] > 0:
        return Planted(sample, _edited(played, [*played.turns[: searches[-1]], last]), ("lucky_guess",))
    at = searches[-1]
    empty = Observation(text=f"No results for {played.turns[at].call!s:.60}.")
    turns = [*played.turns[:at], played.turns[at].model_copy(update={"observation": empty}), last]
    return Planted(sample, _edited(played, turns), ("lucky_guess",))


def _leaked(sample: Sample, played: Trajectory, maker: Maker, number: int) -> Planted | None:
    """The answer, or the hint, in a turn before the last result."""
    calls = [n for n, turn in enumerate(played.turns) if turn.call is not None]
    searches = _searches(played)
    if not searches:
        return None
    at = maker.rng.choice([n for n in calls if n <= searches[-1]])
    turn = played.turns[at]
    if number % 4 == 3:
        think = maker.say.pick(words.HINTS, thought=turn.think or "")
    else:
        think = maker.say.pick(words.KNOWS, value=played.answer or "", thought=turn.think or "")
    turns = [*played.turns[:at], _with_thought(turn, think), *played.turns[at + 1 :]]
    return Planted(sample, _edited(played, turns), ("leaked_answer",))


def _incoherent(sample: Sample, played: Trajectory, maker: Maker, number: int) -> Planted | None:
    made = (_swapped, _misreported, _again, _contradicted)[number % 4](sample, played, maker)
    return None if made is None else Planted(sample, _edited(played, made), ("incoherent_step",))


def _swapped(sample: Sample, played: Trajectory, maker: Maker) -> list[Turn] | None:
    """The thought of another sort of step."""
    turns = list(played.turns)
    at = maker.rng.randrange(len(turns) - 1)
    name = turns[at].call.name if turns[at].call else ""  # type: ignore[union-attr]
    if name == "image_crop":
        think = maker.say.pick(words.PLACE)
    else:
        think = maker.say.pick(words.CROP, colour=str(sample.extra["gold"]["colour"] or "red"))
    turns[at] = _with_thought(turns[at], think)
    return turns


def _misreported(sample: Sample, played: Trajectory, maker: Maker) -> list[Turn] | None:
    """The thought after a search tells something that the result does not say."""
    searches = _searches(played)
    if not searches or sample.extra["gold"]["relation"] != "year":
        return None
    value = str(maker.rng.randrange(1801, 1899))
    turns = list(played.turns)
    at = searches[-1] + 1
    turns[at] = _with_thought(turns[at], f"{maker.say.pick(words.WRONG_FACT, value=value)} {turns[at].think}")
    return turns


def _again(sample: Sample, played: Trajectory, maker: Maker) -> list[Turn] | None:  # noqa: ARG001
    """The same call twice."""
    calls = [n for n, turn in enumerate(played.turns) if turn.call is not None]
    at = maker.rng.choice(calls)
    turns = list(played.turns)
    return [*turns[: at + 1], turns[at], *turns[at + 1 :]]


def _contradicted(sample: Sample, played: Trajectory, maker: Maker) -> list[Turn] | None:
    """The last thought concludes another value than the answer."""
    others = [each.answer for each in maker.others if each.sample_id.split("-")[2] == sample.extra["kind"]]
    gold = [value for value in others if value and value != played.answer]
    if not gold:
        return None
    return [*played.turns[:-1], _with_thought(played.turns[-1], maker.say.pick(words.CONCLUDES, value=gold[0]))]


def _ungrounded(sample: Sample, played: Trajectory, maker: Maker, number: int) -> Planted | None:
    """A query for what nobody has named, one that names nothing, or another name than the one that was read."""
    searches = _searches(played)
    if not searches:
        return None
    at, turns = searches[0], list(played.turns)
    strange = maker.rng.choice([*PASSAGE_BRANDS, *PLACES])
    if strange in str(played):
        return None
    if number % 3 == 0:
        query = f"{strange} {maker.rng.choice(['founded', 'opened', 'owned', 'based'])}"
        extra = _with_query(turns[at], query, maker.find(query), maker.say.pick(words.ASIDE, name=strange))
        return Planted(sample, _edited(played, [extra, *turns]), ("ungrounded_query",))
    if number % 3 == 1:
        query = maker.say.pick(words.VAGUE)
        extra = _with_query(turns[at], query, maker.find(query), turns[at].think or "")
        return Planted(sample, _edited(played, [*turns[:at], extra, *turns[at:]]), ("ungrounded_query",))
    if at == 0 or turns[at - 1].call is None or turns[at - 1].call.name != "image_crop":  # type: ignore[union-attr]
        return None
    query = f"{strange} founded"
    extra = _with_query(turns[at], query, maker.find(query), turns[at].think or "")
    return Planted(sample, _edited(played, [*turns[:at], extra, *turns[at:]]), ("ungrounded_query",))


def _duplicate(sample: Sample, played: Trajectory, maker: Maker, number: int) -> list[Planted]:
    """The episode, clean, and a copy: picture encoded anew, question and thoughts in other words."""
    twin = sample.model_copy(
        update={
            "id": f"{sample.id}-again",
            "question": _reworded(sample.question),
            "images": (_copied(sample, maker, number),),
        }
    )
    _, told = _told(sample, played, maker)
    copied = told.model_copy(update={"sample_id": twin.id, "images": (*twin.images, *played.images[1:])})
    return [Planted(sample, played), Planted(twin, copied, ("near_duplicate",))]


def _reworded(question: str) -> str:
    for before, after in words.REWORD:
        if question.startswith(before):
            return question.replace(before, after, 1).rstrip("?") + ", please?"
    return question.lower()


def _copied(sample: Sample, maker: Maker, number: int) -> ImageRef:
    """The picture as another site would serve it: smaller, JPEG."""
    with Image.open(sample.images[0].path) as picture:
        side = round(picture.width * (1.0, 0.8, 0.6)[number % 3])
        small = picture.convert("RGB").resize((side, side))
    path = maker.folder / f"{sample.id}-{number}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    small.save(path, quality=(92, 75, 60)[number % 3])
    return probe(path)


def _overlap(sample: Sample, played: Trajectory, maker: Maker, number: int) -> Planted | None:  # noqa: ARG001
    """Nothing is wrong with the episode itself; the test data hold its picture, or its question."""
    if number % 2 and sample.extra["kind"] != "fact":
        return None
    return Planted(sample, played, ("overlap",))


def _seen_before(sample: Sample, maker: Maker, number: int) -> Sample:
    """The test question: the same picture with another question, or the same question with another picture."""
    if number % 2 and sample.extra["kind"] == "fact":
        other = Image.effect_noise((320, 320), 90.0).convert("RGB")
        path = maker.folder / f"noise-{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        other.save(path)
        return sample.model_copy(
            update={"id": f"test-{number}", "question": sample.question.upper(), "images": (probe(path),)}
        )
    return sample.model_copy(
        update={"id": f"test-{number}", "question": "Is it day or night?", "images": (_copied(sample, maker, number),)}
    )


FLAWS: dict[str, Callable[[Sample, Trajectory, Maker, int], Planted | list[Planted] | None]] = {
    "wrong_format": _format,
    "lucky_guess": _lucky,
    "leaked_answer": _leaked,
    "incoherent_step": _incoherent,
    "ungrounded_query": _ungrounded,
    "near_duplicate": _duplicate,
    "overlap": _overlap,
}


def write_run(folder: Path, episodes: Sequence[Planted]) -> None:
    """The episodes as a run folder, as if a synthesis had made them; all count as right."""
    folder.mkdir(parents=True)
    write_json(folder / "config.json", {"agent": CONFIG.model_dump(mode="json")})
    for each in episodes:
        append_jsonl(folder / "samples.jsonl", each.sample)
        write_trajectory(folder, each.trajectory)
        row = EvalRow(
            suite=each.sample.source,
            sample_id=each.sample.id,
            outcome=Outcome.RIGHT,
            answer=each.trajectory.answer,
            answers=each.sample.answers,
            stop=StopReason.ANSWERED,
        )
        append_jsonl(folder / "rows.jsonl", row)
