"""Verification: each rule by hand-made episodes, the second model, and what is written."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from tests.curate.world import AGENT, RIGHT, answer, by_image, episode, look, sample, search
from vlagent.agent.store import read_trajectories, write_trajectory
from vlagent.bench.runs import read_samples
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.chat.scripted import Scripted
from vlagent.cli.main import main
from vlagent.curate.budget import CALLS, Paid
from vlagent.curate.flaws import Finding
from vlagent.curate.verify import FINDINGS, REJECTED, Checks, Rejection, Verified, findings_of, verify
from vlagent.curate.verify_model import Reviewer, parse_review
from vlagent.curate.verify_quote import quote_reviews
from vlagent.errors import ServiceError, UserError
from vlagent.files import append_jsonl, read_records, write_json
from vlagent.images import probe
from vlagent.train.config import SourceConfig
from vlagent.types import EvalRow, ImageRef, Outcome, Sample, StopReason, Trajectory, Turn

BRAND = sample("When was the brand on the red sign founded?", "1987")
READ = sample("What does the red sign say?", "BOLFOR")
PLACE = sample("When was the place in the photo opened?", "1955")
BOTH = sample("How many years lie between the founding of the brand on the sign and the opening of the place?", "32")
FACT = sample("Who owns Walden Arcade?", "the Selby Group")
CROP = look("The red sign is too small, zoom in.")
FOUNDED = search("It reads BOLFOR, look it up.", "BOLFOR founded", ("BOLFOR", "BOLFOR was founded in 1987."))
SHOWN = by_image("Which building is this? Image search.", "Walden Arcade")
OPENED = search("Walden Arcade, then.", "Walden Arcade opened", ("Walden Arcade", "Walden Arcade was opened in 1955."))
OWNED = search("Look up the owner.", "Walden Arcade owner", ("Walden Arcade", "It is owned by the Selby Group."))

CLEAN: list[tuple[Sample, Sequence[Turn]]] = [
    (BRAND, [CROP, FOUNDED, answer("The passage says 1987.", "1987")]),
    (READ, [CROP, answer("Now it can be read: BOLFOR.", "BOLFOR")]),
    (PLACE, [SHOWN, OPENED, answer("It opened in 1955.", "1955")]),
    (BOTH, [CROP, SHOWN, FOUNDED, OPENED, answer("1987 - 1955 = 32.", "32")]),
    (FACT, [OWNED, answer("So it is the Selby Group.", "the Selby Group")]),
]

FLAWED: dict[str, list[tuple[Sample, Sequence[Turn]]]] = {
    "lucky_guess": [
        (BRAND, [answer("Probably 1987.", "1987")]),
        (BRAND, [CROP, answer("Brands like this are of 1987.", "1987")]),
        (PLACE, [SHOWN, search("Look it up.", "Walden Arcade opened"), answer("Say 1955.", "1955")]),
        (PLACE, [SHOWN, answer("It looks like 1955.", "1955")]),
    ],
    "leaked_answer": [
        (BRAND, [look("It was 1987, but zoom in on the sign."), FOUNDED, answer("1987.", "1987")]),
        (BOTH, [look("Zoom; it has to give 32."), SHOWN, FOUNDED, OPENED, answer("32.", "32")]),
        (FACT, [search("As the hint says, search it.", "Walden Arcade", ("Walden Arcade", "The Selby Group.")),
                answer("The Selby Group.", "the Selby Group")]),
    ],
    "incoherent_step": [
        (BRAND, [CROP, CROP, FOUNDED, answer("1987.", "1987")]),
        (BRAND, [by_image("Zoom in on the tiny letters.", "Oakham Inn"), CROP, FOUNDED, answer("1987.", "1987")]),
        (BRAND, [CROP, FOUNDED, answer("The text says 1844, hence 1987.", "1987")]),
        (BRAND, [CROP, FOUNDED, answer("So the answer is 1990.", "1987")]),
        (PLACE, [SHOWN, search("This is clearly the old Oakham Inn.", "Walden Arcade opened",
                               ("Walden Arcade", "Opened in 1955.")), answer("1955.", "1955")]),
    ],
    "ungrounded_query": [
        (BRAND, [search("Look up Oakham Inn.", "Oakham Inn founded", ("Oakham Inn", "No.")), CROP, FOUNDED,
                 answer("1987.", "1987")]),
        (PLACE, [SHOWN, search("Walden Arcade.", "when was this building opened", ("Inn", "1900.")), OPENED,
                 answer("1955.", "1955")]),
        (BRAND, [CROP, search("It reads BOLFOR.", "MAZKUL founded", ("MAZKUL", "Of 1980.")), FOUNDED,
                 answer("1987.", "1987")]),
    ],
}  # fmt: skip


def kinds_in(asked: Sample, turns: Sequence[Turn], checks: Checks | None = None) -> set[str]:
    played = episode(asked, *turns)
    return {each.kind for each in findings_of(asked, played, row(asked, played), checks or Checks())}


def row(asked: Sample, played: Trajectory, outcome: Outcome = RIGHT) -> EvalRow:
    return EvalRow(suite="made", sample_id=asked.id, rollout=played.rollout, outcome=outcome, stop=StopReason.ANSWERED)


@pytest.mark.parametrize(("asked", "turns"), CLEAN)
def test_nothing_is_found_in_a_sound_episode(asked: Sample, turns: Sequence[Turn]) -> None:
    assert kinds_in(asked, turns) == set()


@pytest.mark.parametrize(
    ("kind", "asked", "turns"), [(kind, *each) for kind, episodes in FLAWED.items() for each in episodes]
)
def test_a_flaw_is_found_by_its_name(kind: str, asked: Sample, turns: Sequence[Turn]) -> None:
    assert kind in kinds_in(asked, turns)


def test_a_direct_answer_may_be_accepted_where_looking_is_enough() -> None:
    visible = sample("What colour is the door?", "green")
    for asked, allowed in ((visible, set()), (BRAND, {"lucky_guess"})):
        turns = [answer(f"It is {asked.answers[0]}.", asked.answers[0])]
        assert kinds_in(asked, turns) == {"lucky_guess"}
        assert kinds_in(asked, turns, Checks(allow_direct=True)) == allowed


def test_strict_leaks_take_no_name_from_the_whole_picture() -> None:
    asked = sample("Which building is this?", "Walden Arcade")
    turns = [OPENED, answer("It is Walden Arcade.", "Walden Arcade")]
    assert "leaked_answer" not in kinds_in(asked, turns)
    assert "leaked_answer" in kinds_in(asked, turns, Checks(strict_leaks=True))


@pytest.mark.parametrize(
    "text",
    [
        "Well. <think>so</think><answer>1987</answer>",
        "<answer>1987</answer>",
        "<think>so</think><answer>1987</answer><answer>1988</answer>",
        "<think></think><answer>1987</answer>",
    ],
)
def test_the_text_is_read_again_whatever_the_record_claims(text: str) -> None:
    last = answer("so", "1987").model_copy(update={"text": text})
    assert kinds_in(BRAND, [CROP, FOUNDED, last]) == {"wrong_format"}


def test_a_record_that_says_something_else_than_its_text_is_out_of_form() -> None:
    last = answer("so", "1987").model_copy(update={"answer": "1988"})
    assert kinds_in(BRAND, [CROP, FOUNDED, last]) == {"wrong_format"}


def test_wrong_and_unscored_episodes_are_not_kept() -> None:
    played = episode(BRAND, *CLEAN[0][1])
    for outcome in (Outcome.WRONG, Outcome.UNSCORED):
        (found,) = findings_of(BRAND, played, row(BRAND, played, outcome), Checks())
        assert found.kind == "wrong_answer"
    for broken in (played, played.model_copy(update={"turns": (), "answer": None})):
        (found,) = findings_of(BRAND, broken, row(BRAND, played, Outcome.FAILED), Checks())
        assert found.kind == "service_failed"


def write_run(folder: Path, episodes: Sequence[tuple[Sample, Sequence[Turn]]]) -> Path:
    folder.mkdir()
    write_json(folder / "config.json", {"agent": AGENT.model_dump(mode="json")})
    for number, (asked, turns) in enumerate(episodes):
        named = asked.model_copy(update={"id": f"{number}"})
        append_jsonl(folder / "samples.jsonl", named)
        write_trajectory(folder, episode(named, *turns))
        append_jsonl(folder / "rows.jsonl", row(named, episode(named, *turns)))
    return folder


def findings(out: Path) -> dict[str, list[str]]:
    return {each.sample_id: [one.kind for one in each.findings] for each in read_records(out / FINDINGS, Rejection)}


async def test_kept_and_rejected_are_run_folders_and_every_episode_is_in_one(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [*CLEAN, *FLAWED["lucky_guess"]])
    found = await verify([run], tmp_path / "out", Checks())
    kept, bad = (list(read_trajectories(tmp_path / "out" / name)) for name in ("", REJECTED))
    assert (len(kept), len(bad)) == (found.kept, found.rejected) == (5, len(FLAWED["lucky_guess"]))
    assert {each.sample_id for each in bad} == set(findings(tmp_path / "out"))
    assert len(read_samples(tmp_path / "out")) == 5
    assert SourceConfig(run=str(tmp_path / "out")).only_right


async def test_a_second_start_writes_the_same(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [*CLEAN, *FLAWED["leaked_answer"]])
    first = await verify([run], tmp_path / "out", Checks())
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.jsonl")}
    assert await verify([run], tmp_path / "out", Checks()) == first
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.jsonl")} == before


def scene(folder: Path, name: str, like: ImageRef | None = None, side: int = 96) -> ImageRef:
    """A picture of its own, or another's made smaller and encoded anew."""
    source = Image.open(like.path) if like else Image.effect_noise((12, 12), 120.0)
    path = folder / name
    source.convert("RGB").resize((side, side)).save(path, quality=80)
    return probe(path)


