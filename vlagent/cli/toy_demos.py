"""`vlagent toy demos WORLD DIR`: demonstrations of the toy world, with named flaws, as a run folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pydantic import ValidationError

from vlagent.agent.config import AgentConfig
from vlagent.cli.shares import shares
from vlagent.errors import UserError, first_problem
from vlagent.render.sizing import LIMITS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of `demos`, beside those of `make`."""
    parser.add_argument("target", nargs="?", type=Path, metavar="RUN", help="demos: the run folder to write")
    parser.add_argument("--split", default="train", help="demos: whose questions (default train)")
    parser.add_argument(
        "--imperfect",
        default="",
        metavar="FLAW=SHARE,...",
        help="demos: redundant_call, stray_crop, early_guess, broken_call and the share of episodes with each",
    )
    parser.add_argument("--direct", type=float, default=0.0, metavar="SHARE", help="demos: direct answers besides")
    parser.add_argument("--rollouts", type=int, default=1, metavar="N", help="demos: episodes a question (default 1)")
    parser.add_argument("--limit", type=int, metavar="N", help="demos: first N questions")
    parser.add_argument("--top-k", type=int, default=1, help="demos: results of a search (default 1: short episodes)")
    parser.add_argument("--pixels", choices=tuple(LIMITS), default="tiny", help="demos: picture sizes (default tiny)")


def run(args: argparse.Namespace) -> int:
    """Play them; the tally goes to stdout."""
    from vlagent.data.manifest import load_samples
    from vlagent.search.open import open_search
    from vlagent.toy.demonstrations import DemoConfig, demonstrate

    if args.target is None:
        raise UserError("toy demos: write vlagent toy demos WORLD RUN, RUN being the folder of the demonstrations")
    agent = _agent(args)
    table = {"flaws": flaws(args.imperfect), "direct": args.direct, "rollouts": args.rollouts, "seed": args.seed}
    try:
        config = DemoConfig.model_validate({**table, "agent": agent.model_dump()})
    except ValidationError as error:
        raise UserError(first_problem(error).line("--imperfect")) from None
    samples = load_samples(f"{args.folder / 'manifest.json'}:toy_{args.split}", limit=args.limit)
    search = open_search(args.folder / args.split / "search", top_k=agent.top_k)
    tally = demonstrate(config, samples, search, args.target, _progress if sys.stderr.isatty() else None)
    for name, count in sorted(tally.episodes.items()):
        print(f"  {name}: {count} episodes, {tally.right[name]} right")
    return 0


def _agent(args: argparse.Namespace) -> AgentConfig:
    if not 1 <= args.top_k <= 5:
        raise UserError(f"--top-k {args.top_k}: from 1 to 5")
    return AgentConfig(pixels=LIMITS[args.pixels], top_k=args.top_k, seed=args.seed)


def flaws(text: str) -> dict[str, float]:
    """`a=0.2,b=0.1` as a table. Raises `UserError`."""
    return shares(text, "--imperfect", "FLAW=SHARE, such as early_guess=0.2")


def _progress(done: int, total: int) -> None:
    print(f"\rdemonstrations {done}/{total}   ", end="\n" if done == total else "", file=sys.stderr, flush=True)
