"""Issue 6: how well the rules of `curate verify` find planted flaws, kind by kind."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from accept.planted import KINDS, Set, make, write_run
from vlagent.curate.verify import Checks, Rejection, verify
from vlagent.files import read_records


@dataclass
class Found:
    """What was found of one set."""

    planted: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    """Episodes that the rules say have a flaw of the kind."""
    true: Counter[str] = field(default_factory=Counter)
    """Of these, those that have it."""
    misses: list[str] = field(default_factory=list)
    clean: int = 0
    clean_rejected: int = 0

    def recall(self, kind: str) -> float:
        return self.hit[kind] / self.planted[kind]

    def precision(self, kind: str) -> float:
        return self.true[kind] / self.said[kind] if self.said[kind] else 0.0


def measure(folder: Path, seed: int, blind: bool = False) -> Found:
    """Plant, verify, count; `blind` forgets every finding (the sabotage of this item)."""
    planted = make(folder, seed)
    run, out = folder / f"run-{seed}", folder / f"out-{seed}"
    for each in (run, out):
        shutil.rmtree(each, ignore_errors=True)
    write_run(run, planted.episodes)
    asyncio.run(verify([run], out, Checks(), planted.test))
    rejections = {} if blind else {each.sample_id: each for each in read_records(out / "findings.jsonl", Rejection)}
    return count(planted, rejections)


def count(planted: Set, rejections: dict[str, Rejection]) -> Found:
    """Hold the findings against what was planted."""
    found = Found()
    for each in planted.episodes:
        rejection = rejections.get(each.sample.id)
        said = {finding.kind for finding in rejection.findings} if rejection else set()
        found.said.update(said)
        found.true.update(kind for kind in said if kind in each.kinds)
        if not each.kinds:
            found.clean += 1
            found.clean_rejected += bool(said)
        else:
            found.planted[each.kinds[0]] += 1
            found.hit[each.kinds[0]] += each.kinds[0] in said
        if (each.kinds and each.kinds[0] not in said) or said - set(each.kinds):
            why = [f"{one.kind}@{one.turn}: {one.why}" for one in rejection.findings] if rejection else []
            found.misses.append(f"{each.sample.id} planted {each.kinds} said {why}")
    return found


if __name__ == "__main__":
    import sys

    result = measure(Path(sys.argv[1]), int(sys.argv[2]))
    for name in KINDS:
        print(name, result.planted[name], f"precision {result.precision(name):.3f} recall {result.recall(name):.3f}")
    print("clean", result.clean, "rejected", result.clean_rejected)
    print("\n".join(result.misses))
