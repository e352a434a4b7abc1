from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.agent.parts import answer
from tests.train.rl.plays import CROP, LOOK_UP, Marker, Shelf, play
from vlagent.errors import UserError
from vlagent.files import read_json, write_json
from vlagent.rewards.judge import Judge
from vlagent.train.rl.recorded import read_groups, recorded_steps, step_folder, write_groups
from vlagent.types import Group, Tokens

FILES = ["groups.json", "rows.jsonl", "samples.jsonl", "tokens.safetensors", "trajectories.jsonl"]


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory, processor: Any) -> list[Group]:
    """Right, wrong, degraded and judged episodes."""
    folder = tmp_path_factory.mktemp("play")
    line = lambda name, rollout, turn: [CROP, LOOK_UP, answer(f"a{rollout}")][min(2, turn)]  # noqa: E731
    return play(folder, processor, line, samples=3, text=Shelf(works=4), judge=Judge(Marker(works=2)))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_groups_come_back_as_they_were_written(tmp_path: Path, groups: list[Group]) -> None:
    write_groups(tmp_path, 3, groups)
    back = read_groups(tmp_path, 3)
    assert [group.sample for group in back] == [group.sample for group in groups]
    assert [group.rewards for group in back] == [group.rewards for group in groups]
    assert [group.rows for group in back] == [group.rows for group in groups]
    assert any(reward is None for group in back for reward in group.rewards)
    for one, other in zip(back, groups, strict=True):
        for mine, theirs in zip(one.trajectories, other.trajectories, strict=True):
            assert mine.model_dump_json() == theirs.model_dump_json()
            for a, b in zip(mine.turns, theirs.turns, strict=True):
                assert a.tokens.ids.tobytes() == b.tokens.ids.tobytes()
                assert a.tokens.logprobs.tobytes() == b.tokens.logprobs.tobytes()


def test_what_was_read_is_written_byte_for_byte(tmp_path: Path, groups: list[Group]) -> None:
    first = write_groups(tmp_path / "a", 3, groups)
    second = write_groups(tmp_path / "b", 3, read_groups(tmp_path / "a", 3))
    assert list(content(first)) == FILES
    assert content(first) == content(second)


def test_turns_without_tokens_or_without_log_probabilities_come_back_so(tmp_path: Path, groups: list[Group]) -> None:
    first = groups[0].trajectories[0]
    bare = first.turns[0].model_copy(update={"tokens": None})
    plain = first.turns[1].model_copy(update={"tokens": Tokens(np.array([5, 6]), None)})
    changed = first.model_copy(update={"turns": (bare, plain, *first.turns[2:])})
    write_groups(tmp_path, 0, [Group(groups[0].sample, [changed], [None], [groups[0].rows[0]])])
    turns = read_groups(tmp_path, 0)[0].trajectories[0].turns
    assert turns[0].tokens is None
    assert turns[1].tokens.ids.tolist() == [5, 6]
    assert turns[1].tokens.logprobs is None
    assert turns[2].tokens.ids.tolist() == first.turns[2].tokens.ids.tolist()


def test_a_step_is_replaced_as_a_whole(tmp_path: Path, groups: list[Group]) -> None:
    write_groups(tmp_path, 3, groups)
    write_groups(tmp_path, 3, groups[:1])
    assert len(read_groups(tmp_path, 3)) == 1
    assert recorded_steps(tmp_path) == [3]
    assert [path.name for path in tmp_path.iterdir()] == ["step-000003"]


def test_a_step_that_is_not_there_or_damaged_is_named(tmp_path: Path, groups: list[Group]) -> None:
    with pytest.raises(UserError, match="step-000001"):
        read_groups(tmp_path, 1)
    place = write_groups(tmp_path, 1, groups)
    (place / "tokens.safetensors").write_bytes(b"junk")
    with pytest.raises(UserError, match="not the tokens of a step"):
        read_groups(tmp_path, 1)
    write_groups(tmp_path, 1, groups)
    lines = (place / "trajectories.jsonl").read_text().splitlines(keepends=True)
    (place / "trajectories.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(UserError, match="6 episodes, 5 are there"):
        read_groups(tmp_path, 1)


def killed_while(work: Callable[[], None], times: int, after_s: float) -> None:
    """Run it over and over in a process of its own; kill that a moment after it was done so many times."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            while True:
                work()
                os.write(tell, b".")
        finally:
            os._exit(1)
    for _ in range(times):
        os.read(told, 1)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(told)
    os.close(tell)


def test_a_kill_in_writing_leaves_a_whole_step_or_none(tmp_path: Path, groups: list[Group]) -> None:
    expected = content(write_groups(tmp_path / "expected", 0, groups))
    seen = 0
    for attempt in range(8):
        killed_while(lambda: write_groups(tmp_path, 0, groups), 1, 0.001 * attempt)
        for step in recorded_steps(tmp_path):
            assert content(step_folder(tmp_path, step)) == expected
            seen += 1
    assert seen
    assert content(write_groups(tmp_path, 0, groups)) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected", "step-000000"]


def test_a_record_reads_like_a_run_of_episodes(tmp_path: Path, groups: list[Group]) -> None:
    from vlagent.agent.store import read_trajectories
    from vlagent.bench.runs import read_samples

    place = write_groups(tmp_path, 0, groups)
    assert [sample.id for sample in read_samples(place)] == ["s0", "s1"]
    assert len(list(read_trajectories(place))) == 6


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [None, b"", b"\x00\xff", b"[1]\n", b"{}\n"], ids=repr)
def test_every_file_of_a_record_that_is_damaged_is_named(
    tmp_path: Path, groups: list[Group], name: str, content: bytes | None
) -> None:
    file = write_groups(tmp_path, 0, groups) / name
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(UserError, match="step-000000") as caught:
        read_groups(tmp_path, 0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"turns": None},
        {"turns": np.array([[9, 0, 2]])},
        {"turns": np.array([[0, 9, 2]])},
        {"turns": np.array([1, 2, 3])},
        {"ids": np.array([1])},
        {"logprobs": np.zeros(1, np.float32)},
    ],
    ids=repr,
)
def test_tokens_of_other_episodes_are_refused(tmp_path: Path, groups: list[Group], change: dict[str, Any]) -> None:
    file = write_groups(tmp_path, 0, groups) / "tokens.safetensors"
    tensors = load_file(file) | change
    save_file({name: value for name, value in tensors.items() if value is not None}, file)
    with pytest.raises(UserError, match=r"not the tokens of these episodes; remove"):
        read_groups(tmp_path, 0)


@pytest.mark.parametrize("change", [{"step": 1}, {"sizes": [2, 4]}, {"sizes": [-1, 7]}], ids=repr)
def test_an_index_of_other_groups_is_refused(tmp_path: Path, groups: list[Group], change: dict[str, Any]) -> None:
    file = write_groups(tmp_path, 0, groups) / "groups.json"
    write_json(file, read_json(file) | change)
    with pytest.raises(UserError, match=r"step-000000.* remove"):
        read_groups(tmp_path, 0)


def test_a_folder_of_another_name_is_no_step(tmp_path: Path, groups: list[Group]) -> None:
    write_groups(tmp_path, 2, groups)
    for name in ("step-000003 (copy)", "step-x", "step-000002.bak"):
        (tmp_path / name).mkdir()
    assert recorded_steps(tmp_path) == [2]
