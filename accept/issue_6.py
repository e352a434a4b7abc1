"""Issue 6: one chain from mined questions to weights, planted flaws, kills, the annotation page, exports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accept.harness import ROOT, Context, Figure, Item, dump, one_thread, run_tests, sabotage
from accept.issue_2 import SEED, by_kind, open_world, play, words
from accept.issue_6_planted import measure
from accept.planted import KINDS
from vlagent.bench.compare import Pairing, compare
from vlagent.cli.shipped import PREFIX, folder_of
from vlagent.curate.mine import PASS_RATES, PassRate
from vlagent.files import read_json, read_records
from vlagent.toy.world import SYSTEM_PROMPT, WorldConfig, make_world

START = f"{PREFIX}sft"
EACH = {False: 60, True: 30}
"""Questions a kind that are mined, by QUICK."""
TESTED = 100
"""Questions a kind of the test: 500 in all."""
TRAIN_SEED = 61
"""Of the world that is mined in."""
UNSEEN_SEED = 3
"""Of the planted flaws: an odd seed, whose phrases no rule was written by."""
SFT = "configs/sft/toy_sft.toml"


def chain(ctx: Context) -> list[Figure]:
    """Mine, synthesise, verify, fine-tune, evaluate; sabotaged, the untrained base model stands in at the end."""
    world = ctx.folder / "world"
    make_world(world, WorldConfig(seed=TRAIN_SEED, per_kind={"train": EACH[ctx.quick]}, system_prompt=SYSTEM_PROMPT))
    data, search = f"{world / 'manifest.json'}:toy_train", str(world / "train" / "search")
    mined, made, clean = (ctx.folder / name for name in ("mined", "made", "clean"))
    _vlagent("curate", "mine", data, "--run", mined, "--search", search, "--model", START, "--concurrency", "64")
    hard = f"{mined / 'hard' / 'manifest.json'}"
    strong = ("--model", "toy:oracle", "--pixels", "tiny", "--top-k", "1", "--k", "2", "--enough", "1")
    _vlagent("curate", "synthesise", hard, "--run", made, "--search", search, *strong)
    test = open_world(ctx.folder.parent / "test-world", TESTED)
    against = f"{ctx.folder.parent / 'test-world' / 'manifest.json'}:toy_test"
    _vlagent("curate", "verify", made, "--to", clean, "--against", against)
    model = _fine_tuned(ctx, clean)
    before, after = ctx.folder / "before", ctx.folder / ("after-broken" if ctx.broken else "after")
    play(START, test, before)
    kinds = by_kind(play(f"{PREFIX}base" if ctx.broken else f"local:{model}", test, after))
    paired = compare(before, after).all
    found = {"mined": read_json(mined / "mined.json"), "made": read_json(made / "summary.json")}
    dump(ctx.folder, found | {"verified": read_json(clean / "summary.json"), "paired": paired.model_dump()})
    return [*_mining(ctx, mined, search), *_making(found, clean), *_learning(paired, words(kinds))]


def _vlagent(*said: Any) -> None:
    """One verb, in its own process; what was done before is not done again."""
    command = [sys.executable, "-m", "vlagent", *map(str, said)]
    subprocess.run(command, cwd=ROOT, env=one_thread(), check=True, capture_output=True, text=True)


def _fine_tuned(ctx: Context, clean: Path) -> Path:
    """The weights after the verified episodes; from the checkpoint that was mined with, at a third of its rate."""
    run = ctx.folder / "sft"
    if not (run / "summary.json").exists():
        source = f'[{{run = "{clean}"}}]'
        changes = (f"model.path={folder_of(START)}", f"sources={source}", "optim.lr=3e-4", f"run={run}", "epochs=3")
        world = ctx.folder / "world"
        checks = (
            f"validation.data={world / 'manifest.json'}:toy_train",
            f"validation.search={world / 'train' / 'search'}",
        )
        _vlagent("sft", SFT, *changes, *checks)
    return run / "model"


def _mining(ctx: Context, mined: Path, search: str) -> list[Figure]:
    """The spread of pass rates, and the score of hard and other questions in a run with other draws."""
    rates = {rate.sample_id: rate for rate in read_records(mined / PASS_RATES, PassRate)}
    fresh = ctx.folder / "fresh"
    data = f"{ctx.folder / 'world' / 'manifest.json'}:toy_train"
    again = ("--seed", str(SEED), "--k", "2", "--concurrency", "64")
    _vlagent("curate", "mine", data, "--run", fresh, "--search", search, "--model", START, *again, "--most-right", "1")
    shares: dict[bool, list[float]] = {True: [], False: []}
    for rate in read_records(fresh / PASS_RATES, PassRate):
        shares[bool(rates[rate.sample_id].hard(1))].append(rate.pass_rate)
    hard, rest = (sum(own) / max(1, len(own)) for own in (shares[True], shares[False]))
    spread = sum(count > 0 for count in read_json(mined / "mined.json")["spread"].values())
    note = f"fresh run: hard {hard:.3f} of {len(shares[True])}, others {rest:.3f} of {len(shares[False])}"
    return [
        Figure("mined_different_pass_rates", spread, len(rates), TRAIN_SEED),
        Figure("mined_hard", len(shares[True]), len(rates), TRAIN_SEED),
        Figure("mined_hard_below_others_points", 100 * (rest - hard), len(rates), SEED, note),
    ]


def _making(found: dict[str, Any], clean: Path) -> list[Figure]:
    verified = read_json(clean / "summary.json")
    made = found["made"]
    return [
        Figure("synthesised_share", made["kept"] / made["questions"], made["questions"], TRAIN_SEED),
        Figure("verified_share", verified["kept"] / verified["episodes"], verified["episodes"], TRAIN_SEED),
    ]


def _learning(paired: Pairing, note: str) -> list[Figure]:
    """Points against the shipped fine-tuned model on the same questions, and the low end of the paired interval."""
    low, high = paired.interval or (float("-inf"), float("inf"))
    said = f"{100 * (paired.first or 0):.1f} -> {100 * (paired.second or 0):.1f}; {note}"
    return [
        Figure("chain_questions", paired.pairs, paired.pairs, SEED),
        Figure("chain_points", 100 * (paired.difference or 0), paired.pairs, SEED, said),
        Figure("chain_low_points", 100 * low, paired.pairs, SEED, f"95 %: {100 * low:.1f} to {100 * high:.1f}"),
    ]


def planted(ctx: Context) -> list[Figure]:
    """Precision and recall on a seed of its own; sabotaged, no finding is looked at."""
    found = measure(ctx.folder, UNSEEN_SEED, blind=ctx.broken)
    dump(ctx.folder, {"misses": found.misses, "clean": found.clean, "clean_rejected": found.clean_rejected})
    figures = [Figure("planted_each", min(found.planted.values()), sum(found.planted.values()), UNSEEN_SEED)]
    for kind in KINDS:
        n = found.planted[kind]
        figures.append(Figure(f"planted_{kind}_precision", found.precision(kind), found.said[kind], UNSEEN_SEED))
        figures.append(Figure(f"planted_{kind}_recall", found.recall(kind), n, UNSEEN_SEED))
    share = found.clean_rejected / found.clean
    return [*figures, Figure("planted_clean_rejected_share", share, found.clean, UNSEEN_SEED)]


RESUMES = ("tests/curate/test_mine.py", "tests/curate/test_synthesise.py", "tests/curate/test_verify.py")
PAGE = ("tests/curate/bench",)
EXPORTS = ("tests/curate/test_export.py", "tests/curate/test_build.py", "tests/curate/test_card.py")


def resumes(ctx: Context) -> list[Figure]:
    """Kills, budgets and quotes; sabotaged, no paid answer is kept."""
    return _tested(ctx, "resume", RESUMES)


def page(ctx: Context) -> list[Figure]:
    """The annotation page in headless Chromium, to a published and scored set; sabotaged, anything passes."""
    return _tested(ctx, "page", PAGE)


def exports(ctx: Context) -> list[Figure]:
    """Exports in `datasets`, TRL and the form of LLaMA-Factory, there and back; sabotaged, an end is lost."""
    return _tested(ctx, "export", EXPORTS)


def _tested(ctx: Context, name: str, paths: Sequence[str]) -> list[Figure]:
    there = [path for path in paths if (ROOT / path).exists()]
    failed, ran = run_tests(ctx, name, there, broken=sabotage(ctx, name))
    return [Figure(f"{name}_tests_failed", failed, ran), Figure(f"{name}_tests", ran, ran)]


ITEMS: dict[str, Item] = {
    "chain": chain,
    "planted": planted,
    "resumes": resumes,
    "page": page,
    "exports": exports,
}
