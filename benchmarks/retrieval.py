"""Retrieval of passages: tantivy against bm25s on the same corpus, and words against vectors against both.

    python -m benchmarks.retrieval [PASSAGES]

Size: `PASSAGES` of 80 words with the frequencies of a language. Each side builds in a process of its own and is opened
and asked in another one: seconds, peak and open memory, bytes on disk, p50 and p99 of a query, and how often it finds
the passage that the query's five words were taken from.

Quality: docstrings of installed packages. The summary line is the query, the rest of the docstring the passage that it
should find; `half` keeps every other word of it. Lexical, dense and hybrid get the same queries. The kinds of dense
index are compared with exact search over the same vectors.
"""

from __future__ import annotations

import ast
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.search import _corpus
from vlagent.search.dense_build import DenseOptions, index_dense
from vlagent.search.dense_index import DenseIndex
from vlagent.search.dense_vectors import Kind, refresh_vectors
from vlagent.search.hybrid import HybridIndex
from vlagent.search.retrieval import PassageSearch
from vlagent.search.text_build import TextOptions, index_text
from vlagent.search.text_index import TextIndex

PASSAGES = 300_000
QUERIES = 300
DOCSTRINGS = 6_000
ASKED = 400
PACKAGES = ("numpy", "scipy", "sklearn", "skimage", "transformers", "torch", "networkx")
SIDES = ("tantivy", "tantivy, 2 shards", "bm25s")


def measure(passages: int = PASSAGES, docstrings: int = DOCSTRINGS) -> dict[str, Any]:
    """Both parts in one run."""
    with tempfile.TemporaryDirectory() as folder:
        return {"size": size(Path(folder), passages), "quality": quality(Path(folder), docstrings)}


# --- size ---------------------------------------------------------------------------------------------------------


def size(folder: Path, count: int, sides: Sequence[str] = SIDES) -> dict[str, Any]:
    """Build, disk, memory and query times of each side."""
    rows = _corpus(count)
    corpus = folder / "corpus.jsonl"
    with corpus.open("w") as file:
        file.writelines(json.dumps({"id": i, "contents": row}) + "\n" for i, row in enumerate(rows))
    rng = random.Random(1)
    asked = [rng.randrange(count) for _ in range(QUERIES)]
    queries = [(" ".join(rng.sample(rows[i].split(), 5)), i) for i in asked]
    (folder / "queries.json").write_text(json.dumps(queries))
    del rows
    table: dict[str, Any] = {"passages": count, "corpus_mb": corpus.stat().st_size / 1e6}
    for side in sides:
        built = _child("build", side, folder)
        table[side] = {**built, **_child("ask", side, folder)}
    return table


def _child(step: str, side: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.retrieval", step, side, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _build(side: str, folder: Path) -> dict[str, float]:
    started, cpu = time.monotonic(), time.process_time()
    made = folder / side.replace(",", "").replace(" ", "-")
    if side == "bm25s":
        _build_bm25s(folder, made)
    else:
        index_text([folder / "corpus.jsonl"], made, TextOptions(shards=2 if "shards" in side else 1))
    return {
        "build_s": time.monotonic() - started,
        "build_cpu_s": time.process_time() - cpu,
        "build_peak_mb": _peak_mb(),
        "disk_mb": sum(f.stat().st_size for f in made.rglob("*") if f.is_file()) / 1e6,
    }


def _build_bm25s(folder: Path, made: Path) -> None:
    import bm25s

    texts = [json.loads(line)["contents"] for line in (folder / "corpus.jsonl").open()]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)
    index.save(str(made), corpus=texts)


def _ask(side: str, folder: Path) -> dict[str, float]:
    made = folder / side.replace(",", "").replace(" ", "-")
    queries = [(str(text), int(i)) for text, i in json.loads((folder / "queries.json").read_text())]
    started, before = time.monotonic(), _resident_mb()
    find = _open_bm25s(made) if side == "bm25s" else _open_tantivy(made)
    open_s = time.monotonic() - started
    find(queries[-1][0])
    times, right = [], 0
    for text, number in queries:
        started = time.perf_counter()
        right += find(text) == number
        times.append(1000 * (time.perf_counter() - started))
    return {
        "open_s": open_s,
        "open_mb": _resident_mb() - before,
        "p50_ms": statistics.median(times),
        "p99_ms": float(np.percentile(times, 99)),
        "recall_at_1": right / len(queries),
    }


def _open_tantivy(made: Path) -> Callable[[str], int]:
    index = TextIndex(made / "text")

    def find(text: str) -> int:
        found = index.passages([text], 5)[0]
        return int(found[0].id) if found else -1

    return find


def _open_bm25s(made: Path) -> Callable[[str], int]:
    import bm25s

    index = bm25s.BM25.load(str(made), load_corpus=True, mmap=True)

    def find(text: str) -> int:
        tokens = bm25s.tokenize([text], stopwords=None, show_progress=False)
        found = index.retrieve(tokens, k=5, show_progress=False).documents[0][0]
        return int(found["id"])

    return find


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


