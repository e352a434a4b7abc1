import random
from pathlib import Path

import numpy as np
import pytest

from vlagent import images
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent, run_agent
from vlagent.chat.base import ChatReply, ChatRequest, ImagePart
from vlagent.cli.stage0.parts import classes, meanings, tiny_spec
from vlagent.cli.stage0.pictures import (
    crop_labels,
    crop_letters,
    load_pool,
    make_pool,
    overview_labels,
    view,
)
from vlagent.cli.stage0.pieces import pieces
from vlagent.cli.stage0.rows import PassageSearch, PlaceSearch, RowMaker, _part, _Played
from vlagent.cli.stage0.words import last_thought, thought
from vlagent.model.load import Processor
from vlagent.model.tiny import make_policy
from vlagent.randomness import rng_of
from vlagent.render.dialects import get_dialect
from vlagent.render.sizing import LIMITS
from vlagent.search.base import SearchServices
from vlagent.search.summary import ExtractiveSummariser
from vlagent.tools.image_crop import pixels_of
from vlagent.tools.registry import make_tools
from vlagent.toy.episodes import Episode, FactSearch, draw_episode
from vlagent.toy.lexicon import BRANDS, FIRST_PIECES, KINDS, OPEN_BRANDS, SECOND_PIECES, Kind
from vlagent.toy.questions import window
from vlagent.toy.scene import Cast, draw_scene
from vlagent.toy.world import SYSTEM_PROMPT
from vlagent.train.stage0.config import Mix, PictureStage
from vlagent.train.stage0.data import NOTHING
from vlagent.types import ImageRef, Sample, Turn


@pytest.fixture(scope="module")
def processor() -> Processor:
    return make_policy(tiny_spec()).processor


class Reader:
    """Plays a question's steps; keeps the last request."""

    name = "reader"

    def __init__(self, episode: Episode, specials: tuple[str, ...]) -> None:
        self.episode, self.special_tokens = episode, specials
        self.messages: list[object] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        question, turn = self.episode.question, request.key[3]
        assert isinstance(turn, int)
        if turn < len(question.steps):
            call = question.steps[turn]
            said = Turn(text="", think=thought(call, question), call=call)
        else:
            said = Turn(text="", think=last_thought(question, self.episode.facts), answer=question.answer)
        message = get_dialect("default").assistant(said)
        self.messages = [*request.messages, message]
        return ChatReply(message.text)


async def played_in_the_loop(episode: Episode, folder: Path, processor: Processor, thumbnail: ImageRef) -> Reader:
    path = folder / "scene.png"
    episode.scene.image.save(path)
    search = SearchServices(
        text=PassageSearch(FactSearch(episode.facts)),
        images=PlaceSearch(episode.scene.place, thumbnail),
        summariser=ExtractiveSummariser(),
    )
    names = ("image_crop", "text_search", "image_search")
    config = AgentConfig(pixels=LIMITS["tiny"], top_k=1, tools=names)
    sample = Sample(
        id="s",
        source="toy",
        question=episode.question.text,
        images=(images.probe(path),),
        system_prompt=SYSTEM_PROMPT,
    )
    reader = Reader(episode, processor.vocabulary.special_tokens)
    trajectory = await run_agent(Agent(reader, config, make_tools(names, search=search), search), sample)
    assert trajectory.answer == episode.question.answer
    return reader


@pytest.mark.parametrize("kind", KINDS)
async def test_a_row_is_what_the_loop_plays_token_by_token(kind: Kind, tmp_path: Path, processor: Processor) -> None:
    episode = draw_episode(random.Random(3), kind)
    maker = RowMaker(processor.renderer, 2, 1)
    from vlagent.cli.stage0.rows import Shot

    played = _Played(maker, random.Random(0), Shot(-1, episode.scene, ()), episode)
    thumbnail = played._thumbnail_ref()
    played.context.search = SearchServices(
        text=played.context.search.text,
        images=PlaceSearch(episode.scene.place, thumbnail),
        summariser=ExtractiveSummariser(),
    )
    row = played.row(None)
    reader = await played_in_the_loop(episode, tmp_path, processor, thumbnail)
    real = processor.renderer.render(reader.messages, reply=False)  # type: ignore[arg-type]
    assert processor.vocabulary.decode(row.ids) == processor.vocabulary.decode(real.ids)
    assert row.own.tolist() == real.own.tolist()
    assert list(row.grids) == processor.grids(real.images)
    assert len(row.labels) == sum(height * width for height, width in row.grids)


def test_rows_are_short_and_hardly_need_bytes(processor: Processor) -> None:
    maker, rng = RowMaker(processor.renderer, 2, 1), random.Random(0)
    for kind in KINDS:
        row = maker.row(rng, kind)
        single = sum(8 <= token < 264 for token in row.ids.tolist())
        assert len(row.ids) < 290, kind
        assert single < 24, kind


def test_locate_rows_end_with_the_first_call(processor: Processor) -> None:
    row = RowMaker(processor.renderer, 2, 1).row(random.Random(0), "locate")
    text = processor.vocabulary.decode(row.ids)
    assert text.count("<tool_call>") == 1
    assert "<tool_response>" not in text
    assert len(row.grids) == 1


