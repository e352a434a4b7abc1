"""docs/guides/recipe_mars.md runs: bash reads its commands; those of the toy are played, the others are checked."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from vlagent.cli.main import build_parser, main
from vlagent.data.manifest import load_samples

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "recipe_mars.md"
SMALL = "PER_KIND=2 LIMIT=2 ROLLOUTS=2 ATTEMPTS=1 SFT_STEPS=1 RL_STEPS=1 PROMPTS=2"
RECORD = r"""
vlagent() { for word in "$@"; do printf '%s\0' "$word"; done >> "$CALLS"; printf '\n\0' >> "$CALLS"; }
accelerate() { while [ "$1" != vlagent ]; do shift; done; shift; vlagent "$@"; }
EXPERT_URL=https://expert.example/v1
REVIEW_URL=https://review.example/v1
"""
"""Commands are written down with the words that bash makes of them."""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def blocks(size: str) -> list[str]:
    """The settings of a size and its steps, in the order of the page."""
    found = re.findall(r"```bash\n# (settings|step \d+): ([^\n]+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return [text for _, sizes, text in found if size in sizes.split()]


def commands(size: str, folder: Path) -> list[list[str]]:
    """Every call of vlagent in the page, as bash reads it; nothing is run."""
    calls = folder / "calls"
    calls.write_bytes(b"")
    script = "\n".join(["set -euo pipefail", f"CALLS={calls}", SMALL.replace(" ", "\n"), RECORD, *blocks(size)])
    subprocess.run(["bash", "-c", script], check=True, cwd=folder, timeout=30)
    lines = calls.read_bytes().decode().split("\n\0")
    return [line.rstrip("\0").split("\0") for line in lines if line]


def test_each_size_has_its_stages_in_their_order(tmp_path: Path) -> None:
    cold = ["curate mine", "curate synthesise", "curate verify", "curate export", "sft"]
    rest = ["curate build", "data image-cache", "rl", "eval", "report"]
    fetch = ["data fetch", "data check", "bench fetch"]
    wanted = {"7b": [*fetch, *cold, *rest], "8b": [*fetch, *rest], "toy": ["toy make", *cold, *rest]}
    for size, verbs in wanted.items():
        called = [
            " ".join(words[: len(verb.split())]) for words, verb in zip(commands(size, tmp_path), verbs, strict=True)
        ]
        assert called == verbs


@pytest.mark.parametrize("size", ["7b", "8b"])
def test_every_command_of_the_real_recipe_is_understood_and_its_configurations_load(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vlagent.cli.training import training_config
    from vlagent.train.config import SftConfig
    from vlagent.train.folder import FREE
    from vlagent.train.rl.config import RlConfig

    monkeypatch.chdir(ROOT)
    called = commands(size, tmp_path)
    assert len(called) == {"7b": 13, "8b": 8}[size]
    for words in called:
        args, late = build_parser(words).parse_known_args(words)
        assert all("=" in word for word in late)
        if words[0] == "sft":
            args.words = [*args.words, *late]
            sft = training_config(SftConfig, args, "sft", FREE)
            assert sft.sources[0].run == "runs/mars_7b/sft/rows"
        if words[0] == "rl":
            args.words = [*args.words, *late]
            rl = training_config(RlConfig, args, "rl", FREE)
            assert rl.data.sources[0].data == f"runs/mars_{size}/rl_cached/manifest.json"
            if size == "7b":
                assert rl.model.path == "runs/mars_7b/sft_run/model"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_runs_from_a_new_world_to_an_evaluated_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    for name in ("configs", "vlagent"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for words in commands("toy", tmp_path):
        assert main(words) == 0, f"vlagent {' '.join(words)}\n{capsys.readouterr().err}"
    out = tmp_path / "runs" / "recipe"
    tuned = {sample.id for sample in load_samples(out / "mined" / "hard" / "manifest.json")}
    asked = {sample.id for sample in load_samples(out / "rl_cached" / "manifest.json")}
    assert tuned
    assert asked
    assert not tuned & asked
    assert all(sample.image_search for sample in load_samples(out / "rl_cached" / "manifest.json"))
    assert (out / "sft" / "sharegpt.json").exists()
    assert (out / "tested" / "report.html").exists()
