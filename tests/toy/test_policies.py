from __future__ import annotations

from dataclasses import replace

import pytest

from tests.toy.parts import World
from vlagent.chat.base import ChatRequest
from vlagent.errors import UserError
from vlagent.render.dialects import DIALECTS
from vlagent.tools.base import ToolContext, ToolOutput
from vlagent.tools.image_crop import ImageCrop, ImageCropArguments
from vlagent.toy.controls import CONTROLS, NoImages, SwappedCrop
from vlagent.toy.lexicon import KINDS
from vlagent.toy.policies import DirectPolicy, OraclePolicy, RandomPolicy
from vlagent.types import Sample, StopReason


async def test_the_oracle_answers_every_question_with_the_fewest_calls(world: World) -> None:
    played = await world.play(OraclePolicy(world.samples))
    for sample, trajectory in zip(world.samples, played, strict=True):
        assert trajectory.stop is StopReason.ANSWERED
        assert trajectory.answer == sample.answers[0]
        assert len(trajectory.turns) == sample.extra["min_calls"] + 1
        assert all(turn.format_ok and not turn.repairs for turn in trajectory.turns)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "default"])
async def test_the_oracle_is_right_in_every_dialect(world: World, dialect: str) -> None:
    few = replace(world, samples=world.samples[:5])
    assert await few.right(OraclePolicy(few.samples, dialect), dialect=dialect) == dict.fromkeys(KINDS, 1)


@pytest.mark.parametrize("name", CONTROLS)
async def test_a_control_ruins_its_kinds_and_no_other(world: World, name: str) -> None:
    control = CONTROLS[name]
    right = await world.right(OraclePolicy(world.samples), control.apply(world.setup))
    assert sum(right[kind] for kind in control.kinds) <= 2
    assert all(right[kind] == 4 for kind in KINDS if kind not in control.kinds)


class CropBesideIt(ImageCrop):
    """Two per cent off to the right and down."""

    async def run(self, arguments: ImageCropArguments, context: ToolContext) -> ToolOutput:
        x1, y1, x2, y2 = (min(1000.0, side + 20) for side in arguments.bbox)
        return await super().run(ImageCropArguments(bbox=[x1, y1, x2, y2], image_index=0), context)


async def test_the_oracle_needs_the_crop_that_it_asked_for(world: World) -> None:
    broken = replace(world.setup, tools={**world.setup.tools, "image_crop": CropBesideIt()})
    right = await world.right(OraclePolicy(world.samples), broken)
    assert right["read"] + right["brand"] + right["both"] <= 1
    assert right["fact"] == right["place"] == 4


async def test_blind_policies_score_the_guess_level(world: World) -> None:
    assert sum((await world.right(RandomPolicy(world.samples))).values()) <= 3
    assert await world.right(DirectPolicy(world.samples)) == dict.fromkeys(KINDS, 1)


async def test_the_random_policy_draws_by_the_key_of_the_request(world: World) -> None:
    few = replace(world, samples=world.samples[:5])
    once, again = [await few.play(RandomPolicy(world.samples)) for _ in range(2)]
    assert [[turn.text for turn in t.turns] for t in once] == [[turn.text for turn in t.turns] for t in again]
    assert len({t.turns[0].text for t in once}) > 1


async def test_a_policy_refuses_rows_that_it_does_not_know(world: World) -> None:
    with pytest.raises(UserError, match="not given this row"):
        await OraclePolicy(world.samples).complete(ChatRequest((), key=(0, "elsewhere", 0, 0)))
    with pytest.raises(UserError, match="not a row of a toy world"):
        OraclePolicy([Sample(id="photo", source="x", question="?", answers=("y",))])


def test_a_control_says_what_it_lacks(world: World) -> None:
    bare = replace(world.setup, other_text=None, scenes=())
    with pytest.raises(UserError, match="another split"):
        CONTROLS["other_text_index"].apply(bare)
    with pytest.raises(UserError, match="two scenes"):
        SwappedCrop(bare.scenes)
    assert isinstance(CONTROLS["empty_image_search"].apply(bare).search.images, NoImages)