def test_the_mix_decides_which_kinds_are_drawn(processor: Processor) -> None:
    maker = RowMaker(processor.renderer, 2, 1)
    nothing = dict.fromkeys(Mix.model_fields, 0.0)
    rows = maker.rows(random.Random(0), Mix(**(nothing | {"fact": 1.0})), 5, 3)
    texts = [processor.vocabulary.decode(row.ids) for row in rows]
    assert all("text_search" in text.split("</tools>")[1] for text in texts[:5])
    assert all(text.startswith("<|im_start|>assistant") for text in texts[5:])


def test_a_drill_trains_its_difference_and_not_its_years(processor: Processor) -> None:
    row = RowMaker(processor.renderer, 2, 1).drill(random.Random(1))
    text = processor.vocabulary.decode(row.ids[row.own])
    first, second = (
        int(y) for y in processor.vocabulary.decode(row.ids).split("years are ")[1].split(",")[0].split(" and ")
    )
    assert text.startswith(f"{abs(first - second)}</think>")


def test_facts_are_drawn_anew_for_every_row(processor: Processor) -> None:
    maker, rng = RowMaker(processor.renderer, 2, 1), random.Random(0)
    answers = {processor.vocabulary.decode(maker.row(rng, "fact").ids).split("<answer>")[1] for _ in range(12)}
    assert len(answers) > 8


def test_the_pool_shows_what_the_loop_would_load(tmp_path: Path) -> None:
    scene = draw_scene(random.Random(5))
    scene.image.save(tmp_path / "scene.png")
    ref = images.probe(tmp_path / "scene.png")
    box = pixels_of([250.0, 400.0, 650.0, 600.0], scene.image.size)
    for shown, mine in ((ref, view(scene.image)), (images.crop(ref, box), view(scene.image, box))):
        part: ImagePart = _part(shown)
        assert np.array_equal(np.asarray(images.load(part.ref, part.view)), mine)


def test_pools_are_drawn_once_and_keep_names_of_the_open_test_out(tmp_path: Path) -> None:
    stage = PictureStage(scenes=6, thumbnails=4)
    make_pool(tmp_path, stage, range(6), 2, 0)
    before = (tmp_path / "crops.npy").stat().st_mtime_ns
    make_pool(tmp_path, stage, range(6), 2, 0)
    assert (tmp_path / "crops.npy").stat().st_mtime_ns == before
    pool = load_pool(tmp_path)
    assert not {sign.name for scene in pool.scenes for sign in scene.signs} & set(OPEN_BRANDS)
    crops = pool.crop_pictures()
    assert crops.pixels.shape == (36, 64, 128, 3)
    assert crops.labels.shape == (36, 32, 5)
    assert crops.letters is not None
    assert crops.letters.shape == (36, 128)
    assert pool.overview_pictures().labels.shape == (6, 36, 5)
    assert all((part.labels == NOTHING).all() for part in pool.thumbnail_pictures())


def test_labels_say_what_lies_under_a_token() -> None:
    scene = draw_scene(random.Random(9), cast=Cast(BRANDS))
    labels = overview_labels(scene.signs).reshape(6, 6, 5)
    for sign in scene.signs:
        column, row = (int((sign.box[i] + sign.box[i + 2]) / 2 / 640 * 6) for i in (0, 1))
        best = window(sign.box, 640, 2)
        assert labels[row, column, 1] == best[0] // 50
        assert labels[row, column, 2] == best[1] // 50
        crop = crop_labels(sign, best)
        assert {FIRST_PIECES[i] for i in crop[:, 3] if i >= 0} == {sign.name[:3]}
        assert {SECOND_PIECES[i] for i in crop[:, 4] if i >= 0} == {sign.name[3:]}
        letters = {chr(64 + n) for n in crop_letters([sign], best) if n}
        assert letters <= set(sign.name)
        assert len(letters) >= len(set(sign.name)) - 1


def test_rows_with_pixels_have_a_picture_for_every_grid(tmp_path: Path, processor: Processor) -> None:
    make_pool(tmp_path, PictureStage(scenes=4, thumbnails=4), range(4), 2, 0)
    maker = RowMaker(processor.renderer, 2, 1, load_pool(tmp_path))
    for number in range(12):
        row = maker.row(rng_of("row", number), "both")
        assert [(one.shape[0] // 16, one.shape[1] // 16) for one in row.pixels] == list(row.grids)
        assert len(row.labels) == sum(height * width for height, width in row.grids)


def test_every_meaning_and_class_is_a_single_token(processor: Processor) -> None:
    vocabulary = processor.vocabulary
    found = meanings(vocabulary, 2)
    assert len(set(found.years)) == 70
    assert len(set(found.differences)) == 70
    assert found.codes[vocabulary.encode("650")[0]] == [(2, 13)]
    assert found.codes[vocabulary.encode("600")[0]] == [(1, 12), (2, 12)]
    assert all(len(set(ids)) == len(ids) for ids in classes(vocabulary).values())
    assert len(set(pieces())) == len(pieces())