async def test_a_copy_in_other_words_is_dropped_and_another_question_stays(tmp_path: Path) -> None:
    one = scene(tmp_path, "one.png")
    copy, other = scene(tmp_path, "copy.jpg", one, side=80), scene(tmp_path, "other.png")
    asked = [
        BRAND.model_copy(update={"images": (one,)}),
        BRAND.model_copy(
            update={"images": (copy,), "question": "Please tell me when the red sign's brand was founded"}
        ),
        BRAND.model_copy(update={"images": (other,)}),
        READ.model_copy(update={"images": (one,)}),
    ]
    turns = [CLEAN[0][1], CLEAN[0][1], [*CLEAN[0][1][:1], FOUNDED, answer("Founded: 1987.", "1987")], CLEAN[1][1]]
    run = write_run(tmp_path / "run", list(zip(asked, turns, strict=True)))
    await verify([run], tmp_path / "out", Checks())
    assert findings(tmp_path / "out").get("1") == ["near_duplicate"]
    assert "3" not in findings(tmp_path / "out")


async def test_what_the_test_data_hold_is_dropped(tmp_path: Path) -> None:
    one = scene(tmp_path, "one.png")
    copy, other = scene(tmp_path, "copy.jpg", one, side=80), scene(tmp_path, "other.png")
    run = write_run(
        tmp_path / "run",
        [(READ.model_copy(update={"images": (one,)}), CLEAN[1][1]), CLEAN[4], (BRAND, CLEAN[0][1])],
    )
    against = [
        sample("Is it day?", "yes", images=(copy,)),
        sample("Please tell who owns WALDEN ARCADE", "Selby Group", images=(other,)),
        sample(BRAND.question, "1987", images=(other,)),
    ]
    assert (await verify([run], tmp_path / "none", Checks())).rejected == 0
    await verify([run], tmp_path / "out", Checks(), against)
    # the same words about another picture ask for another thing, unless they name it
    assert findings(tmp_path / "out") == {"0": ["overlap"], "1": ["overlap"]}


