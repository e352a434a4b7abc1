"""The set-ups that `vlagent serve stack` knows: which service runs on which machine, and by which command line.

The model servers of `mars-three-nodes` are those of SenseNova-MARS (arXiv 2512.24330) with the published flags: three
machines of 8 GPUs of 80 GB, one for training, one for search with its summariser, one for the judge. An evaluation
needs the last two. On one machine each model gets four of the GPUs and no second copy (dp).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

SUMMARISER = "Qwen/Qwen3-32B"
JUDGE = "Qwen/Qwen3-VL-32B-Instruct"
PORTS = {"search": 8000, "retrieval": 8001, "summariser": 8123, "judge": 8181}
_SGLANG = ("python", "-m", "sglang.launch_server")


@dataclass(frozen=True)
class Service:
    """One process."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    model: str | None = None
    """What `/v1/models` of a model server must list."""
    slow: bool = False
    """Loads a model: minutes until it answers."""

    @property
    def port(self) -> int:
        return PORTS[self.name]


@dataclass(frozen=True)
class Site:
    """What the command lines depend on."""

    host: str = "127.0.0.1"
    """Where services of this machine listen."""
    search: str | None = None
    passages: str | None = None


Maker = Callable[[Site], Service]


def search(site: Site) -> Service:
    """Ours, port 8000. With a live.toml the passages are what local queries ask."""
    live = site.search and site.search.endswith(".toml")
    source = [site.search or site.passages or "SEARCH"]
    local = ["--local", site.passages] if live and site.passages else []
    return Service("search", ("vlagent", "serve", "search", *source, *local, *_listen(site, "search")))


def retrieval(site: Site) -> Service:
    """Ours, port 8001."""
    return Service(
        "retrieval", ("vlagent", "serve", "retrieval", site.passages or "PASSAGES", *_listen(site, "retrieval"))
    )


def summariser(gpus: str | None, copies: int) -> Maker:
    """SGLang on port 8123; `gpus` None is all of them."""

    def make(site: Site) -> Service:
        flags = f"""--dtype bfloat16 --tp-size 4 --dp-size {copies} --mem-fraction-static 0.9 --max-total-tokens 262144
        --max-prefill-tokens 65536 --chunked-prefill-size 16384 --max-running-requests 1024"""
        return _sglang("summariser", SUMMARISER, flags, site, _only(gpus))

    return make


def judge(gpus: str | None, copies: int) -> Maker:
    """SGLang on port 8181; `gpus` None is all of them."""

    def make(site: Site) -> Service:
        flags = f"""--dtype bfloat16 --tp-size 4 --dp-size {copies} --mem-fraction-static 0.6 --context-length 40960
        --max-running-requests 1024 --chunked-prefill-size 2048 --enable-torch-compile --torch-compile-max-bs 64"""
        return _sglang("judge", JUDGE, flags, site, {"SGLANG_VLM_CACHE_SIZE_MB": "8192", **_only(gpus)})

    return make


PROFILES: dict[str, dict[str, tuple[Maker, ...]]] = {
    "cpu": {"all": (retrieval, search)},
    "one-node-8gpu": {"all": (retrieval, search, summariser("0,1,2,3", 1), judge("4,5,6,7", 1))},
    "mars-three-nodes": {
        "train": (),
        "search": (retrieval, search, summariser(None, 2)),
        "judge": (judge(None, 2),),
    },
}
"""Profile -> machine -> its services."""


def _sglang(name: str, model: str, flags: str, site: Site, environment: dict[str, str]) -> Service:
    listen = ("--host", site.host, "--port", str(PORTS[name]))
    return Service(name, (*_SGLANG, "--model-path", model, *flags.split(), *listen), environment, model, slow=True)


def _only(gpus: str | None) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": gpus} if gpus else {}


def _listen(site: Site, name: str) -> tuple[str, ...]:
    return ("--host", site.host, "--port", str(PORTS[name]))
