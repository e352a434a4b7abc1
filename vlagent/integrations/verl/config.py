"""What the agent loop needs besides veRL's own configuration: one TOML file with keys of `vlagent rl`."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from vlagent.agent.loop import Agent
from vlagent.chat.base import ChatModel
from vlagent.config import load_config
from vlagent.rewards.judge import Judge
from vlagent.search.base import SearchServices
from vlagent.tools.base import RetryPolicy, Tool
from vlagent.tools.registry import make_tools
from vlagent.train.rl.masking import MaskingConfig
from vlagent.train.rl.rewards import RewardConfig, TooManyFaults, open_judge
from vlagent.train.rl.rollout import RolloutConfig, open_services
from vlagent.types import Record

log = logging.getLogger(__name__)

WATCHED = 64
"""Episodes of a worker whose share of faults is looked at; fewer say nothing."""


class LoopConfig(Record):
    """Episodes, their rewards, and which of them train. Sampling is veRL's but for `presence_penalty`."""

    folder: str
    """Where tools leave pictures and the judge its verdicts; every node must see the same folder."""
    rollout: RolloutConfig = RolloutConfig()
    rewards: RewardConfig = RewardConfig()
    masking: MaskingConfig = MaskingConfig()


@dataclass
class Workplace:
    """What all episodes of one worker process share."""

    config: LoopConfig
    search: SearchServices
    tools: dict[str, Tool]
    judge: Judge | None
    faults: deque[bool] = field(default_factory=lambda: deque(maxlen=WATCHED))

    @property
    def folder(self) -> Path:
        return Path(self.config.folder)

    def agent(self, chat: ChatModel) -> Agent:
        """Our agent over a model that writes for one episode."""
        rollout = self.config.rollout
        retry = RetryPolicy(attempts=rollout.tool_attempts, timeout_s=rollout.tool_timeout_s)
        return Agent(chat, rollout.agent, self.tools, self.search, folder=self.folder / "images", retry=retry)

    def count(self, fault: bool, why: str) -> None:
        """Note how an episode ended; `TooManyFaults` once services spoil more of them than the configuration allows."""
        self.faults.append(fault)
        if fault:
            log.warning("an episode is left out: %s", why)
        spoilt = sum(self.faults)
        if len(self.faults) == WATCHED and spoilt > self.config.rewards.max_fault_share * WATCHED:
            raise TooManyFaults("services", f"spoilt {spoilt} of a worker's last {WATCHED} episodes, the last: {why}")


@lru_cache(maxsize=4)
def open_workplace(path: str) -> Workplace:
    """The workplace of a configuration file, opened once a process. Raises `UserError`."""
    config = load_config(LoopConfig, Path(path))
    search = open_services(config.rollout)
    tools = make_tools(config.rollout.agent.tools, search=search)
    judge = open_judge(config.rewards.judge, Path(config.folder)) if config.rewards.judge else None
    return Workplace(config, search, tools, judge)
