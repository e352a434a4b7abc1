"""Synthesis: which episode is kept, what help is never kept, and that nothing is paid for twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.curate.kills import killed_until_done, paid_twice
from tests.curate.world import answer, dear, episode, look, questions, sample, search, synthesise_here
from vlagent.agent.store import read_trajectories
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.chat.scripted import Scripted
from vlagent.cli.main import main
from vlagent.curate.flaws_leak import leaks
from vlagent.curate.synthesise import Settings
from vlagent.curate.synthesise_coach import Coached, shots_of
from vlagent.curate.synthesise_experts import read_experts
from vlagent.errors import UserError
from vlagent.files import read_records
from vlagent.types import EvalRow, Outcome, Sample, Trajectory


def write_experts(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


async def test_only_right_episodes_are_kept_one_a_question(tmp_path: Path) -> None:
    made = await synthesise_here(tmp_path, dear(tmp_path), questions(12))
    kept = list(read_trajectories(tmp_path / "run"))
    rows = list(read_records(tmp_path / "run" / "rows.jsonl", EvalRow))
    assert len(kept) == len(rows) == made.kept == len({each.sample_id for each in kept})
    assert all(row.outcome is Outcome.RIGHT for row in rows)
    assert made.kept + len(made.unsolved) == 12
    assert made.attempts == 36


async def test_enough_stops_asking_for_what_is_solved(tmp_path: Path) -> None:
    every = await synthesise_here(tmp_path / "every", dear(tmp_path), questions(12))
    enough = await synthesise_here(tmp_path / "enough", dear(tmp_path), questions(12), Settings(enough=1))
    assert enough.attempts < every.attempts
    assert enough.kept == every.kept


async def test_the_fewest_calls_win_and_then_the_form(tmp_path: Path) -> None:
    asked = questions(1)
    right = "<think>add</think><answer>0</answer>"
    call = '<think>look</think><tool_call>{"name": "text_search", "arguments": {"query": "sum"}}</tool_call>'
    lines = {0: [call, call.replace("sum", "add"), right], 1: [call, "<answer>0</answer>"], 2: [call, right]}
    model = Scripted(lambda request: _line(lines[int(str(request.key[0]))], request), name="three ways")
    made = await synthesise_here(tmp_path, model, asked)
    (kept,) = read_trajectories(tmp_path / "run")
    assert made.right == 3
    assert kept.rollout == 2


def _line(lines: list[str], request: ChatRequest) -> str:
    return lines[sum(message.role == "assistant" for message in request.messages)]


async def test_a_person_is_played_through_the_real_loop_and_wins(tmp_path: Path) -> None:
    call = '<think>by hand</think><tool_call>{"name": "text_search", "arguments": {"query": "sum"}}</tool_call>'
    again = call.replace("sum", "sums of two")
    asked = questions(3)
    path = write_experts(
        tmp_path / "experts.jsonl",
        {"sample_id": "sums-001", "turns": [call, again, "<think>so</think><answer>2</answer>"]},
        {
            "sample_id": "sums-002",
            "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": call}],
        },
    )
    experts = read_experts(path, asked)
    made = await synthesise_here(tmp_path, dear(tmp_path), asked, Settings(experts=str(path)), experts=experts)
    kept = {each.sample_id: each for each in read_trajectories(tmp_path / "run")}
    assert made.experts == 1
    assert kept["sums-001"].turns[0].think == "by hand"
    assert kept["sums-001"].turns[0].observation is not None
    assert "Adding makes a sum." in kept["sums-001"].turns[0].observation.text
    assert "sums-002" not in kept or kept["sums-002"].turns[0].think != "by hand"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"sample_id": "nobody", "turns": ["x"]}, "nobody"),
        ({"sample_id": "sums-000", "turns": []}, "assistant"),
        ({"sample_id": "sums-000"}, "turns"),
    ],
)
def test_an_expert_line_that_cannot_be_used_is_named(tmp_path: Path, line: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_experts(write_experts(tmp_path / "e.jsonl", line), questions(1))


async def test_the_hint_reaches_the_model_and_nothing_that_is_kept(tmp_path: Path) -> None:
    shown: list[str] = []

    def script(request: ChatRequest) -> str:
        shown.append("\n".join(message.text for message in request.messages))
        turn = sum(message.role == "assistant" for message in request.messages)
        call = '<think>look</think><tool_call>{"name": "text_search", "arguments": {"query": "sum"}}</tool_call>'
        return "<think>add</think><answer>14</answer>" if turn else call

    asked = [each for each in questions(8) if each.id == "sums-007"]
    made = await synthesise_here(tmp_path, Scripted(script), asked, Settings(hint=True), k=1)
    assert made.kept == 1
    assert all("accepted answer is 14" in text for text in shown)
    kept = (tmp_path / "run" / "trajectories.jsonl").read_text()
    assert "accepted answer" not in kept
    assert "14" not in json.loads(kept)["prompt"]


async def test_a_hinted_episode_that_shows_the_hint_is_turned_down(tmp_path: Path) -> None:
    def script(request: ChatRequest) -> str:
        turn = sum(message.role == "assistant" for message in request.messages)
        call = '{"name": "text_search", "arguments": {"query": "sum"}}'
        return (
            "<think>add</think><answer>14</answer>"
            if turn
            else f"<think>it is 14, but look</think><tool_call>{call}</tool_call>"
        )

    asked = [each for each in questions(8) if each.id == "sums-007"]
    hinted = await synthesise_here(tmp_path / "a", Scripted(script), asked, Settings(hint=True), k=1)
    assert hinted.kept == 0
    assert hinted.turned_down == {"the hint shows": 1}
    assert (await synthesise_here(tmp_path / "b", Scripted(script), asked, k=1)).kept == 1


async def test_an_attempt_that_is_turned_down_is_not_enough(tmp_path: Path) -> None:
    thoughts = iter(["the hint says so", "look", "look"])

    def script(request: ChatRequest) -> str:
        if any(message.role == "assistant" for message in request.messages):
            return "<think>add</think><answer>14</answer>"
        call = '{"name": "text_search", "arguments": {"query": "sum"}}'
        return f"<think>{next(thoughts)}</think><tool_call>{call}</tool_call>"

    asked = [each for each in questions(8) if each.id == "sums-007"]
    made = await synthesise_here(tmp_path, Scripted(script), asked, Settings(hint=True, enough=1), k=3)
    assert (made.kept, made.attempts, made.turned_down) == (1, 2, {"the hint shows": 1})


async def test_demonstrations_are_shown_and_not_kept(tmp_path: Path) -> None:
    await synthesise_here(tmp_path / "first", dear(tmp_path), questions(12))
    shot, spare = shots_of(tmp_path / "first" / "run", 1)
    seen: list[str] = []
    coached = Coached(Scripted(lambda request: seen.append(request.messages[0].text) or "ok"), [shot, spare], count=1)
    assert isinstance(await coached.complete(ChatRequest(messages=())), ChatReply)
    assert "Question: What is" in seen[0]
    assert "Adding makes a sum." in seen[0]
    assert shot.text in seen[0]
    assert spare.text not in seen[0]
    await coached.complete(ChatRequest(messages=(), key=("agent", shot.sample_id, 0, 0)))
    assert spare.text in seen[1]
    assert shot.text not in seen[1], "a question is not shown its own answer"
    with pytest.raises(UserError, match="--shots 99"):
        shots_of(tmp_path / "first" / "run", 99)


LEAKS = [
    ("It is 1987; let me check.", True),
    ("Searching for the year.", False),
    ("The hint points there.", True),
    ("This photo hints at nothing.", False),
]


@pytest.mark.parametrize(("think", "leaked"), LEAKS)
def test_an_answer_that_is_said_before_it_was_found_leaks(think: str, leaked: bool) -> None:
    asked = sample("When was BOLFOR founded?", "1987")
    found = search(think, "BOLFOR founded", ("BOLFOR", "BOLFOR was founded in 1987."))
    assert bool(leaks(asked, episode(asked, found, answer("It says 1987.", "1987")))) is leaked


def test_a_name_that_was_read_from_a_crop_and_is_looked_up_does_not_leak() -> None:
    asked = sample("Which company made the cup?", "BOLFOR")
    read = search("It reads BOLFOR, so look it up.", "BOLFOR cups", ("BOLFOR", "BOLFOR makes cups."))
    played = episode(asked, look("Zoom on the cup."), read, answer("BOLFOR.", "BOLFOR"))
    assert leaks(asked, played, strict=True) == []
    early = episode(asked, read, answer("BOLFOR.", "BOLFOR"))
    assert leaks(asked, early, strict=True)
    assert not leaks(asked, early)


async def test_the_budget_covers_all_rounds(tmp_path: Path) -> None:
    prices = {"prompt": 1.0, "completion": 1.0}
    less = await synthesise_here(tmp_path, dear(tmp_path), questions(10), limits={"budget_usd": 0.03}, prices=prices)
    assert less.ended == "budget"
    assert less.attempts < 30
    more = await synthesise_here(tmp_path, dear(tmp_path), questions(10), limits={"budget_usd": 9.0}, prices=prices)
    assert more.ended == "complete"
    assert more.attempts == 30
    assert paid_twice(tmp_path) == 0


def test_kills_pay_for_no_answer_twice_and_change_no_result(tmp_path: Path) -> None:
    kills = killed_until_done("synthesise", tmp_path, count=10, delay_s=0.03, kills=2)
    assert kills == 2
    # between the answer and its line in the file lie some microseconds
    assert paid_twice(tmp_path) <= kills
    assert len({each.sample_id for each in read_records(tmp_path / "run" / "trajectories.jsonl", Trajectory)}) > 5


async def test_other_settings_do_not_go_on_with_a_run(tmp_path: Path) -> None:
    await synthesise_here(tmp_path, dear(tmp_path), questions(2))
    with pytest.raises(UserError, match="enough was None"):
        await synthesise_here(tmp_path, dear(tmp_path), questions(2), Settings(enough=1))
    with pytest.raises(UserError, match="questions"):
        await synthesise_here(tmp_path, dear(tmp_path), questions(3))


def test_the_verb_makes_a_run_that_verify_takes(
    tmp_path: Path, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    words = ["curate", "synthesise", f"{world}/manifest.json:toy_test", "--run", str(run), "--k", "1"]
    words += ["--search", f"{world}/test/search", "--model", "toy:oracle", "--pixels", "tiny", "--top-k", "1"]
    assert main([*words, "--enough", "2"]) == 2
    assert "--enough 2: a question has 1 attempts (--k)" in capsys.readouterr().err
    assert main([*words, "--dry-run"]) == 0
    assert "10 to do" in capsys.readouterr().out
    assert main(words) == 0
    assert "10 of 10 questions have one" in capsys.readouterr().out
    assert main(["curate", "verify", str(run), "--to", str(out)]) == 0
    assert "10 of 10 episodes are kept" in capsys.readouterr().out
    assert len(list(read_records(out / "samples.jsonl", Sample))) == 10


@pytest.mark.parametrize(
    ("settings", "words", "said"),
    [
        ('{"enough": 1}', ["--hint"], "--hint True"),
        ('{"enough": 1}', ["--enough", "2"], "--enough 2"),
        ('{"hint": 5}', [], "hint = 5: "),
        ("{", [], "not JSON"),
        (None, [], "holds no synthesis.json"),
    ],
)
def test_a_resumed_run_keeps_its_settings_and_says_what_is_wrong_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str | None, words: list[str], said: str
) -> None:
    if settings is not None:
        (tmp_path / "synthesis.json").write_text(settings)
    assert main(["curate", "synthesise", "--resume", str(tmp_path), *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