def reviewer(folder: Path, script: object) -> Reviewer:
    return Reviewer(Paid(Scripted(script, name="critic"), folder / CALLS), with_images=False)  # type: ignore[arg-type]


async def test_a_second_model_rejects_with_its_reason(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", CLEAN)
    seen: list[str] = []

    def script(request: ChatRequest) -> str:
        seen.append(request.messages[-1].text)
        return "Hm.\nREJECT PLAUSIBILITY turn 2: odd source" if "Selby" in seen[-1] else "KEEP"

    found = await verify([run], tmp_path / "out", Checks(), reviewer=reviewer(tmp_path, script))
    assert (found.kept, found.rejected, found.kinds) == (4, 1, {"reviewer": 1})
    (rejection,) = read_records(tmp_path / "out" / FINDINGS, Rejection)
    assert rejection.findings == (Finding(kind="reviewer", turn=2, why="plausibility: odd source"),)
    assert "‹think>" in "".join(seen) or "<think>" not in "".join(seen)


async def test_only_what_the_rules_accept_is_reviewed_and_paid_for_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [*CLEAN, *FLAWED["lucky_guess"]])
    asked = []
    for _ in range(2):
        critic = reviewer(tmp_path, lambda _: "KEEP")
        await verify([run], tmp_path / "out", Checks(), reviewer=critic)
        assert isinstance(critic.model, Paid)
        asked.append(critic.model.asked)
    assert asked == [5, 0]


async def test_a_reviewer_that_is_down_neither_keeps_nor_rejects(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", CLEAN)

    def down(request: ChatRequest) -> str:
        if "Selby" in request.messages[-1].text:
            raise ServiceError("critic", "down")
        return "KEEP"

    found = await verify([run], tmp_path / "out", Checks(), reviewer=reviewer(tmp_path, down))
    assert (found.kept, found.rejected, found.unreviewed) == (4, 0, 1)
    again = await verify([run], tmp_path / "out", Checks(), reviewer=reviewer(tmp_path, lambda _: "KEEP"))
    assert (again.kept, again.unreviewed) == (5, 0)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("KEEP", []),
        ("I think so.\nKEEP", []),
        ("REJECT LEAK turn 1: says it", ["reviewer"]),
        ("REJECT LEAK: says it", ["reviewer"]),
        ("KEEP it", None),
        ("", None),
        ("KEEP\nbut no", None),
    ],
)
def test_a_review_is_its_last_line_or_nothing(text: str, kinds: list[str] | None) -> None:
    found = parse_review(ChatReply(text))
    assert (None if found is None else [each.kind for each in found]) == kinds
    assert parse_review(ChatReply(text, finish_reason="length")) is None


