"""The command line: one verb a file, imported only when it is asked for.

A verb module has `HELP`, `add_arguments(parser)` and `run(args) -> int` (the exit code).
Exit codes: 0 done; 1 a bug (traceback); 2 the user's error (one line); 3 a service failed past its limit; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import NoReturn

from vlagent.errors import ServiceError, UserError
from vlagent.version import VERSION

VERBS = {
    "ask": "ask a question about pictures",
    "index": "index a folder of documents or pictures",
    "toy": "make the toy world",
    "bench": "list, fetch and check the published evaluation sets",
    "data": "look after data sets",
    "eval": "run a suite or a manifest and score it",
    "rescore": "score the episodes of a run again, without its model",
    "compare": "compare two runs question by question",
    "stage0": "pre-train a tiny model: perception and copying",
    "report": "write the page of a run",
    "sft": "fine-tune a model on episodes",
    "rl": "train a model by reinforcement learning",
    "ablate": "run algorithms, data mixes and cold starts against each other, and say what differs",
    "curate": "make data: mine, synthesise, verify, build sets and benchmarks",
    "plan": "the memory that a training run needs, by part (an estimate)",
    "serve": "serve search, retrieval, or a whole set-up",
    "demo": "make a toy world, run policies through it, print the table",
    "doctor": "what is installed, reachable, missing, and the fix",
}
"""Verb -> its line in --help; the module is `vlagent.cli.<verb>`."""


class _Parser(argparse.ArgumentParser):
    """A mistake is one line, like every other of the user's; the usage is a `--help` away."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


CONFIGURED = ("sft", "rl", "plan", "ablate")
"""Verbs that take a configuration and overrides as free `words`."""


def build_parser(argv: list[str]) -> argparse.ArgumentParser:
    """A parser that knows every verb's name but loads only the one that is called."""
    parser = _Parser(prog="vlagent", description="An agent that looks, thinks, crops and searches.")
    parser.add_argument("--version", action="version", version=f"vlagent {VERSION}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    called = next((word for word in argv if not word.startswith("-")), None)
    for name, line in VERBS.items():
        sub = verbs.add_parser(name, help=line, description=line)
        if name == called:
            module = importlib.import_module(f"vlagent.cli.{name.replace('-', '_')}")
            module.add_arguments(sub)
            sub.set_defaults(run_verb=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one verb; a user's error and a service's failure are one line each, a bug keeps its traceback."""
    words = sys.argv[1:] if argv is None else argv
    try:
        _refuse_broken_letters(words)
        args = _parsed(words)
        code: int = args.run_verb(args)
    except UserError as error:
        _say(error)
        return 2
    except ServiceError as error:
        _say(error)
        return 3
    except KeyboardInterrupt:
        print("vlagent: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parsed(words: list[str]) -> argparse.Namespace:
    """Overrides may also stand behind an option: argparse takes the free words of one place only."""
    parser = build_parser(words)
    args, left = parser.parse_known_args(words)
    late = [word for word in left if "=" in word and not word.startswith("-")]
    if left and (late != left or args.verb not in CONFIGURED):
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    if late:
        args.words = [*args.words, *late]
    return args


def _refuse_broken_letters(words: list[str]) -> None:
    """Paths and questions are kept as JSON, which holds no bytes outside UTF-8."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UserError(f"{word!r} is not UTF-8: rename the file, or set the terminal to UTF-8") from None


def _say(error: Exception) -> None:
    """One line; a server's or a file's control characters must not reach the terminal."""
    from vlagent.cli.terminal import one_line

    print(f"vlagent: {one_line(str(error))}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
