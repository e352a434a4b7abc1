"""`vlagent curate synthesise DATA`: a strong model plays, the best episode of each question is kept."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from vlagent.cli.curate import options
from vlagent.cli.terminal import warn
from vlagent.errors import UserError

if TYPE_CHECKING:
    from vlagent.cli.eval import Prepared
    from vlagent.curate.synthesise import Cast, Settings, Synthesis

EPILOG = """examples:
  vlagent curate synthesise runs/mined/hard/manifest.json --run runs/made --search live.toml \\
      --model gemini-2.5-flash --base-url URL --price 0.3,2.5 --budget 40 --enough 1 --dry-run
  vlagent curate synthesise runs/mined/hard/manifest.json --run runs/made --search runs/toy/train/search \\
      --model toy:oracle --pixels tiny --top-k 1

--k is the number of attempts a question (default: 4). RUN holds the best episode of each question (right, fewest
calls), RUN/attempts all of them. The same command, or --resume RUN, goes on; no answer is paid for twice."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of `eval`, and what helps the model."""
    options.add_arguments(parser, EPILOG)
    parser.add_argument("--enough", type=int, metavar="N", help="play a question no more once N attempts could be kept")
    parser.add_argument(
        "--hint", action="store_true", help="tell the model the answer; episodes that show it are dropped"
    )
    parser.add_argument("--demonstrations", metavar="RUN", help="show the model right episodes of this run folder")
    parser.add_argument("--shots", type=int, metavar="N", help="how many of them (default: 2)")
    parser.add_argument("--experts", metavar="FILE", help="JSON lines of sample_id and turns that people wrote")


def run(args: argparse.Namespace) -> int:
    """Play, keep, say what came of it; the exit codes are those of `eval`."""
    from vlagent.cli.eval import EXIT
    from vlagent.curate.budget import CALLS, quote_episodes
    from vlagent.curate.synthesise import ATTEMPTS, describe

    settings = _settings(args)
    options.set_defaults(args, k=ATTEMPTS)
    prepared = options.prepare(args, CALLS)
    if settings.enough and settings.enough > prepared.config.k:
        raise UserError(f"--enough {settings.enough}: a question has {prepared.config.k} attempts (--k)")
    cast = _cast(prepared, settings)
    quote = quote_episodes(prepared.config, prepared.samples, done=_done(prepared, settings, cast), what="synthesis")
    print(quote.line() + ("; less where --enough is met" if settings.enough else ""))
    if args.dry_run:
        return 0
    made = asyncio.run(_synthesise(prepared, settings, cast))
    print(describe(made))
    options.say_paid(prepared)
    if made.ended != "complete":
        warn(f"ended: {made.ended}; the same command goes on ({made.last_failure or 'nothing failed'})")
    print(prepared.run)
    return EXIT[made.ended]


def _settings(args: argparse.Namespace) -> Settings:
    from vlagent.curate.synthesise import Settings

    options.check_at_least("--enough", args.enough, 1)
    options.check_at_least("--shots", args.shots, 1)
    if args.resume:
        return _resumed(args)
    if args.shots and not args.demonstrations:
        raise UserError(f"--shots {args.shots}: say of which run folder with --demonstrations RUN")
    shots = (args.shots or 2) if args.demonstrations else 0
    return Settings(
        enough=args.enough,
        hint=args.hint,
        demonstrations=args.demonstrations,
        shots=shots,
        experts=args.experts,
    )


def _resumed(args: argparse.Namespace) -> Settings:
    """The settings of the run; an option that says otherwise is refused."""
    from vlagent.curate.synthesise import SETTINGS, read_settings

    if not (args.resume / SETTINGS).exists():
        raise UserError(f"--resume {args.resume}: holds no {SETTINGS}; it is no run of `curate synthesise`")
    before = read_settings(args.resume)
    for name in type(before).model_fields:
        was, now = getattr(before, name), getattr(args, name)
        if now not in (None, False, was):
            raise UserError(f"--{name} {now}: this run was begun with {was}; leave it out, or choose another --run")
    return before


def _cast(prepared: Prepared, settings: Settings) -> Cast:
    from vlagent.curate.synthesise import Cast, coached
    from vlagent.curate.synthesise_coach import shots_of
    from vlagent.curate.synthesise_experts import read_experts

    seed = prepared.config.agent.seed
    shots = shots_of(Path(settings.demonstrations), settings.shots, seed) if settings.demonstrations else []
    experts = read_experts(Path(settings.experts), prepared.samples) if settings.experts else None
    agent = coached(prepared.agent, settings, prepared.samples, shots)
    return Cast(agent, experts, prepared.judge)


def _done(prepared: Prepared, settings: Settings, cast: Cast) -> int:
    """Episodes of the model that are over."""
    from vlagent.curate.synthesise import EXPERTS, asked_in, rounds

    done = 0
    for made in rounds(prepared.config, cast):
        folder = prepared.run / made.name
        if made.name != EXPERTS and (folder / "config.json").exists():
            asked = asked_in(made, settings, prepared.samples, prepared.run)
            done += options.done_in(folder, made.config, asked)
    return done


async def _synthesise(prepared: Prepared, settings: Settings, cast: Cast) -> Synthesis:
    from vlagent.bench.evaluate import Watcher
    from vlagent.cli import judges
    from vlagent.cli.eval import stop_on_interrupt
    from vlagent.cli.models import close_model
    from vlagent.curate.synthesise import synthesise

    try:
        watcher = Watcher()
        stop_on_interrupt(watcher.stop)
        return await synthesise(prepared.config, settings, cast, prepared.samples, prepared.run, watcher)
    finally:
        await close_model(prepared.agent.model)
        await prepared.agent.search.aclose()
        await judges.close_judges(prepared.judge)