async def test_a_quote_of_reviews_leaves_out_what_is_paid_for(tmp_path: Path) -> None:
    from vlagent.curate.verify import check_rules

    run = write_run(tmp_path / "run", CLEAN)
    work = await check_rules([run], Checks(), [])
    whole = quote_reviews(work, "critic", tmp_path / CALLS, (2.0, 8.0), with_images=False)
    assert (whole.calls, whole.prompt_tokens > 1000, (whole.cost_usd or 0) > 0) == (5, True, True)
    await verify([run], tmp_path / "out", Checks(), reviewer=reviewer(tmp_path, lambda _: "KEEP"))
    assert quote_reviews(work, "critic", tmp_path / CALLS, (2.0, 8.0), with_images=False).calls == 0


def test_the_verb_dry_runs_and_refuses_to_write_over_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [*CLEAN, *FLAWED["lucky_guess"]])
    out = tmp_path / "out"
    words = ["curate", "verify", str(run), "--to", str(out)]
    assert main([*words, "--dry-run", "--model", "critic", "--base-url", "http://127.0.0.1:9", "--price", "1,1"]) == 0
    said = capsys.readouterr().out
    assert "5 without a finding" in said
    assert "5 to do, about 5 calls" in said
    assert not out.exists()
    assert main([*words[:-1], str(run)]) == 2
    assert main([*words, "--text-only"]) == 2
    assert main(words) == 0
    assert Verified.model_validate_json((out / "summary.json").read_text()).kept == 5


async def test_a_folder_with_another_run_is_left_alone(tmp_path: Path) -> None:
    run, other = write_run(tmp_path / "run", CLEAN), write_run(tmp_path / "other", CLEAN)
    with pytest.raises(UserError, match="another run"):
        await verify([run], other, Checks())


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json", "config.json", "trajectories.jsonl"])
async def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path, name: str) -> None:
    run, other = write_run(tmp_path / "run", CLEAN), tmp_path / "other"
    other.mkdir()
    (other / name).write_text("mine")
    with pytest.raises(UserError, match="choose an empty one"):
        await verify([run], other, Checks())
    assert [path.name for path in other.iterdir()] == [name]


async def test_the_rejected_of_a_folder_are_not_checked_into_it(tmp_path: Path) -> None:
    run, out = write_run(tmp_path / "run", [*CLEAN, *FLAWED["lucky_guess"]]), tmp_path / "out"
    await verify([run], out, Checks())
    before = (out / "trajectories.jsonl").read_bytes()
    with pytest.raises(UserError, match="another folder"):
        await verify([out / REJECTED], out, Checks())
    assert (out / "trajectories.jsonl").read_bytes() == before


async def test_a_kill_at_any_write_leaves_a_folder_that_the_same_call_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = write_run(tmp_path / "run", [*CLEAN, *FLAWED["lucky_guess"]]), tmp_path / "out"
    whole = await verify([run], tmp_path / "whole", Checks())
    replace, kills = Path.replace, 0
    while not (out / "summary.json").exists():
        kills += 1
        left = kills

        def dies(self: Path, target: Path) -> Path:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt
            return replace(self, target)

        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(Path, "replace", dies)
            await verify([run], out, Checks())
    assert kills > 5
    assert await verify([run], out, Checks()) == whole


async def test_a_reviewer_that_gives_no_verdict_costs_once_and_is_said_to_need_another(tmp_path: Path) -> None:
    from vlagent.curate.verify import check_rules

    run = write_run(tmp_path / "run", CLEAN)

    def odd(request: ChatRequest) -> str:
        if "Selby" in request.messages[1].text:
            return "Lovely weather."
        raise ServiceError("critic", "down")

    found = await verify([run], tmp_path / "out", Checks(), reviewer=reviewer(tmp_path, odd))
    assert (found.kept, found.rejected, found.unreviewed) == (0, 0, 5)
    work = await check_rules([run], Checks(), [])
    quote = quote_reviews(work, "critic", tmp_path / CALLS, None, with_images=False)
    assert quote.calls == 4, "three answers on one are one review"
    again = await verify([run], tmp_path / "out", Checks(), reviewer=reviewer(tmp_path, lambda _: "KEEP"))
    assert (again.kept, again.rejected, again.unreviewed) == (4, 0, 1)
    assert "try another --model" in again.last_failure
