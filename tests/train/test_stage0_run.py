from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vlagent.cli.main import main
from vlagent.cli.stage0.parts import classes, run_part, tiny_spec
from vlagent.cli.stage0.rows import RowMaker
from vlagent.config import load_config
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, only_writer
from vlagent.model.load import load_policy
from vlagent.model.tiny import make_policy
from vlagent.randomness import rng_of
from vlagent.train.muon import MatrixAndRest
from vlagent.train.stage0.codes import Codes
from vlagent.train.stage0.config import DecoderStage, JoinStage, Mix, Phase, PictureStage, Stage0Config, VisionStage
from vlagent.train.stage0.decoder import DecoderTrainer
from vlagent.train.stage0.run import Pace, StageRun

CONFIG = Path(__file__).parents[2] / "configs/stage0/tiny.toml"
PACE = Pace(checkpoint_s=0.0, log_s=0.0)
SMALL = Stage0Config(
    pictures=PictureStage(scenes=4, held_scenes=2, thumbnails=4),
    vision=VisionStage(steps=2, crops=2, overviews=2, others=1, early_step=1),
    decoder=DecoderStage(phases=(Phase(steps=1, rows=2, drills=1), Phase(steps=2, rows=2, drills=1))),
    join=JoinStage(steps=2, rows=2, crops=2, drills=1, processes=1),
)


class Killed(Exception):
    pass


class Line:
    """A trainer with little to learn: a line through points drawn by step."""

    name = "line"

    def __init__(self, steps: int = 9, dies_after: int = -1) -> None:
        self.dies_after = dies_after
        self.steps = self.planned = steps
        self.model = nn.Linear(2, 1)
        with torch.no_grad():
            for weight in self.model.parameters():
                weight.zero_()
        self.optimiser = MatrixAndRest(self.named_parameters(), 0.05, 0.05)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        yield from self.model.named_parameters()

    def rate(self, step: int) -> float:
        return 1.0

    def after(self, step: int) -> None:
        if step == self.dies_after:
            raise Killed
        assert step < self.steps

    def keeps(self, step: int) -> bool:
        return step == 1

    def losses(self, step: int) -> dict[str, Tensor]:
        points = torch.randn(8, 2, generator=torch.Generator().manual_seed(step))
        return {"square": ((self.model(points)[:, 0] - points[:, 0]) ** 2).mean()}

    def metrics(self) -> dict[str, float]:
        return {"bias": float(self.model.bias.detach())}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        assert not state


def test_a_killed_stage_ends_with_the_weights_of_one_that_was_not(tmp_path: Path) -> None:
    whole, first, rest = Line(), Line(dies_after=5), Line()
    StageRun(whole, tmp_path / "whole", PACE, lambda _: None).run()
    with pytest.raises(Killed):
        StageRun(first, tmp_path / "parts", PACE, lambda _: None).run()
    StageRun(rest, tmp_path / "parts", PACE, lambda _: None).run()
    assert torch.equal(whole.model.weight, rest.model.weight)
    early = torch.load(tmp_path / "parts" / "early.pt", weights_only=True)["model"]
    assert not torch.equal(early["weight"], rest.model.weight)
    assert torch.equal(
        early["weight"], torch.load(tmp_path / "whole" / "early.pt", weights_only=True)["model"]["weight"]
    )
    lines = [list(iter_jsonl(tmp_path / name / "metrics.jsonl")) for name in ("whole", "parts")]
    assert [line["step"] for line in lines[1]] == list(range(1, 10))
    assert [line["square"] for line in lines[0]] == [line["square"] for line in lines[1]]


def test_a_stage_that_died_between_saves_forgets_what_it_said_later(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        StageRun(Line(dies_after=5), tmp_path, Pace(1e9, 0.0), lambda _: None).run()
    assert len(list(iter_jsonl(tmp_path / "metrics.jsonl"))) == 5
    StageRun(Line(), tmp_path, PACE, lambda _: None).run()
    assert [line["step"] for line in iter_jsonl(tmp_path / "metrics.jsonl")] == list(range(1, 10))


def test_a_finished_stage_is_not_trained_again_and_another_length_is_refused(tmp_path: Path) -> None:
    StageRun(Line(3), tmp_path, PACE, lambda _: None).run()
    before = (tmp_path / "metrics.jsonl").read_text()
    StageRun(Line(3), tmp_path, PACE, lambda _: None).run()
    assert (tmp_path / "metrics.jsonl").read_text() == before
    with pytest.raises(UserError, match="steps = 3, now 4"):
        StageRun(Line(4), tmp_path, PACE, lambda _: None).run()


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    line = Line()
    line.losses = lambda step: {"square": line.model.weight.sum() * float("nan")}  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="step 0"):
        StageRun(line, tmp_path, PACE, lambda _: None).run()


