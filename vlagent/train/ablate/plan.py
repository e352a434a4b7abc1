"""The runs of an ablation: which there are, what each changes, and the commands that make it."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlagent.bench.ablation import BEFORE, Cell
from vlagent.config import load_config
from vlagent.errors import UserError
from vlagent.train.ablate.config import AblateConfig, PrepareConfig
from vlagent.train.config import over
from vlagent.train.rl.config import RlConfig

NO_MIX = "none"


@dataclass(frozen=True)
class Job:
    """One run: a cell of the grid with one seed, or a cold start as it is."""

    arm: str
    mix: str
    start: str
    seed: int

    @property
    def name(self) -> str:
        """Of its folder and its result."""
        return f"{self.arm}-{self.mix}-{self.start}-s{self.seed}"

    @property
    def trains(self) -> bool:
        return self.arm != BEFORE

    @property
    def cell(self) -> Cell:
        return self.arm, self.mix, self.start


def cells_of(config: AblateConfig) -> list[Cell]:
    """What is compared, each once, in the order of the grid."""
    cells = [(arm, mix, start) for g in config.grid for arm in g.arms for mix in g.mixes for start in g.starts]
    return list(dict.fromkeys(cells))


def jobs_of(config: AblateConfig) -> list[Job]:
    """Cold starts first, then seed after seed: what is there when it is stopped early is balanced."""
    cells = cells_of(config)
    starts = dict.fromkeys(start for _, _, start in cells)
    before = [Job(BEFORE, NO_MIX, start, config.evaluation.seed) for start in starts]
    return before + [Job(*cell, seed) for seed in config.seeds for cell in cells]


def changes_of(config: AblateConfig, job: Job) -> dict[str, Any]:
    """What a run changes in the base; of one value the arm decides before start, mix and common."""
    table = over(config.common, config.mixes.get(job.mix, {}))
    table = over(table, config.starts[job.start])
    table = over(table, config.arms.get(job.arm, {}))
    return over(table, {"seed": job.seed, "run": str(rl_folder(config, job))})


def config_of(config: AblateConfig, job: Job) -> RlConfig:
    """The whole configuration of a run. `UserError` that names the run where it is wrong."""
    try:
        return load_config(RlConfig, Path(config.base), overrides(changes_of(config, job)))
    except UserError as error:
        raise UserError(f"{job.name}: {error}") from None


def digest_of(config: AblateConfig, job: Job) -> str:
    """Of everything that decides a run's result, whatever the folders are called."""
    whole = config_of(config, job).model_dump(mode="json", exclude={"run"})
    asked = config.evaluation.model_dump(mode="json", exclude={"concurrency"})
    text = json.dumps([whole if job.trains else whole["model"]["path"], asked], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def overrides(table: dict[str, Any], prefix: str = "") -> list[str]:
    """A table as `key.path=value` words of a command line."""
    words: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict) and value:
            words += overrides(value, f"{prefix}{key}.")
        else:
            words.append(f"{prefix}{key}={toml(value)}")
    return words


def toml(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    """Escapes as JSON's, which TOML shares, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def job_folder(config: AblateConfig, job: Job) -> Path:
    """Where a run works."""
    return Path(config.run) / "jobs" / job.name


def rl_folder(config: AblateConfig, job: Job) -> Path:
    """The run folder of its training."""
    return job_folder(config, job) / "rl"


def eval_folder(config: AblateConfig, job: Job) -> Path:
    """The run folder of its evaluation."""
    return job_folder(config, job) / "eval"


def train_words(config: AblateConfig, job: Job) -> list[str]:
    """What trains a run from its beginning."""
    return ["rl", config.base, *overrides(changes_of(config, job))]


def resume_words(config: AblateConfig, job: Job) -> list[str]:
    """What goes on with a training that was killed."""
    return ["rl", "--resume", str(rl_folder(config, job))]


def eval_words(config: AblateConfig, job: Job) -> list[str]:
    """What asks a run the questions; the same words go on with an evaluation that was killed."""
    asked = config.evaluation
    words = ["eval", asked.data, "--model", f"local:{weights_of(config, job)}"]
    words += ["--run", str(eval_folder(config, job)), "--temperature", str(asked.temperature)]
    words += ["--seed", str(asked.seed), "--concurrency", str(asked.concurrency)]
    words += ["--search", asked.search] if asked.search else []
    return words + (["--limit", str(asked.limit)] if asked.limit else [])


def weights_of(config: AblateConfig, job: Job) -> str:
    """The checkpoint that is asked: exported beside each other are the best weights and, where others, the last."""
    if not job.trains:
        return config_of(config, job).model.path
    folder = rl_folder(config, job)
    last = folder / "last"
    return str(last if config.evaluation.weights == "last" and last.is_dir() else folder / "model")


def prepare_words(step: PrepareConfig) -> list[str]:
    """What prepares, or goes on with it."""
    words = shlex.split(step.run)
    return (
        [words[0], "--resume", step.resume] if step.resume and (Path(step.resume) / "config.json").exists() else words
    )


def command(words: Sequence[str]) -> list[str]:
    """The process of a verb."""
    return [sys.executable, "-m", "vlagent", *words]


def shown(words: Sequence[str]) -> str:
    """As one types it."""
    return shlex.join(["vlagent", *words])
