"""Episodes of a strong model with the real tools through the real loop, and the best of each question kept.

Attempts are rounds, each an evaluation of one episode a question in `attempts/N`: whatever stops it, it resumes. The
run folder itself then holds one episode a question that was solved, as fine-tuning and `verify` read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field, ValidationError

from vlagent.agent.loop import Agent
from vlagent.agent.store import TRAJECTORIES, read_trajectories, write_trajectory
from vlagent.bench.config import EvalConfig, RunLimits, check_same, read_config
from vlagent.bench.evaluate import Ended, Watcher, evaluate
from vlagent.bench.runs import read_rows, read_samples
from vlagent.curate.flaws_leak import leaks
from vlagent.curate.synthesise_coach import Coached, Shot, hints
from vlagent.curate.synthesise_experts import Experts
from vlagent.errors import UserError, first_problem
from vlagent.files import only_writer, read_json, read_records, write_json, write_records
from vlagent.rewards.opinions import Marker
from vlagent.types import EvalRow, Outcome, Record, Sample, Trajectory

ATTEMPTS = 4
SETTINGS = "synthesis.json"
EXPERTS = "experts"


class Settings(Record):
    """What decides which episodes are made, beside the evaluation's own configuration."""

    enough: int | None = Field(default=None, ge=1)
    """Right attempts, fit to be kept, after which a question is not played again; None plays all attempts."""
    hint: bool = False
    """Tell the model the answer; its episodes are then looked through for it."""
    demonstrations: str | None = None
    """Run folder of episodes that it is shown."""
    shots: int = Field(default=0, ge=0)
    experts: str | None = None
    """File of episodes that people wrote."""


@dataclass(frozen=True)
class Cast:
    """Who plays: the model, and people."""

    agent: Agent
    """With its model as it is to be helped (`coached`)."""
    experts: Experts | None = None
    judge: Marker | None = None


class Synthesis(Record):
    """What came of it; `summary.json` of the run folder."""

    version: int = 1
    ended: Ended
    questions: int
    kept: int
    attempts: int
    """Episodes that were played to an end."""
    right: int
    experts: int = 0
    """Kept episodes that people wrote."""
    turned_down: dict[str, int] = Field(default_factory=dict)
    """Why attempts that are right were no candidates."""
    calls: dict[str, int] = Field(default_factory=dict)
    """Tool calls -> kept episodes with so many."""
    unsolved: tuple[str, ...] = ()
    last_failure: str = ""


@dataclass(frozen=True)
class Candidate:
    """A right episode and where it comes from."""

    order: tuple[bool, int, bool, int, int]
    """The smallest is kept: by a person first, then the fewest calls, in form, the fewest turns, the earliest."""
    row: EvalRow
    trajectory: Trajectory


async def synthesise(
    config: EvalConfig, settings: Settings, cast: Cast, samples: Sequence[Sample], run: Path, watcher: Watcher
) -> Synthesis:
    """Play what is left, and write the best episodes; a stopped run is gone on with by the same call.

    `config.k` is the number of attempts. Raises `UserError` where the folder holds a run of other settings.
    """
    with only_writer(run):
        open_run(config, settings, samples, run)
        ended: Ended = "complete"
        failure = ""
        for made in rounds(config, cast):
            asked = asked_in(made, settings, samples, run)
            limits = _limits_left(config, made, run)
            if asked and limits is None:
                ended = "budget"
            if not asked or limits is None:
                continue
            own = made.config.model_copy(update={"limits": limits})
            played = await evaluate(own, made.agent, asked, run / made.name, cast.judge, watcher)
            ended, failure = played.ended, played.last_failure
            if ended != "complete":
                break
        return _keep(settings, samples, run, ended, failure)


@dataclass(frozen=True)
class Round:
    """One episode each of the questions that still want one."""

    name: str
    """Folder within the run."""
    config: EvalConfig
    agent: Agent


def open_run(config: EvalConfig, settings: Settings, samples: Sequence[Sample], run: Path) -> None:
    """Start a run folder, or find the same one. Raises `UserError` where it is another."""
    if (run / SETTINGS).exists():
        check_same(read_config(run), config, run)
        before = read_settings(run)
        changed = [name for name in Settings.model_fields if getattr(before, name) != getattr(settings, name)]
        if changed:
            was, now = getattr(before, changed[0]), getattr(settings, changed[0])
            raise UserError(f"{run}: {changed[0]} was {was!r} and is now {now!r}; choose another --run")
        if [sample.id for sample in read_samples(run)] != [sample.id for sample in samples]:
            raise UserError(f"{run}: the questions are others than those that it began with; choose another --run")
        return
    if any(path for path in run.iterdir() if not path.name.startswith(".") and path.name != "samples.jsonl"):
        raise UserError(f"{run}: this folder holds something else; choose an empty one for --run")
    write_records(run / "samples.jsonl", samples)
    write_json(run / SETTINGS, settings)
    write_json(run / "config.json", config)


def read_settings(run: Path) -> Settings:
    """The settings of a run folder; the defaults where it is no synthesis."""
    if not (run / SETTINGS).exists():
        return Settings()
    try:
        return Settings.model_validate(read_json(run / SETTINGS))
    except ValidationError as error:
        said = first_problem(error).line()
        raise UserError(f"{run / SETTINGS}: is no settings of a synthesis: {said}") from None