# --- quality ------------------------------------------------------------------------------------------------------


def quality(folder: Path, count: int, asked: int = ASKED) -> dict[str, Any]:
    """Recall at 1 and 5 and the mean reciprocal rank of each way to search, and of each kind of vectors."""
    items = list(_docstrings(count))
    corpus = folder / "docstrings.jsonl"
    rows = ({"id": i, "title": name, "text": body} for i, (name, _, body) in enumerate(items))
    corpus.write_text("\n".join(map(json.dumps, rows)))
    made = folder / "quality"
    index_text([corpus], made, TextOptions(passage_words=400))
    index_dense([corpus], made, DenseOptions(passage_words=400, kind="flat"))
    lexical, dense = TextIndex(made / "text"), DenseIndex(made / "dense")
    ways: dict[str, PassageSearch] = {
        "lexical": lexical,
        "dense": dense,
        "hybrid": HybridIndex([lexical, dense]),
        "hybrid, words twice": HybridIndex([lexical, dense], weights=(2, 1)),
    }
    chosen = random.Random(3).sample(range(len(items)), min(asked, len(items)))
    summaries = [(items[i][1], str(i)) for i in chosen]
    halves = [(" ".join(text.split()[::2]), name) for text, name in summaries]
    table: dict[str, Any] = {"passages": len(items), "queries": len(chosen)}
    for name, queries in {"summary": summaries, "half": halves}.items():
        table[name] = {way: _scores(index, queries) for way, index in ways.items()}
    table["kinds"] = _kinds(made / "dense", [text for text, _ in summaries])
    return table


def _docstrings(count: int) -> Iterator[tuple[str, str, str]]:
    """(name, summary, rest), each summary once, packages by turns of their files."""
    seen: set[str] = set()
    for path in _sources():
        for name, text in _documented(path):
            summary, _, rest = text.strip().partition("\n\n")
            summary, body = " ".join(summary.split()), " ".join(rest.split()[:300])
            if summary in seen or len(summary.split()) < 6 or len(body.split()) < 30:
                continue
            seen.add(summary)
            yield name, summary, body
            if len(seen) >= count:
                return


def _sources() -> list[Path]:
    folders = [spec.submodule_search_locations for spec in map(find_spec, PACKAGES) if spec is not None]
    files = [file for places in folders if places for file in sorted(Path(places[0]).rglob("*.py"))]
    random.Random(0).shuffle(files)
    return files


def _documented(path: Path) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
            yield f"{path.stem}.{node.name}", text


def _scores(index: PassageSearch, queries: Sequence[tuple[str, str]]) -> dict[str, float]:
    started = time.perf_counter()
    found = [index.passages([text], 10)[0] for text, _ in queries]
    spent = time.perf_counter() - started
    ranks = [
        next((r for r, one in enumerate(of, 1) if one.id == name), 0)
        for of, (_, name) in zip(found, queries, strict=True)
    ]
    return {
        "recall_at_1": statistics.fmean(rank == 1 for rank in ranks),
        "recall_at_5": statistics.fmean(0 < rank <= 5 for rank in ranks),
        "mrr_at_10": statistics.fmean(1 / rank if rank else 0.0 for rank in ranks),
        "mean_ms": 1000 * spent / len(queries),
    }


def _kinds(folder: Path, texts: Sequence[str]) -> dict[str, Any]:
    """Overlap of the best ten with those of exact search, bytes a vector, milliseconds a query."""
    store = DenseIndex(folder)._store
    queries = DenseIndex(folder)._model.queries(texts)
    exact = DenseIndex(folder).nearest(queries, 10)[1]
    table = {}
    kinds: tuple[Kind, ...] = ("flat", "ivf-sq8", "ivf-rabitq")
    for kind in kinds:
        started = time.monotonic()
        state = refresh_vectors(folder, store.vectors, store.dead, kind)
        built = time.monotonic() - started
        for rerank in (1, 8) if kind != "flat" else (1,):
            index = DenseIndex(folder, rerank=rerank)
            started = time.perf_counter()
            found = index.nearest(queries, 10)[1]
            spent = time.perf_counter() - started
            table[kind if rerank == 1 else f"{kind}, re-ranked"] = {
                "recall_at_10_of_exact": float(
                    np.mean([len({*a} & {*b}) / 10 for a, b in zip(exact, found, strict=True)])
                ),
                "bytes_a_vector": (folder / state.file).stat().st_size / state.held,
                "train_and_add_s": built,
                "ms": 1000 * spent / len(queries),
            }
    return table


def main() -> None:
    if sys.argv[1:2] in (["build"], ["ask"]):
        step = _build if sys.argv[1] == "build" else _ask
        print(json.dumps(step(sys.argv[2], Path(sys.argv[3]))))
        return
    print(json.dumps(measure(*(int(word) for word in sys.argv[1:2])), indent=1))


if __name__ == "__main__":
    main()
