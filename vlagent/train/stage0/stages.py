"""The stages of a run, each in its folder, and the checkpoint folders that they end in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from vlagent.model.load import Policy
from vlagent.model.tiny import TinySpec, make_policy
from vlagent.train.stage0 import decoder, join
from vlagent.train.stage0.codes import Codes
from vlagent.train.stage0.config import Stage0Config
from vlagent.train.stage0.decoder import DecoderTrainer
from vlagent.train.stage0.join import JoinTrainer
from vlagent.train.stage0.run import Pace, Report, StageRun, rank
from vlagent.train.stage0.start import Meanings, place_embeddings
from vlagent.train.stage0.vision import VisionData, VisionTrainer


@dataclass(frozen=True)
class Run:
    """What every stage needs."""

    config: Stage0Config
    folder: Path
    spec: TinySpec
    say: Report

    @property
    def pace(self) -> Pace:
        return Pace(self.config.checkpoint_s, self.config.log_s)

    def fresh(self) -> Policy:
        """The random model that all stages start from."""
        torch.set_num_threads(1)
        return make_policy(self.spec, self.config.seed)

    def codes(self) -> Codes:
        return Codes(self.spec.text.hidden)


def train_vision(run: Run, data: VisionData) -> None:
    """The tower alone."""
    trainer = VisionTrainer(run.fresh().model, run.codes(), data, run.config.vision, run.config.seed)
    StageRun(trainer, run.folder / "vision", run.pace, run.say).run()


def train_decoder(run: Run, draw: decoder.Draw, meanings: Meanings, classes: dict[str, list[int]]) -> None:
    """The decoder alone."""
    model, codes, stage = run.fresh().model, run.codes(), run.config.decoder
    place_embeddings(model, codes, meanings)
    trainer = DecoderTrainer(model, codes, draw, stage, run.config.seed, dict(classes))
    StageRun(trainer, run.folder / "decoder", run.pace, run.say).run()


def train_join(run: Run, draw: Callable[[int, int], join.Draw], data: VisionData) -> None:
    """Both, from where the other two stages ended; writes `trained`.

    Run by several processes with one rendezvous they share the rows of each step; `draw(rank, processes)`.
    """
    policy, stage = run.fresh(), run.config.join
    _put_together(policy, run.folder)
    here, processes = rank(), torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    trainer = JoinTrainer(policy.model, run.codes(), draw(here, processes), data, stage, run.config.seed, here)
    StageRun(trainer, run.folder / "join", run.pace, run.say).run()
    if here == 0:
        save_policy(policy, run.folder / "trained")


def write_base(run: Run) -> None:
    """The early tower and the decoder as one model, never trained together: `base`."""
    policy = run.fresh()
    _put_together(policy, run.folder, tower="early.pt")
    save_policy(policy, run.folder / "base")


def _put_together(policy: Policy, folder: Path, tower: str = "state.pt") -> None:
    """The tower of one stage, of that file, and the decoder of the other."""
    sight = torch.load(folder / "vision" / tower, weights_only=True)["model"]
    rest = torch.load(folder / "decoder" / "state.pt", weights_only=True)["model"]
    policy.model.load_state_dict({key: (sight if "visual" in key else rest)[key] for key in rest})


def save_policy(policy: Policy, folder: Path) -> None:
    """A checkpoint folder, weights in float16."""
    policy.save(folder, dtype=torch.float16)


def meet(folder: Path, here: int, processes: int) -> None:
    """Let the processes of a join find each other through a file in the run's folder."""
    if processes > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{(folder / 'rendezvous').absolute()}", rank=here, world_size=processes
        )
