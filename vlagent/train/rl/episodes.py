"""The groups of each step: read where they are recorded, else played, by all processes together, and recorded.

A step is written before anything is trained on it, so a run that is killed in its update finds the same episodes again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from accelerate import PartialState
from accelerate.utils import gather_object

from vlagent.errors import ServiceError, UserError, VlagentError
from vlagent.model.load import Policy
from vlagent.model.local_chat import LocalChat
from vlagent.train.parts import plain
from vlagent.train.rl.checkpoint import DROPPED, ROLLOUTS
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.data import Collected, Questions, collect_step
from vlagent.train.rl.engines import RolloutEngine, open_engine
from vlagent.train.rl.recorded import read_groups, recorded_steps, step_folder, write_groups
from vlagent.train.rl.rewards import check_samples, open_judge
from vlagent.train.rl.rollout import Rollouts, Stopped, open_services
from vlagent.train.validate import Exam, evaluating
from vlagent.types import Group, Sample


class Episodes:
    """Where a run's groups come from. Close it."""

    def __init__(self, config: RlConfig, run: Path, policy: Policy, stop: Callable[[], bool]) -> None:
        """`stop` is asked while episodes run; True ends the step with `Stopped`. Raises `UserError` for bad data."""
        self.config, self.run, self._state = config, run, PartialState()
        self._loop = asyncio.Runner()
        _check_pixels(config, policy)
        inside = plain(policy.model) if config.engine.kind == "in_process" else policy.model
        self._policy = Policy(inside, policy.processor, policy.name)
        self._engine: RolloutEngine | None = None
        self._replay = Path(config.debug.replay) if config.debug.replay else None
        if self._replay is not None:
            _check_replay(self._replay, config)
            return
        self.questions = Questions(config.data, config.seed)
        judge = open_judge(config.rewards.judge, run) if config.rewards.judge else None
        check_samples(self.questions.samples, judge)
        self.rollouts = Rollouts(config.rollout, config.rewards, open_services(config.rollout), judge, run, stop=stop)

    @property
    def digest(self) -> str:
        """Of the questions; a run does not go on with others."""
        digest = hashlib.blake2b(digest_size=8)
        for sample in self.questions.samples if self._replay is None else ():
            digest.update(sample.model_dump_json().encode())
        return digest.hexdigest()

    def describe(self) -> str:
        """One line about what is trained on."""
        return f"{len(self.questions.samples)} questions" if self._replay is None else f"episodes of {self._replay}"

    def times(self) -> dict[str, float]:
        """Seconds of the step just played, by part, summed over episodes that overlap; empty where none was."""
        if self._replay is not None:
            return {}
        times = self.rollouts.times
        return {"model": times.model_s, "tools": times.tools_s, "reward": times.reward_s}

    def groups(self, step: int) -> Collected:
        """The groups of a step, the same in every process.

        Raises `Stopped` if the caller wants an end, `ServiceError` where services fail past what the run allows.
        """
        if self._replay is not None:
            return Collected(read_groups(self._replay, step))
        if step in recorded_steps(self.run / ROLLOUTS):
            return self._read(step)
        self._state.wait_for_everyone()  # nobody looks for a record that another process has just written
        found = self._loop.run(self._collect(step))
        if self._state.is_main_process:
            if found.dropped:
                write_groups(self.run / DROPPED, step, found.dropped)
            write_groups(self.run / ROLLOUTS, step, found.groups)
        self._state.wait_for_everyone()
        return found

    def examine(self, exam: Exam, folder: Path, stop: Callable[[], bool]) -> tuple[int, int]:
        """(right, scored) of this process's share of the validation questions, played by the same engine."""
        mine = exam.samples[self._state.process_index :: self._state.num_processes]

        async def play() -> tuple[int, int]:
            return await exam.play(await self._chat(), mine, folder, stop)

        with evaluating(self._policy.model):
            return self._loop.run(play())

    def close(self) -> None:
        """Release engine, searches and event loop."""
        if self._replay is None:
            self._loop.run(self.rollouts.search.aclose())
        if self._engine is not None:
            self._loop.run(self._engine.aclose())
        self._loop.close()

    async def _chat(self) -> LocalChat:
        """The policy as it is now."""
        if self._engine is None:
            self._engine = open_engine(self.config.engine, self._policy, self.run)
        await self._engine.push(self._policy)
        return LocalChat(self._policy.name, self._policy.processor.renderer, self._engine)

    def _read(self, step: int) -> Collected:
        dropped = read_groups(self.run / DROPPED, step) if step in recorded_steps(self.run / DROPPED) else []
        groups = read_groups(self.run / ROLLOUTS, step)
        asked = {sample.id: sample for sample in self.questions.samples}
        other = next((group.sample.id for group in groups if asked.get(group.sample.id) != group.sample), None)
        if other is not None:
            place = step_folder(self.run / ROLLOUTS, step)
            raise UserError(f"{place}: question {other!r} is not in the data any more; put it back, or remove {place}")
        return Collected(groups, len(dropped), dropped)

    async def _collect(self, step: int) -> Collected:
        chat = await self._chat()

        async def together(jobs: Sequence[Sample], seed: int) -> list[Group]:
            """Every process plays its share of the questions; all get all groups, in the order of the questions."""
            world, rank = self._state.num_processes, self._state.process_index
            mine: list[Group] = []
            problem: VlagentError | None = None
            try:
                mine = await self.rollouts.collect(step, chat, jobs[rank::world], self.config.batch.samples, seed)
            except VlagentError as error:
                problem = error
            self._agree(problem)
            shares: list[list[Group]] = gather_object([mine])
            return [shares[i % world][i // world] for i in range(len(jobs))]

        with evaluating(self._policy.model):
            return await collect_step(self.questions, step, self.config.batch.prompts, self.config.seed, together)

    def _agree(self, problem: VlagentError | None) -> None:
        """Where one process fails, all do: the others would wait for it."""
        told = gather_object([None if problem is None else (type(problem).__name__, str(problem))])
        if problem is not None:
            raise problem
        for name, message in filter(None, told):
            if name == Stopped.__name__:
                raise Stopped(message)
            if name == UserError.__name__:
                raise UserError(message)
            raise ServiceError("another process", message)


def _check_pixels(config: RlConfig, policy: Policy) -> None:
    asked, own = config.rollout.agent.pixels.factor, policy.processor.limits.factor
    if asked != own:
        raise UserError(f"rollout.agent.pixels.factor = {asked}: {config.model.path} wants {own}")


def _check_replay(folder: Path, config: RlConfig) -> None:
    missing = sorted(set(range(config.steps)) - set(recorded_steps(folder)))
    if missing:
        raise UserError(
            f"debug.replay = {str(folder)!r}: no record of step {missing[0]} there; "
            "give the rollouts/ of a run, and no more steps than it has"
        )
