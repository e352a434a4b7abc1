"""`vlagent curate mine DATA`: k rollouts a question, pass rates, and the questions that are hard."""

from __future__ import annotations

import argparse

from vlagent.cli.curate import options
from vlagent.cli.terminal import warn
from vlagent.errors import UserError

EPILOG = """examples:
  vlagent curate mine fvqa.json:fvqa_train --run runs/mined --search live.toml --model Qwen2.5-VL-7B-Instruct \\
      --base-url http://localhost:8000/v1 --dry-run
  vlagent curate mine runs/toy/manifest.json:toy_train --run runs/mined --search runs/toy/train/search \\
      --model shipped:sft

RUN/pass_rates.jsonl is what `data.curriculum.pass_rates` of a training configuration reads; RUN/hard/manifest.json is
the set that is kept. The same command, or --resume RUN, goes on where a run stopped; no answer is paid for twice."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of `eval`, and what counts as hard."""
    options.add_arguments(parser, EPILOG)
    parser.add_argument(
        "--most-right", type=int, default=1, metavar="N", help="right episodes of a hard question at most (default: 1)"
    )


def run(args: argparse.Namespace) -> int:
    """Play, measure, keep; the exit codes are those of `eval`."""
    from vlagent.curate.budget import CALLS
    from vlagent.curate.mine import HARD, ROLLOUTS, check_before, describe, keep_hard

    options.check_at_least("--most-right", args.most_right, 0)
    options.set_defaults(args, k=ROLLOUTS)
    prepared = options.prepare(args, CALLS)
    check_before(prepared.run, prepared.config, prepared.samples, args.most_right)
    print(options.quoted(prepared, "mining").line())
    if args.dry_run:
        return 0
    ended = options.play(prepared)
    try:
        print(describe(keep_hard(prepared.run, args.most_right)))
    except UserError as error:
        if ended == 0:
            raise
        # Nothing is scored since a service was down or the run was stopped: the exit code says which.
        warn(str(error))
        return ended
    options.say_paid(prepared)
    print(prepared.run / HARD / "manifest.json")
    return ended