def test_a_phase_ends_early_once_its_goal_is_met_and_the_last_one_runs_to_its_end() -> None:
    processor = make_policy(tiny_spec()).processor
    maker = RowMaker(processor.renderer, 2, 1)
    nothing = dict.fromkeys(Mix.model_fields, 0.0)
    facts = Mix.model_validate(nothing | {"fact": 1.0, "locate": 0.01})

    def ends(until: float | None) -> list[int]:
        phases = (Phase(steps=60, until=until, rows=2, drills=0, mix=facts), Phase(steps=30, rows=2, drills=0))
        model = make_policy(tiny_spec()).model
        trainer = DecoderTrainer(
            model,
            Codes(128),
            lambda step, phase: maker.rows(rng_of("rows", step), Mix.model_validate(nothing | {"locate": 1.0}), 1, 0),
            DecoderStage(phases=phases),
            0,
            classes(processor.vocabulary),
        )
        found = []
        for step in range(25):
            trainer.after(step)
            found.append(trainer.steps)
        return [found[0], found[18], found[19]]

    assert ends(None) == [90, 90, 90]
    assert ends(0.0) == [90, 90, 50]
    assert ends(1.1) == [90, 90, 90]


def test_the_rate_is_full_until_the_last_phase_and_falls_in_it() -> None:
    stage = DecoderStage(phases=(Phase(steps=100), Phase(steps=50)))
    trainer = DecoderTrainer(
        make_policy().model, Codes(128), lambda *_: [], stage, 0, {"coordinate": [1], "difference": [2]}
    )
    assert trainer.rate(0) == 1 / 30
    assert trainer.rate(99) == 1.0
    for step in range(100):
        trainer.after(step)
    assert trainer.rate(100) == 1.0
    assert 0.08 < trainer.rate(149) < 0.1
    other = DecoderTrainer(
        make_policy().model, Codes(128), lambda *_: [], stage, 0, {"coordinate": [1], "difference": [2]}
    )
    other.restore(trainer.state())
    assert other.rate(149) == trainer.rate(149)


def test_all_parts_in_small_write_a_base_and_a_trained_model(tmp_path: Path) -> None:
    for part, here in (("pictures", 0), ("pictures", 1), ("vision", 0), ("decoder", 0), ("join", 0)):
        run_part(part, SMALL, tmp_path, here)
    base, trained = (load_policy(tmp_path / name) for name in ("base", "trained"))
    assert list(base.model.state_dict()) == list(trained.model.state_dict())
    changed = [
        not torch.equal(one, other)
        for one, other in zip(base.model.state_dict().values(), trained.model.state_dict().values(), strict=True)
    ]
    assert sum(changed) > len(changed) / 2
    assert (tmp_path / "trained" / "model.safetensors").stat().st_size < 4_000_000
    tower = torch.load(tmp_path / "vision" / "state.pt", weights_only=True)["model"]
    fresh = torch.load(tmp_path / "decoder" / "state.pt", weights_only=True)["model"]
    name = "model.visual.blocks.0.attn.qkv.weight"
    assert not torch.equal(tower[name], fresh[name])


def test_dry_run_prints_every_choice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["stage0", str(CONFIG), "vision.steps=1007", "--dry-run", "--run", str(tmp_path / "run")]
    assert main(words) == 0
    shown = Stage0Config.model_validate_json(capsys.readouterr().out)
    assert shown.vision.steps == 1007
    assert not (tmp_path / "run").exists()


def test_another_configuration_needs_another_folder(tmp_path: Path) -> None:
    from vlagent.cli.stage0.launch import _claim

    _claim(SMALL, tmp_path)
    _claim(SMALL, tmp_path)
    with pytest.raises(UserError, match="other settings"):
        _claim(SMALL.model_copy(update={"seed": 1}), tmp_path)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("vision.steps=0", r"^vision\.steps = 0: "),
        ("vision.early_step=1001", r"early_step = 1001 is never reached in steps = 1000"),
        ("vision.lr=-1", r"^vision\.lr = -1: "),
        ("pictures.scenes=1", r"^pictures\.scenes = 1: "),
        ("pictures.spare_names=3", r"^pictures\.spare_names = 3: "),
        ("decoder.phases=[]", r"^decoder\.phases = "),
        ("decoder.phases=[{rows=3}]", r"^decoder\.phases\.0\.steps: not given"),
        ("join.mix={read=0,fact=0,place=0,brand=0,both=0,locate=0}", r"every kind of row has weight 0"),
        ("join.rows=1", r"rows = 1 are too few for processes = 2"),
        ("join.processes=0", r"^join\.processes = 0: "),
        ("level=3", r"^level = 3: "),
        ("checkpoint_s=-1", r"^checkpoint_s = -1: "),
    ],
)
def test_a_setting_that_would_fail_on_the_way_is_refused_at_the_start(override: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        load_config(Stage0Config, None, [override])
    assert "\n" not in str(error.value)


def test_two_runs_never_write_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with only_writer(tmp_path / "run"):
        assert main(["stage0", str(CONFIG), "--run", str(tmp_path / "run")]) == 2
    assert "another process is writing here" in capsys.readouterr().err
    assert not (tmp_path / "run" / "config.json").exists()
