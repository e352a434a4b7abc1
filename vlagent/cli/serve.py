"""`vlagent serve search|retrieval|stack`: the search services over HTTP, and all services of a set-up at once."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlagent.errors import UserError

if TYPE_CHECKING:
    from vlagent.search.server.desk import Supplies
    from vlagent.search.server.options import ServerOptions

HELP = "serve search, retrieval, or a whole set-up"
EPILOG = """what:
  search      POST /search, /retrieve and /image_search, from a live.toml (the web) and --local (an index)
  retrieval   POST /retrieve of Search-R1, from a search folder
  stack       all services of a profile: cpu, one-node-8gpu, mars-three-nodes

examples:
  vlagent serve search live.toml --local wikipedia
  vlagent serve search my-index
  vlagent serve retrieval wikipedia --port 8001
  vlagent serve stack mars-three-nodes --node search --address judge=10.0.0.3 --search live.toml --dry-run

A server listens on this machine only. With --host it can be reached by others, who then send the key that is in
VLAGENT_SERVER_KEY as `Authorization: Bearer KEY`."""
WHAT = ("search", "retrieval", "stack")
ONLY_FOR = {
    "local": ("search",),
    "allow_database": ("search",),
    "allow_model": ("search",),
    "node": ("stack",),
    "address": ("stack",),
    "search": ("stack",),
    "passages": ("stack",),
    "only": ("stack",),
    "dry_run": ("stack",),
    "host": ("search", "retrieval"),
    "port": ("search", "retrieval"),
}
"""Option -> what it is for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("what", choices=WHAT, help="what to serve")
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="a live.toml, a search folder, or a profile")
    parser.add_argument("--host", help="where to listen (127.0.0.1); elsewhere VLAGENT_SERVER_KEY is needed")
    parser.add_argument("--port", type=int, help="search: (8000), retrieval: (8001)")
    parser.add_argument("--local", metavar="DIR|URL", help='search: what retrieval_mode "local" asks')
    parser.add_argument("--allow-database", action="append", metavar="URL", help="search: callers may name it (repeat)")
    parser.add_argument("--allow-model", action="append", metavar="NAME", help="search: callers may name it (repeat)")
    parser.add_argument("--at-once", type=int, metavar="N", help="queries being answered at one time (64)")
    parser.add_argument("--waiting", type=int, metavar="N", help="queries that may wait; more get HTTP 429 (256)")
    parser.add_argument("--deadline-s", type=float, metavar="S", help="of one request, waiting included (60)")
    parser.add_argument("--drain-s", type=float, metavar="S", help="for running requests, once told to stop (30)")
    parser.add_argument("--log", choices=("info", "debug"), help="debug also writes queries (info)")
    add_stack_arguments(parser)


def add_stack_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of `serve stack`."""
    parser.add_argument("--node", metavar="NAME", help="stack: which machine of the profile this is")
    parser.add_argument(
        "--address", action="append", metavar="NODE=HOST", help="stack: where another machine is (repeat)"
    )
    parser.add_argument("--search", metavar="TOML|DIR", help="stack: what the search server answers from")
    parser.add_argument("--passages", metavar="DIR", help="stack: the search folder of the retrieval server")
    parser.add_argument("--only", action="append", metavar="SERVICE", help="stack: start just this one here (repeat)")
    parser.add_argument("--dry-run", action="store_true", default=None, help="stack: print the commands, start nothing")


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    _refuse_strange(args)
    if args.what == "stack":
        from vlagent.cli.stack import run_stack

        return run_stack(args)
    missing = next((name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None), None)
    if missing:
        raise UserError(f"serve needs {missing}: pip install 'vlagent[serve]'")
    from vlagent.search.server.run import serve

    serve(_supplies(args), _options(args), f"vlagent {args.what}")
    return 0


def _refuse_strange(args: argparse.Namespace) -> None:
    for name, kinds in ONLY_FOR.items():
        if getattr(args, name) is not None and args.what not in kinds:
            raise UserError(f"--{name.replace('_', '-')}: only for serve {' and '.join(kinds)}")
    if args.source is None and (args.what != "search" or not args.local):
        wanted = {"search": "a live.toml, a search folder, or --local", "retrieval": "a search folder"}
        raise UserError(f"serve {args.what}: name {wanted.get(args.what, 'a profile')}")


def _options(args: argparse.Namespace) -> ServerOptions:
    from vlagent.config import make_config
    from vlagent.search.server.options import RETRIEVAL_PORT, SEARCH_PORT, ServerOptions

    names = ("host", "port", "at_once", "waiting", "deadline_s", "drain_s", "log")
    given: dict[str, Any] = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    given.setdefault("port", SEARCH_PORT if args.what == "search" else RETRIEVAL_PORT)
    given |= {"databases": args.allow_database or [], "models": args.allow_model or []}
    return make_config(ServerOptions, given)


def _supplies(args: argparse.Namespace) -> Supplies:
    from vlagent.config import load_config
    from vlagent.search.live_config import LiveConfig
    from vlagent.search.server.desk import Supplies

    if args.source is None or not args.source.endswith(".toml"):
        if args.source and args.local:
            raise UserError(f"--local {args.local}: {args.source} is local already; name a live.toml before it")
        return Supplies(local=args.source or args.local)
    if args.what == "retrieval":
        raise UserError(f"serve retrieval {args.source}: a search folder is expected (vlagent index makes it)")
    live = load_config(LiveConfig, Path(args.source))
    return Supplies(live=live, local=args.local or live.folder)
