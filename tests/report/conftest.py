"""A run folder with one of everything, and a headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.browser import browser  # noqa: F401 - a fixture
from vlagent.files import append_jsonl, write_json
from vlagent.types import (
    Call,
    EvalRow,
    Fault,
    ImageRef,
    Observation,
    Outcome,
    Reward,
    Sample,
    Source,
    StopReason,
    Timings,
    Trajectory,
    Turn,
    Usage,
)

EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def photo(path: Path, size: tuple[int, int] = (640, 480)) -> ImageRef:
    image = Image.linear_gradient("L").resize(size)
    Image.merge("RGB", (image, image.rotate(180), Image.new("L", size, 90))).save(path)
    return ImageRef(path=str(path), width=size[0], height=size[1])


def good(sample: Sample, picture: ImageRef) -> Trajectory:
    crop = ImageRef(path=picture.path, width=128, height=96, box=(320, 240, 448, 336))
    page = Source(title="Harbour report", file="/srv/docs/harbour.pdf", page=12)
    web = Source(title="Belmont Tower", url="https://example.org/belmont")
    turns = (
        Turn(
            text='<think>The sign is small.</think><tool_call>{"name": "image_crop"}</tool_call>',
            think="The sign is small.",
            call=Call(name="image_crop", arguments={"bbox": [500, 500, 700, 700], "image_index": 0}),
            repairs=("image_index missing",),
            observation=Observation(text="Image 1 is the region.", images=(crop,)),
            latency_s=0.4,
        ),
        Turn(
            text="<think>Find it.</think>",
            think="Find it.",
            call=Call(name="text_search", arguments={"query": "Belmont harbour founding"}),
            format_ok=True,
            observation=Observation(text=f"Joint summary. {EVIL}", sources=(page, web)),
        ),
        Turn(text="<answer>1931</answer>", think="Clear now.", answer="1931", format_ok=True),
    )
    return Trajectory(
        sample_id=sample.id,
        turns=turns,
        answer="1931",
        stop=StopReason.ANSWERED,
        images=(picture, crop),
        sources=(page, web),
        system_prompt="You may use tools.",
        prompt=sample.question,
        usage=Usage(prompt_tokens=900, completion_tokens=120, calls=3),
        timings=Timings(total_s=4.2),
    )


def ended(sample: Sample, picture: ImageRef, stop: StopReason, fault: Fault) -> Trajectory:
    turn = Turn(
        text="<think>?</think>",
        think="?",
        call=Call(name="image_search", arguments={"image_index": 0}),
        observation=Observation(text="image_search is unavailable.", fault=fault),
    )
    return Trajectory(sample_id=sample.id, turns=(turn,), stop=stop, stop_detail="why it ended", images=(picture,))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An evaluation of five questions: right, wrong, unscored, failed, not counted."""
    folder = tmp_path / "run"
    folder.mkdir()
    picture = photo(tmp_path / "photo.png")
    questions = ("When was the harbour founded?", "Who owns it?", f"Evil {EVIL}", "Is it 港?", "Anything?")
    samples = [
        Sample(id=f"s{i}", source="toy", question=q, images=(picture,), answers=("1931",))
        for i, q in enumerate(questions)
    ]
    trajectories = [
        good(samples[0], picture),
        ended(samples[1], picture, StopReason.TURN_LIMIT, Fault.MODEL),
        Trajectory(sample_id="s2", turns=(Turn(text=EVIL, answer=EVIL),), answer=EVIL, stop=StopReason.ANSWERED),
        ended(samples[3], picture, StopReason.MODEL_FAILURE, Fault.WORLD),
        ended(samples[4], picture, StopReason.CANCELLED, Fault.WORLD),
    ]
    outcomes = (Outcome.RIGHT, Outcome.WRONG, Outcome.UNSCORED, Outcome.FAILED, Outcome.NOT_COUNTED)
    rows = [
        EvalRow(
            suite="toy",
            sample_id=t.sample_id,
            outcome=outcome,
            answer=t.answer,
            answers=("1931",),
            why="equal after normalisation",
            stop=t.stop,
            reward=Reward(parts={"match": 1.0}, weights={"match": 1.0}) if outcome is Outcome.RIGHT else None,
            slices={"kind": "fact"},
        )
        for t, outcome in zip(trajectories, outcomes, strict=True)
    ]
    append_jsonl(folder / "samples.jsonl", *samples)
    append_jsonl(folder / "trajectories.jsonl", *trajectories)
    append_jsonl(folder / "rows.jsonl", *rows)
    write_json(folder / "config.json", {"model": "fake", "temperature": 0})
    return folder


@contextmanager
def opened(chromium: Any, uri: str) -> Iterator[Any]:
    """A page in a window of a laptop's size, without a network; an error in its console fails the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light", offline=True)
    page = context.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.goto(uri)
    yield page
    assert page.problems == []
    context.close()
