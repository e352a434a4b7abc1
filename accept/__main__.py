"""`python -m accept N [--break ITEM] [--quick] [--fresh]`."""

from __future__ import annotations

import argparse
import importlib
import sys

from accept.harness import run_items


def main() -> int:
    """Run the items of one issue."""
    parser = argparse.ArgumentParser(prog="python -m accept")
    parser.add_argument("issue")
    parser.add_argument("--break", dest="broken", metavar="ITEM", help="sabotage this item; it must come out short")
    parser.add_argument("--only", metavar="ITEM", help="measure this item alone")
    parser.add_argument("--quick", action="store_true", help="fewer samples, at most 20 minutes")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier calls measured")
    args = parser.parse_args()
    try:
        items = importlib.import_module(f"accept.issue_{args.issue}").ITEMS
    except ModuleNotFoundError:
        print(f"accept: there is no accept/issue_{args.issue}.py", file=sys.stderr)
        return 2
    for name in (args.broken, args.only):
        if name is not None and name not in items:
            print(f"accept: no item {name!r}; the items are {', '.join(items)}", file=sys.stderr)
            return 2
    chosen = {args.only: items[args.only]} if args.only else items
    return run_items(args.issue, chosen, quick=args.quick, broken=args.broken, fresh=args.fresh)


if __name__ == "__main__":
    sys.exit(main())
