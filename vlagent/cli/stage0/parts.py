"""One process of a run: it draws what it needs of the toy world and hands it to the trainer as arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from vlagent.agent.config import AgentConfig
from vlagent.chat.base import Sampling
from vlagent.cli.stage0.pictures import load_pool, make_pool
from vlagent.cli.stage0.pieces import DIFFERENCES, GRID, pieces
from vlagent.cli.stage0.rows import TOOLS, RowMaker
from vlagent.files import write_json
from vlagent.model.chatml import Vocabulary
from vlagent.model.tiny import TinySpec, make_policy
from vlagent.randomness import rng_of
from vlagent.render.prompts import Prompts
from vlagent.render.sizing import LIMITS
from vlagent.toy.lexicon import COLOURS, FIRST_PIECES, LEVELS, PLACE_KINDS, PLACE_NAMES, SECOND_PIECES, YEARS
from vlagent.toy.world import SYSTEM_PROMPT
from vlagent.train.stage0.config import Phase, Stage0Config
from vlagent.train.stage0.data import Row
from vlagent.train.stage0.stages import Run, meet, train_decoder, train_join, train_vision, write_base
from vlagent.train.stage0.start import Meanings
from vlagent.train.stage0.vision import VisionData


def tiny_spec() -> TinySpec:
    """The model of the toy world."""
    return TinySpec(pieces=pieces())


def run_part(name: str, config: Stage0Config, folder: Path, here: int) -> None:
    """Run one part in this process."""
    parts = {"pictures": _draw, "vision": _vision, "decoder": _decoder, "join": _join}
    parts[name](config, folder, here)


def _draw(config: Stage0Config, folder: Path, here: int) -> None:
    """Half of the scenes; the second process draws the held-out ones too."""
    stage, half = config.pictures, config.pictures.scenes // 2
    scenes = range(half) if here == 0 else range(half, stage.scenes)
    make_pool(folder / "pictures" / str(here), stage, scenes, config.level, config.seed)
    if here == 1:
        held = range(stage.scenes, stage.scenes + stage.held_scenes)
        make_pool(folder / "pictures" / "held", stage, held, config.level, config.seed)


def _vision_data(folder: Path) -> VisionData:
    pool = load_pool(folder / "pictures" / "0", folder / "pictures" / "1")
    held = load_pool(folder / "pictures" / "held")
    return VisionData(
        pool.overview_pictures(),
        pool.crop_pictures(),
        pool.thumbnail_pictures(),
        held.overview_pictures(),
        held.crop_pictures(),
    )


def _run(config: Stage0Config, folder: Path) -> Run:
    return Run(config, folder, tiny_spec(), lambda line: print(line, file=sys.stderr, flush=True))


def _vision(config: Stage0Config, folder: Path, here: int) -> None:  # noqa: ARG001
    train_vision(_run(config, folder), _vision_data(folder))


def _decoder(config: Stage0Config, folder: Path, here: int) -> None:  # noqa: ARG001
    processor = make_policy(tiny_spec(), config.seed).processor
    maker = RowMaker(processor.renderer, config.level, config.top_k)

    def draw(step: int, phase: Phase) -> list[Row]:
        return maker.rows(rng_of("decoder rows", config.seed, step), phase.mix, phase.rows, phase.drills)

    vocabulary = processor.vocabulary
    train_decoder(_run(config, folder), draw, meanings(vocabulary, config.level), classes(vocabulary))


def _join(config: Stage0Config, folder: Path, here: int) -> None:
    meet(folder, here, config.join.processes)
    pool = load_pool(folder / "pictures" / "0", folder / "pictures" / "1")
    maker = RowMaker(make_policy(tiny_spec(), config.seed).processor.renderer, config.level, config.top_k, pool)
    stage = config.join

    def draw_of(rank: int, processes: int) -> Callable[[int], list[Row]]:
        def draw(step: int) -> list[Row]:
            rng = rng_of("join rows", config.seed, step, rank)
            return maker.rows(rng, stage.mix, stage.rows // processes, stage.drills // processes)

        return draw

    run = _run(config, folder)
    if here == 0:
        write_base(run)
    train_join(run, draw_of, _vision_data(folder))
    if here == 0:
        for name in ("base", "trained"):
            write_json(folder / name / "agent.json", tiny_agent(config.top_k))


def tiny_agent(top_k: int) -> AgentConfig:
    """How episodes have to run for a model of this stage: it knows this prompt, these sizes, tools and layouts."""
    return AgentConfig(
        pixels=LIMITS["tiny"],
        tools=TOOLS,
        top_k=top_k,
        max_turns=8,
        max_tokens_turn=64,
        max_tokens_total=640,
        sampling=Sampling(temperature=1.0),
        prompts=Prompts(system=SYSTEM_PROMPT),
    )


def meanings(vocabulary: Vocabulary, level: int) -> Meanings:
    """Which token names which code, and the tokens of numbers."""

    def token(text: str) -> int:
        ids = vocabulary.encode(text)
        assert len(ids) == 1, text
        return ids[0]

    rules = LEVELS[level]
    codes: dict[int, list[tuple[int, int]]] = {}
    for group, words in ((0, tuple(COLOURS)), (3, FIRST_PIECES), (4, SECOND_PIECES)):
        codes |= {token(word): [(group, at)] for at, word in enumerate(words)}
    for value in GRID:
        named = [(group, value // rules.step) for group, size in ((1, 0), (2, 1)) if value <= 1000 - rules.window[size]]
        if named and value % rules.step == 0:
            codes[token(str(value))] = named
    return Meanings(codes, [token(str(year)) for year in YEARS], [token(str(n)) for n in DIFFERENCES])


def classes(vocabulary: Vocabulary) -> dict[str, list[int]]:
    """Kinds of tokens whose accuracy tells how far the decoder is."""
    words = {
        "coordinate": tuple(str(value) for value in GRID if value >= 100),
        "piece": (*FIRST_PIECES, *SECOND_PIECES),
        "place": (*PLACE_NAMES, *(f" {kind}" for kind in PLACE_KINDS)),
        "year": tuple(map(str, YEARS)),
        "difference": tuple(str(n) for n in DIFFERENCES if n not in GRID),
    }
    return {name: [vocabulary.encode(text)[0] for text in texts] for name, texts in words.items()}
