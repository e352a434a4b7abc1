"""Episodes drawn in memory: scene, facts and question anew each time, nothing on disk. For stage 0 and quick tests."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from vlagent.search.base import ImageQuery, TextQuery
from vlagent.toy.facts import RELATIONS, Facts, draw_facts, search_words
from vlagent.toy.lexicon import BRANDS, LEVELS, Kind, places_of
from vlagent.toy.questions import Form, Question, ask, ask_both
from vlagent.toy.scene import Cast, Scene, draw_scene
from vlagent.types import Hit, Source


@dataclass(frozen=True, eq=False)
class Episode:
    """One question about one scene in a world of its own."""

    scene: Scene
    facts: Facts
    question: Question


@dataclass(frozen=True)
class Recipe:
    """What episodes are drawn from."""

    level: int = 2
    canvas: int = 640
    form: Form = "difference"
    cast: Cast = field(default_factory=lambda: Cast(BRANDS, places=places_of("train", 0)))


def draw_episode(rng: random.Random, kind: Kind, recipe: Recipe | None = None) -> Episode:
    """Draw one episode; the same generator state gives the same one."""
    recipe = recipe or Recipe()
    scene = draw_scene(rng, recipe.level, recipe.canvas, recipe.cast)
    return ask_about(rng, scene, kind, recipe)


def ask_about(rng: random.Random, scene: Scene, kind: Kind, recipe: Recipe) -> Episode:
    """A question with facts of its own about a scene that exists (a pool of scenes serves many episodes)."""
    brands = sorted({*(recipe.cast.brands or BRANDS), *(sign.name for sign in scene.signs)})
    facts = draw_facts(rng, brands, sorted({*recipe.cast.places, scene.place}))
    signs = list(scene.signs)
    rng.shuffle(signs)
    shuffled = Scene(scene.image, scene.level, scene.place, tuple(signs))
    if kind == "both":
        return Episode(scene, facts, ask_both(facts, shuffled, signs[0], recipe.form))
    subject = rng.choice(brands if rng.random() < 0.5 else list(recipe.cast.places))
    relation = rng.choice([name for name in RELATIONS if name in LEVELS[recipe.level].relations])
    return Episode(scene, facts, ask(kind, facts, shuffled, subject, relation))


@dataclass(frozen=True)
class FactSearch:
    """A `TextSearch` over facts in memory: the passages of the names in the query, the asked relation first."""

    facts: Facts

    async def search(self, query: TextQuery) -> list[Hit]:
        return self.find(query.text, query.top_k)

    def find(self, text: str, top_k: int = 5) -> list[Hit]:
        """The same without waiting."""
        words = set(re.findall(r"\w+", text.lower()))
        scored = []
        for name in self.facts.values:
            shared = len(words & set(name.lower().split())) / len(name.split())
            for relation in RELATIONS if shared else ():
                asked = search_words(name, relation).rsplit(" ", 1)[-1] in words
                scored.append((shared + 0.5 * asked, name, relation))
        scored.sort(key=lambda item: -item[0])
        return [
            Hit(source=Source(title=name), text=self.facts.sentence(name, relation), score=score)
            for score, name, relation in scored[:top_k]
        ]


@dataclass(frozen=True)
class PlaceSearch:
    """An `ImageSearch` that knows the place of one scene."""

    place: str

    async def search(self, query: ImageQuery) -> list[Hit]:
        return [Hit(source=Source(title=self.place), score=1.0)][: query.top_k]