def rounds(config: EvalConfig, cast: Cast) -> list[Round]:
    """People first, then the attempts of the model, each with draws of its own."""
    made = []
    one = config.model_copy(update={"k": 1, "k_of": {}})
    if cast.experts is not None:
        own = one.model_copy(update={"model": cast.experts.name})
        made.append(Round(EXPERTS, own, replace(cast.agent, model=cast.experts)))
    for number in range(config.k):
        agent = config.agent.model_copy(update={"seed": config.agent.seed + number})
        made.append(
            Round(f"attempts/{number}", one.model_copy(update={"agent": agent}), replace(cast.agent, config=agent))
        )
    return made


def coached(agent: Agent, settings: Settings, samples: Sequence[Sample], shots: Sequence[Shot]) -> Agent:
    """The agent whose model gets the help that the settings ask for."""
    if not (settings.hint or shots):
        return agent
    return replace(agent, model=Coached(agent.model, shots, hints(samples) if settings.hint else None, settings.shots))


def asked_in(made: Round, settings: Settings, samples: Sequence[Sample], run: Path) -> list[Sample]:
    """The questions of a round: those that it began with, or those that have not enough right attempts yet."""
    if (run / made.name / "config.json").exists():
        return read_samples(run / made.name)
    if made.name == EXPERTS:
        assert isinstance(made.agent.model, Experts)
        return [sample for sample in samples if sample.id in made.agent.model]
    if settings.enough is None:
        return list(samples)
    by_id = {sample.id: sample for sample in samples}
    found = Counter(
        each.row.sample_id
        for number, folder in enumerate(_folders(run))
        for each in _candidates(folder, number, by_id, settings, Counter())
    )
    return [sample for sample in samples if found[sample.id] < settings.enough]


def _limits_left(config: EvalConfig, made: Round, run: Path) -> RunLimits | None:
    """The budget without what the other rounds have cost; None where nothing is left."""
    budget = config.limits.budget_usd
    if budget is None:
        return config.limits
    others = [folder for folder in _folders(run) if folder != run / made.name]
    cost = sum(each.usage.cost_usd for folder in others for each in read_records(folder / TRAJECTORIES, Trajectory))
    return config.limits.model_copy(update={"budget_usd": budget - cost}) if cost < budget else None


def _folders(run: Path) -> list[Path]:
    attempts = sorted((run / "attempts").glob("*"), key=lambda path: int(path.name)) if run.is_dir() else []
    return [folder for folder in (run / EXPERTS, *attempts) if (folder / "config.json").exists()]


def _rows(run: Path) -> list[EvalRow]:
    """One an episode: of one that failed and was played again, the last."""
    return [row for folder in _folders(run) for row in read_rows(folder).values()]


def _keep(settings: Settings, samples: Sequence[Sample], run: Path, ended: Ended, failure: str) -> Synthesis:
    turned_down: Counter[str] = Counter()
    by_id = {sample.id: sample for sample in samples}
    found: dict[str, list[Candidate]] = {}
    for number, folder in enumerate(_folders(run)):
        for each in _candidates(folder, number, by_id, settings, turned_down):
            found.setdefault(each.row.sample_id, []).append(each)
    best = [min(found[name], key=lambda each: each.order) for name in by_id if name in found]
    _write(run, best)
    rows = _rows(run)
    summary = Synthesis(
        ended=ended,
        questions=len(samples),
        kept=len(best),
        attempts=len(rows),
        right=sum(row.outcome is Outcome.RIGHT for row in rows),
        experts=sum(not each.order[0] for each in best),
        turned_down=dict(turned_down),
        calls={str(n): c for n, c in sorted(Counter(each.order[1] for each in best).items())},
        unsolved=tuple(name for name in by_id if name not in found),
        last_failure=failure,
    )
    write_json(run / "summary.json", summary)
    return summary


def _candidates(
    folder: Path, number: int, samples: dict[str, Sample], settings: Settings, turned_down: Counter[str]
) -> list[Candidate]:
    """The right episodes of a round that may be kept."""
    rows = read_rows(folder)
    found = []
    for played in read_trajectories(folder):
        row = rows.get((played.sample_id, played.rollout))
        if row is None or row.outcome is not Outcome.RIGHT:
            continue
        by_person = folder.name == EXPERTS
        reason = _why_not(samples[played.sample_id], played, settings.hint and not by_person)
        if reason:
            turned_down[reason] += 1
            continue
        calls = sum(turn.call is not None for turn in played.turns)
        order = (not by_person, calls, not all(turn.format_ok for turn in played.turns), len(played.turns), number)
        numbered = {"rollout": number}
        found.append(Candidate(order, row.model_copy(update=numbered), played.model_copy(update=numbered)))
    return found


def _why_not(sample: Sample, played: Trajectory, hinted: bool) -> str:
    if played.degraded:
        return "a service failed on the way"
    if hinted and leaks(sample, played, strict=True):
        return "the hint shows"
    return ""


def _write(run: Path, best: Sequence[Candidate]) -> None:
    """The kept episodes as a run folder; a kill on the way leaves `attempts/`, from which it is written again."""
    (run / TRAJECTORIES).unlink(missing_ok=True)
    for each in best:
        write_trajectory(run, each.trajectory)
    write_records(run / "rows.jsonl", [each.row for each in best])


def describe(made: Synthesis) -> str:
    """A few lines for a person."""
    calls = "  ".join(f"{number}: {count}" for number, count in made.calls.items())
    lines = [
        f"{made.kept} of {made.questions} questions have one; {made.right} of {made.attempts} attempts are right",
        f"tool calls, and episodes with so many:  {calls}",
    ]
    if made.experts:
        lines.append(f"{made.experts} of them were written by people")
    lines += [f"{count} right attempts turned down: {why}" for why, count in made.turned_down.items()]
    return "\n".join(lines)
