"""Right episodes as token rows, through the real dialect, tools and renderer; facts are drawn anew for every row."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from vlagent.chat.base import ImagePart, Message, TextPart
from vlagent.cli.stage0.pictures import CELL, Pool, Window, crop_labels, overview_labels
from vlagent.cli.stage0.words import last_thought, thought
from vlagent.model.chatml import Renderer
from vlagent.render.dialects import ImageKind, get_dialect, new_kind
from vlagent.render.sizing import LIMITS, fit
from vlagent.search.base import ImageQuery, SearchServices, TextQuery
from vlagent.search.summary import ExtractiveSummariser
from vlagent.tools.base import Tool, ToolContext
from vlagent.tools.registry import make_tools
from vlagent.toy.episodes import Episode, FactSearch, Recipe, ask_about
from vlagent.toy.lexicon import BRANDS, LEVELS, PLACES, SPARE_BRANDS, YEARS, Kind
from vlagent.toy.questions import combine
from vlagent.toy.scene import UNIT, Cast, Scene, plan_signs
from vlagent.toy.signs import place_sign
from vlagent.toy.world import SYSTEM_PROMPT
from vlagent.train.stage0.config import Mix
from vlagent.train.stage0.data import GROUPS, NOTHING, Labels, Row
from vlagent.types import Call, Hit, ImageRef, Observation, Sample, Source, Turn

T = TypeVar("T")
TOOLS = ("image_crop", "text_search", "image_search")
_BLANK = Image.new("RGB", (UNIT, UNIT))
_THUMBNAILS = ((468, 470), (430, 490), (490, 430), (470, 450), (440, 480))
"""Sizes (width, height) of pictures in an index."""


@dataclass(frozen=True, eq=False)
class Shot:
    """A scene of the pool, by number."""

    number: int
    scene: Scene
    windows: tuple[tuple[Window, ...], ...]


@dataclass(frozen=True)
class PassageSearch:
    """A `TextSearch` over facts in memory whose hits look like those of a toy world's corpus."""

    facts: FactSearch

    async def search(self, query: TextQuery) -> list[Hit]:
        hits = self.facts.find(query.text, query.top_k)
        return [
            hit.model_copy(update={"source": hit.source.model_copy(update={"file": "corpus.jsonl"})}) for hit in hits
        ]


@dataclass(frozen=True)
class PlaceSearch:
    """An `ImageSearch` that knows one place and has a thumbnail of it."""

    place: str
    thumbnail: ImageRef

    async def search(self, query: ImageQuery) -> list[Hit]:  # noqa: ARG002
        return [Hit(source=Source(title=self.place, file=f"{self.place}.png"), score=1.0, thumbnail=self.thumbnail)]


class RowMaker:
    """Draws rows; with a pool, about its scenes and with their pixels."""

    def __init__(self, renderer: Renderer, level: int, top_k: int, pool: Pool | None = None) -> None:
        self._renderer, self._level, self._top_k, self._pool = renderer, level, top_k, pool
        self._dialect = replace(get_dialect("default"), specials=renderer.vocabulary.special_tokens)
        self._tools: dict[str, Tool] = make_tools(TOOLS)
        self._summariser = ExtractiveSummariser()

    def rows(self, rng: random.Random, mix: Mix, count: int, drills: int) -> list[Row]:
        """`count` rows of episodes and `drills` of subtraction."""
        weights = mix.model_dump()
        kinds = rng.choices(list(weights), list(weights.values()), k=count)
        return [*(self.row(rng, kind) for kind in kinds), *(self.drill(rng) for _ in range(drills))]

    def row(self, rng: random.Random, kind: str) -> Row:
        """One episode played right; of kind `locate`, its first turn only."""
        asked: Kind = rng.choice(("read", "brand", "both")) if kind == "locate" else kind  # type: ignore[assignment]
        shot = self._shot(rng)
        brands = sorted({sign.name for sign in shot.scene.signs} | set(BRANDS))
        recipe = Recipe(level=self._level, cast=Cast(brands, places=PLACES))
        episode = ask_about(rng, shot.scene, asked, recipe)
        return _Played(self, rng, shot, episode).row(turns=1 if kind == "locate" else None)

    def drill(self, rng: random.Random) -> Row:
        """The last thought of a `both` episode alone: two years and what lies between them."""
        first, second = rng.choice(YEARS), rng.choice(YEARS)
        answer = combine(first, second, "difference")
        text = f"<think>the years are {first} and {second}, the answer is {answer}</think>\n<answer>{answer}</answer>"
        rendered = self._renderer.render([Message("assistant", (TextPart(text),))], reply=False)
        own = rendered.own.copy()
        own[: int(np.flatnonzero(rendered.ids == self._renderer.vocabulary.encode(str(answer))[0])[0])] = False
        return Row(rendered.ids, own, (), np.zeros((0, len(GROUPS)), np.int16))

    def _shot(self, rng: random.Random) -> Shot:
        if self._pool is not None:
            number = rng.randrange(len(self._pool.scenes))
            drawn = self._pool.scenes[number]
            return Shot(number, Scene(_BLANK, self._level, drawn.place, drawn.signs), drawn.windows)
        brands = SPARE_BRANDS if rng.random() < 0.3 else BRANDS
        signs = plan_signs(rng, LEVELS[self._level], Cast(brands))
        placed = tuple(place_sign(plan, 1.0) for plan in signs)
        return Shot(-1, Scene(_BLANK, self._level, rng.choice(PLACES), placed), ())


