"""Trajectories on disk."""

from __future__ import annotations

import numpy as np
import pytest

from tests.agent.parts import Policy, Shelf, answer, call, make_agent, sample
from vlagent.agent.loop import run_agent
from vlagent.agent.store import read_trajectories, tokens_path, write_trajectory
from vlagent.chat.base import ChatReply
from vlagent.errors import UserError
from vlagent.types import StopReason, Tokens, Trajectory, Turn


def turn(*ids: int, logprobs: bool = True) -> Turn:
    values = np.array([-0.5 * i for i in ids], dtype=np.float32) if logprobs else None
    return Turn(text="x", tokens=Tokens(np.array(ids, dtype=np.int64), values))


def trajectory(id: str = "s1", *turns: Turn, rollout: int = 0, stop=StopReason.ANSWERED) -> Trajectory:
    return Trajectory(sample_id=id, rollout=rollout, turns=turns, stop=stop)


async def test_an_episode_comes_back_with_the_tokens_that_were_sampled(tmp_path):
    ids = {0: [5, 151_643, 7], 1: [8]}

    def engine(request):
        index = request.key[-1]
        text = answer("x") if index else call("text_search", query="castore")
        return ChatReply(text, tokens=Tokens(np.array(ids[index]), np.array([-0.25] * len(ids[index]), np.float32)))

    played = await run_agent(make_agent(Policy(engine), Shelf()), sample())
    write_trajectory(tmp_path, played)
    [back] = read_trajectories(tmp_path)
    assert back.model_dump() == played.model_dump()
    for index, turn in enumerate(back.turns):
        assert turn.tokens.ids.tolist() == ids[index]
        assert turn.tokens.ids.dtype == np.int64
        assert turn.tokens.logprobs.tolist() == [-0.25] * len(ids[index])
    assert "151643" not in (tmp_path / "trajectories.jsonl").read_text()


def test_turns_without_tokens_and_tokens_without_logprobs_stay_so(tmp_path):
    write_trajectory(tmp_path, trajectory("s1", Turn(text="a"), turn(1, 2, logprobs=False), turn()))
    write_trajectory(tmp_path, trajectory("s2", Turn(text="a")))
    first, second = read_trajectories(tmp_path)
    assert [t.tokens is None for t in first.turns] == [True, False, False]
    assert first.turns[1].tokens.logprobs is None
    assert first.turns[2].tokens.ids.shape == (0,)
    assert second.turns[0].tokens is None


def test_names_of_samples_are_safe_and_never_collide(tmp_path):
    names = ["../../etc/passwd", "a/b", "a_b", "A_b", "寺" * 300, "", "con", "a\x00b"]
    for number, name in enumerate(names):
        write_trajectory(tmp_path, trajectory(name, turn(number)))
        write_trajectory(tmp_path, trajectory(name, turn(100 + number), rollout=1))
    assert len({tokens_path(tmp_path, t).name.casefold() for t in read_trajectories(tmp_path)}) == 2 * len(names)
    assert all(path.parent == tmp_path / "tokens" for path in tmp_path.rglob("*.safetensors"))
    kept = {(t.sample_id, t.rollout): t.turns[0].tokens.ids[0] for t in read_trajectories(tmp_path)}
    assert kept == {(name, r): n + 100 * r for n, name in enumerate(names) for r in (0, 1)}


def test_of_several_attempts_at_one_episode_the_last_counts(tmp_path):
    write_trajectory(tmp_path, trajectory("s1", turn(1), stop=StopReason.MODEL_FAILURE))
    write_trajectory(tmp_path, trajectory("s2", turn(2)))
    write_trajectory(tmp_path, trajectory("s1", turn(3, 4)))
    got = [(t.sample_id, t.stop, t.turns[0].tokens.ids.tolist()) for t in read_trajectories(tmp_path)]
    assert got == [("s2", StopReason.ANSWERED, [2]), ("s1", StopReason.ANSWERED, [3, 4])]


def test_a_torn_line_is_skipped_and_the_next_one_starts_clean(tmp_path):
    write_trajectory(tmp_path, trajectory("s1", turn(1)))
    path = tmp_path / "trajectories.jsonl"
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        path.write_bytes(whole + whole[:-cut])
        assert [t.sample_id for t in read_trajectories(tmp_path)] == ["s1"]
    write_trajectory(tmp_path, trajectory("s2", turn(2)))
    assert [t.sample_id for t in read_trajectories(tmp_path)] == ["s1", "s2"]


def test_tokens_of_an_attempt_whose_record_a_kill_prevented_are_not_taken_for_others(tmp_path):
    first = trajectory("s1", turn(1))
    write_trajectory(tmp_path, first)
    record = (tmp_path / "trajectories.jsonl").read_bytes()
    write_trajectory(tmp_path, trajectory("s1", turn(9), turn(9)))
    (tmp_path / "trajectories.jsonl").write_bytes(record)
    [back] = read_trajectories(tmp_path)
    assert back.turns[0].tokens is None


def test_a_damaged_token_file_is_one_clear_line(tmp_path):
    write_trajectory(tmp_path, trajectory("s1", turn(1, 2, 3)))
    [path] = tmp_path.rglob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="not a token file"):
        list(read_trajectories(tmp_path))


def test_a_folder_without_trajectories_holds_none(tmp_path):
    assert list(read_trajectories(tmp_path)) == []
