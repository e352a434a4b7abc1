import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import faiss
import numpy as np
import pytest

from vlagent.errors import UserError
from vlagent.search.base import TextQuery
from vlagent.search.corpus_formats import SearchR1Index, line_offsets, link_search_r1
from vlagent.search.dense_build import DenseOptions, index_dense
from vlagent.search.dense_embedders import Floats, SentenceEmbedder, open_embedder, unit
from vlagent.search.dense_index import DenseIndex
from vlagent.search.dense_vectors import Kind, Nearest, open_vectors, read_state, refresh_vectors
from vlagent.search.hybrid import HybridIndex, fuse
from vlagent.search.open import open_passages, open_search
from vlagent.search.retrieval import Found, retrieve
from vlagent.search.text_build import index_text
from vlagent.types import Source

KINDS: tuple[Kind, ...] = ("flat", "ivf-sq8", "ivf-rabitq")


class Letters:
    """Counts letters: enough to tell texts apart, and quick."""

    dim = 64

    def queries(self, texts: Sequence[str]) -> Floats:
        return self.passages(texts)

    def passages(self, texts: Sequence[str]) -> Floats:
        counts = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for letter in text.lower():
                counts[row, ord(letter) % self.dim] += 1
        return unit(counts)


def corpus(path: Path, count: int) -> Path:
    words = [
        "amber",
        "birch",
        "cobalt",
        "dune",
        "ember",
        "fjord",
        "grove",
        "heath",
        "inlet",
        "jetty",
        "knoll",
        "lagoon",
    ]
    rng = np.random.default_rng(5)
    rows = [{"id": f"r{i}", "contents": f"Title {i}\n{' '.join(rng.choice(words, 9))} {i:05}"} for i in range(count)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def index(folder: Path, **options: object) -> DenseIndex:
    return DenseIndex(folder / "dense", Letters(), **options)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    corpus(folder / "c.jsonl", 3000)
    index_dense([folder / "c.jsonl"], folder, DenseOptions(kind="flat"), embedder=Letters())
    return folder


def test_the_static_embedder_needs_no_network_and_knows_meaning() -> None:
    model = open_embedder("static")
    query = model.queries(["Where does the physician work?"])
    near, far, empty = model.passages(["The doctor is employed at a hospital.", "Bananas are yellow.", ""]) @ query[0]
    assert near > far
    assert np.isfinite(empty)
    assert model.passages([]).shape == (0, 256)
    loaded = "import sys, vlagent.search.dense_embedders as d; d.open_embedder().queries(['x']); print(*sys.modules)"
    assert "torch" not in subprocess.run(
        [sys.executable, "-c", loaded],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip


def test_every_kind_finds_what_exact_search_finds(world: Path) -> None:
    queries = Letters().queries([f"birch ember grove {i:05}" for i in range(0, 3000, 97)])
    exact = index(world).nearest(queries, 10)[1]
    store = index(world)._store
    recall = {}
    for kind in KINDS[1:]:
        state = refresh_vectors(world / "dense", store.vectors, store.dead, kind)
        for rerank in (1, 8):
            found = index(world, rerank=rerank).nearest(queries, 10)[1]
            recall[kind, rerank] = np.mean([len({*a} & {*b}) / 10 for a, b in zip(exact, found, strict=True)])
        assert state.kind == kind
        assert len(list((world / "dense").glob("vectors-*.faiss*"))) == 1
    refresh_vectors(world / "dense", store.vectors, store.dead, "flat")
    assert recall["ivf-sq8", 8] > 0.8
    assert recall["ivf-rabitq", 8] > recall["ivf-rabitq", 1] + 0.1
    assert index(world, probes=1).kind == "flat"


def test_more_probes_find_more() -> None:
    vectors = unit(np.random.default_rng(1).standard_normal((4000, 16)).astype(np.float32)).astype(np.float16)
    ivf = faiss.index_factory(16, "IVF64,SQ8", faiss.METRIC_INNER_PRODUCT)
    ivf.train(vectors.astype(np.float32))
    ivf.add(vectors.astype(np.float32))
    nearest = Nearest(ivf, "ivf-sq8", np.zeros(0, np.int64), vectors)
    queries = vectors[:50].astype(np.float32)
    truth = np.argsort(-(queries @ vectors.astype(np.float32).T), axis=1)[:, :10]

    def recall(probes: int) -> float:
        found = nearest.search(queries, 10, probes=probes, rerank=4)[1]
        return float(np.mean([len({*a} & {*b}) / 10 for a, b in zip(truth, found, strict=True)]))

    assert recall(1) < recall(8) < recall(64)
    assert recall(64) > 0.97


def test_a_hit_carries_id_title_text_file_and_a_float_score(world: Path) -> None:
    (found,) = index(world).passages(["Title 7\n00007"], 1)[0]
    hit = asyncio.run(index(world).search(TextQuery(text="Title 7\n00007", top_k=1)))[0]
    assert found.hit() == hit
    assert found.source.file == str(world / "c.jsonl")
    assert (found.id[0], isinstance(found.score, float)) == ("r", True)


def test_no_query_no_words_and_no_room_give_no_hits(world: Path) -> None:
    assert index(world).passages([], 3) == []
    assert index(world).passages(["", " "], 3) == [[], []]
    assert index(world).passages(["x", "\ud800"], 0) == [[], []]
    assert len(index(world).passages(["x"], 5000)[0]) == 3000


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_adds_replaces_and_removes(tmp_path: Path, kind: Kind) -> None:
    options = DenseOptions(kind=kind)
    for name in ("amber", "birch", "cobalt"):
        (tmp_path / f"{name}.txt").write_text(f"{name} " * 5)
    index_dense([tmp_path], tmp_path / "s", options, embedder=Letters())
    (tmp_path / "amber.txt").write_text("zzz zzz zzz")
    (tmp_path / "birch.txt").unlink()
    (tmp_path / "dune.txt").write_text("dune " * 5)
    report = index_dense([tmp_path], tmp_path / "s", options, embedder=Letters())
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 1)
    made = index(tmp_path / "s")
    assert len(made) == 3
    texts = sorted(found.text.split()[0] for found in made.passages(["amber birch"], 9)[0])
    assert texts == ["cobalt", "dune", "zzz"]
    assert made.passages(["zzz zzz"], 1)[0][0].title == "amber"


def test_the_faiss_file_grows_with_the_rows_and_is_made_anew_when_many_are_dead(tmp_path: Path) -> None:
    corpus(tmp_path / "a.jsonl", 300)
    (tmp_path / "b.txt").write_text("first")
    index_dense([tmp_path], tmp_path / "s", embedder=Letters())
    (tmp_path / "b.txt").write_text("second")
    index_dense([tmp_path], tmp_path / "s", embedder=Letters())
    grown = read_state(tmp_path / "s" / "dense")
    assert grown is not None
    assert (grown.rows, grown.held, grown.trained_on) == (302, 302, 301)
    corpus(tmp_path / "a.jsonl", 200)
    index_dense([tmp_path], tmp_path / "s", embedder=Letters())
    anew = read_state(tmp_path / "s" / "dense")
    assert anew is not None
    assert (anew.held, anew.trained_on) == (201, 201)
    again = index_dense([tmp_path], tmp_path / "s", embedder=Letters())
    assert (again.unchanged, read_state(tmp_path / "s" / "dense")) == (2, anew)


def killed_after(batches: int, folder: Path) -> int | None:
    """Index in a process that kills itself after so many batches; its exit code."""

    class Dying(Letters):
        left = batches

        def passages(self, texts: Sequence[str]) -> Floats:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().passages(texts)

    def index() -> None:
        index_dense([folder / "c.jsonl"], folder / "torn", DenseOptions(batch=16, commit_every=64), embedder=Dying())

    process = get_context("fork").Process(target=index)
    process.start()
    process.join()
    return process.exitcode


def test_a_run_that_is_killed_goes_on_and_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    corpus(tmp_path / "c.jsonl", 400)
    options = DenseOptions(batch=16, commit_every=64)
    codes = [killed_after(batches, tmp_path) for batches in (6, 3, 9)]
    assert codes == [-signal.SIGKILL] * 3
    with (tmp_path / "torn" / "dense" / "vectors.f16").open("ab") as file:
        file.write(b"torn tail")
    with pytest.raises(UserError, match="never finished"):
        index(tmp_path / "torn")
    index_dense([tmp_path / "c.jsonl"], tmp_path / "torn", options, embedder=Letters())
    index_dense([tmp_path / "c.jsonl"], tmp_path / "calm", options, embedder=Letters())
    torn, calm = index(tmp_path / "torn"), index(tmp_path / "calm")
    assert len(torn) == len(calm) == 400
    assert np.array_equal(torn._store.vectors, calm._store.vectors)
    queries = ["lagoon knoll 00017", "fjord"]
    assert torn.passages(queries, 5) == calm.passages(queries, 5)


def test_another_embedder_needs_a_rebuild(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("amber")
    index_dense([tmp_path / "a.txt"], tmp_path / "s", embedder=Letters())
    with pytest.raises(UserError, match="--rebuild"):
        index_dense([tmp_path / "a.txt"], tmp_path / "s", DenseOptions(embedder="other"), embedder=Letters())


def test_a_sentence_transformers_model_is_read_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    tokenizers = pytest.importorskip("tokenizers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = tokenizers.models.WordLevel({"[UNK]": 0, "amber": 1, "birch": 2, "passage": 3}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    static = modules.StaticEmbedding(tokenizer, embedding_dim=16)
    sentence_transformers.SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path / "my-e5-model"))
    model = open_embedder(str(tmp_path / "my-e5-model"))
    same, prefixed = model.queries(["amber"])[0], model.passages(["amber"])[0]
    assert model.dim == 16
    assert np.linalg.norm(same) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(same, prefixed)
    assert model.passages([]).shape == (0, 16)
    with pytest.raises(UserError, match="cannot be loaded"):
        _ = SentenceEmbedder(str(tmp_path / "no-model")).dim


def test_e5_models_get_their_prefixes_and_others_none() -> None:
    assert SentenceEmbedder("intfloat/e5-base-v2")._prefixes == ("query: ", "passage: ")
    assert SentenceEmbedder("intfloat/multilingual-e5-large")._prefixes == ("query: ", "passage: ")
    assert SentenceEmbedder("sentence-transformers/all-MiniLM-L6-v2")._prefixes == ("", "")


def found(name: str) -> Found:
    return Found(name, name, f"text of {name}", 1.0, Source(title=name))


def test_fusion_scores_the_sum_of_weight_by_place() -> None:
    fused = fuse([[found("a"), found("b")], [found("b"), found("c")]], (1.0, 2.0), 60)
    assert [one.id for one in fused] == ["b", "c", "a"]
    assert [one.score for one in fused] == pytest.approx([1 / 62 + 2 / 61, 2 / 62, 1 / 61])


def test_hybrid_finds_what_either_finds_and_its_options_count(tmp_path: Path) -> None:
    rows = [{"id": f"r{i}", "contents": f"T{i}\nplain filler text number {i}"} for i in range(40)]
    rows[7]["contents"] = "Zebra\nxylophone"
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    index_text([tmp_path / "c.jsonl"], tmp_path / "s")
    with pytest.raises(UserError, match="vlagent index dense"):
        open_passages(tmp_path / "s", "hybrid")
    index_dense([tmp_path / "c.jsonl"], tmp_path / "s")
    lexical, dense, both = (open_passages(tmp_path / "s", kind) for kind in ("lexical", "dense", "hybrid"))
    assert isinstance(both, HybridIndex)
    assert len(both) == 40
    assert both.passages(["xylophone"], 1)[0][0].id == "r7"
    query = ["an instrument with wooden bars that is struck"]
    assert lexical.passages(query, 1) == [[]]
    assert both.passages(query, 1)[0][0].id == dense.passages(query, 1)[0][0].id
    only = HybridIndex([lexical, dense], weights=(1.0, 0.0))
    assert [one.id for one in only.passages(["xylophone filler"], 9)[0]] == [
        one.id for one in lexical.passages(["xylophone filler"], 9)[0]
    ]
    assert isinstance(open_search(tmp_path / "s", retrieval="hybrid").text, HybridIndex)
    assert both.passages(["x"], 0) == [[]]


# --- the contract of Search-R1 -------------------------------------------------------------------------------------


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    rows = [{"id": str(i), "contents": f'"Täter {i}"\nBody of {name}'} for i, name in enumerate("abcdefgh")]
    (tmp_path / "formatted_wiki.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    vectors = faiss.index_factory(64, "Flat", faiss.METRIC_INNER_PRODUCT)
    vectors.add(Letters().passages([row["contents"] for row in rows]))
    faiss.write_index(vectors, str(tmp_path / "e5_Flat.index"))
    return tmp_path


def link(folder: Path) -> SearchR1Index:
    link_search_r1(folder / "formatted_wiki.jsonl", folder / "e5_Flat.index", folder / "s", embedder="letters")
    return SearchR1Index(folder / "s" / "search-r1", Letters())


def test_published_files_are_read_as_they_are(linked: Path) -> None:
    made = link(linked)
    assert len(made) == 8
    answer = retrieve(made, ["Täter 3\nBody of d"], 1, False)
    assert answer == {"result": [[{"id": "3", "contents": '"Täter 3"\nBody of d'}]]}
    (hit,) = made.find(TextQuery(text="Täter 3 Body of d", top_k=1))
    assert (hit.source.title, hit.text) == ("Täter 3", "Body of d")
    assert len(made.passages(["x"], 50)[0]) == 8


def test_the_two_shapes_of_the_contract(linked: Path) -> None:
    made = link(linked)
    (scored,) = retrieve(made, ["Body"], 4, True)["result"]
    (bare,) = retrieve(made, ["Body"], 4, False)["result"]
    assert [set(item) for item in scored] == [{"document", "score"}] * 4
    assert [item["document"] for item in scored] == bare
    assert [set(item) for item in bare] == [{"id", "contents"}] * 4
    assert all(type(item["score"]) is float for item in scored)
    assert [item["score"] for item in scored] == sorted((item["score"] for item in scored), reverse=True)
    json.dumps(scored)


def test_topk_of_none_and_zero_is_the_default_and_more_than_there_is_gives_all(linked: Path) -> None:
    made = link(linked)
    assert [len(retrieve(made, ["Body"], k)["result"][0]) for k in (None, 0, 2, 999)] == [3, 3, 2, 8]
    assert len(retrieve(made, ["Body"], default_topk=5)["result"][0]) == 5
    assert retrieve(made, [], 3) == {"result": []}
    with pytest.raises(UserError, match="topk = -1"):
        retrieve(made, ["x"], -1)


def test_the_lexical_index_answers_in_the_same_shape(linked: Path) -> None:
    index_text([linked / "formatted_wiki.jsonl"], linked / "s")
    (query,) = retrieve(open_passages(linked / "s"), ["täter 5"], 1, True)["result"]
    assert query[0]["document"] == {"id": "5", "contents": "Täter 5\nBody of f"}


def test_files_that_do_not_belong_together_or_have_changed_are_one_line(linked: Path) -> None:
    link(linked)
    with (linked / "formatted_wiki.jsonl").open("a") as file:
        file.write('\n{"id": "8", "contents": "x"}')
    with pytest.raises(UserError, match="changed since"):
        SearchR1Index(linked / "s" / "search-r1", Letters())
    with pytest.raises(UserError, match=r"8 vectors, but .* has 9 lines"):
        link(linked)
    (linked / "e5_Flat.index").write_bytes(b"no index")
    with pytest.raises(UserError, match="not an index that faiss reads"):
        link(linked)
    with pytest.raises(UserError, match="unpacked"):
        link_search_r1(linked / "e5_Flat.index", linked / "e5_Flat.index", linked / "s")


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\nb", "a\n\nb\n"])
def test_line_offsets_are_where_lines_begin(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_text(text)
    offsets = line_offsets(tmp_path / "f")
    lines = [text[a:b] for a, b in pairwise(offsets)]
    assert lines == text.splitlines(keepends=True)


def test_a_faiss_file_is_read_without_loading_it(tmp_path: Path) -> None:
    vectors = faiss.IndexFlatIP(64)
    vectors.add(np.ones((100, 64), np.float32))
    faiss.write_index(vectors, str(tmp_path / "v"))
    assert open_vectors(tmp_path / "v").ntotal == 100