class _Played:
    """One episode on its way to a row."""

    def __init__(self, maker: RowMaker, rng: random.Random, shot: Shot, episode: Episode) -> None:
        self.maker, self.rng, self.shot, self.episode = maker, rng, shot, episode
        question = episode.question
        self.sign = next((s for s in shot.scene.signs if s.colour == question.colour), None)
        self.thumbnail = self._thumbnail()
        scene_ref = ImageRef(path="scene.png", width=UNIT, height=UNIT)
        place = PlaceSearch(shot.scene.place, self._thumbnail_ref())
        search = SearchServices(
            text=PassageSearch(FactSearch(episode.facts)), images=place, summariser=maker._summariser
        )
        sample = Sample(id="row", source="toy", question=question.text, system_prompt=SYSTEM_PROMPT)
        self.context = ToolContext(sample=sample, images=[scene_ref], search=search, top_k=maker._top_k)
        self.kinds: list[ImageKind] = ["input"]
        self.labels: list[Labels] = [overview_labels(shot.scene.signs, maker._level)]
        self.pixels: list[Any] = [] if maker._pool is None else [maker._pool.overviews[shot.number]]
        self.messages = [
            Message("system", (TextPart(SYSTEM_PROMPT),)),
            maker._dialect.question(question.text, [_part(scene_ref)]),
        ]

    def row(self, turns: int | None) -> Row:
        """Play the steps of the question and answer it, or only its first `turns` turns."""
        steps = self.episode.question.steps
        for call in steps[:turns]:
            call = self._varied(call)
            self._say(thought(call, self.episode.question), call, None)
            if turns is None:
                self._observe(call)
        if turns is None:
            question = self.episode.question
            self._say(last_thought(question, self.episode.facts), None, question.answer)
        rendered = self.maker._renderer.render(self.messages, reply=False)
        grids = tuple((part.view[1] // CELL, part.view[0] // CELL) for part in rendered.images)
        labels = np.concatenate(self.labels)
        kept = sum(height * width for height, width in grids)
        return Row(rendered.ids, rendered.own, grids, labels[:kept], tuple(self.pixels[: len(grids)]))

    def _varied(self, call: Call) -> Call:
        """Now and then a crop that is one step off: what follows has to be read all the same."""
        self.window = 0
        if call.name != "image_crop" or self.maker._pool is None or self.rng.random() < 0.85:
            return call
        assert self.sign is not None
        boxes = self.shot.windows[self.shot.scene.signs.index(self.sign)]
        self.window = self.rng.randrange(len(boxes))
        return call.model_copy(update={"arguments": {**call.arguments, "bbox": [float(v) for v in boxes[self.window]]}})

    def _say(self, think: str, call: Call | None, answer: str | None) -> None:
        self.messages.append(self.maker._dialect.assistant(Turn(text="", think=think, call=call, answer=answer)))

    def _observe(self, call: Call) -> None:
        tool = self.maker._tools[call.name]
        output = finished(tool.run(tool.arguments.model_validate(call.arguments), self.context))
        observation = Observation(text=output.text, images=output.images, hits=output.hits)
        parts = [_part(ref) for ref in output.images]
        self.messages.extend(self.maker._dialect.observation(observation, call, parts, self.kinds))
        self.kinds += [new_kind(call)] * len(parts)
        self.context.images.extend(output.images)
        self.context.hits.extend(output.hits)
        if call.name == "image_crop":
            self._show_crop(call)
        elif parts:
            self._show_thumbnail(parts[0])

    def _show_crop(self, call: Call) -> None:
        assert self.sign is not None
        x1, y1, x2, y2 = (round(side) for side in call.arguments["bbox"])
        self.labels.append(crop_labels(self.sign, (x1, y1, x2, y2)))
        if self.maker._pool is not None:
            at = self.shot.scene.signs.index(self.sign)
            self.pixels.append(self.maker._pool.crops[self.shot.number, at, self.window])

    def _thumbnail(self) -> Any:
        if self.maker._pool is None:
            return None
        return self.rng.choice(self.rng.choice(self.maker._pool.thumbnails))

    def _thumbnail_ref(self) -> ImageRef:
        width, height = self.rng.choice(_THUMBNAILS)
        if self.thumbnail is not None:
            height, width = self.thumbnail.shape[:2]
        return ImageRef(path=f"{self.shot.scene.place}.png", width=width, height=height)

    def _show_thumbnail(self, part: ImagePart) -> None:
        tokens = part.view[0] * part.view[1] // CELL**2
        self.labels.append(np.full((tokens, len(GROUPS)), NOTHING, np.int16))
        if self.thumbnail is not None:
            self.pixels.append(self.thumbnail)


def _part(ref: ImageRef) -> ImagePart:
    return ImagePart(ref, fit(ref.width, ref.height, LIMITS["tiny"]))


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing. Raises RuntimeError if it does wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("a tool waited for something")
