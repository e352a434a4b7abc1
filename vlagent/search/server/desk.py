"""What a server answers from: the web, passages of its own, databases that callers may name, pictures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from vlagent.errors import UserError
from vlagent.search.base import ImageSearch, TextSearch, closed
from vlagent.search.budget import Budget
from vlagent.search.live import Live, Network, open_live
from vlagent.search.live_config import RETRIEVAL_NAMES, SUMMARISER_NAMES, LiveConfig, first_of
from vlagent.search.open import TextIndexes, open_search
from vlagent.search.pipeline import Answers
from vlagent.search.server.bodies import Refused
from vlagent.search.server.fresh import FreshPassages
from vlagent.search.server.gate import Gate
from vlagent.search.server.options import ServerOptions
from vlagent.search.watch import Watch, WatchedText
from vlagent.search.web import brave, serper, tavily
from vlagent.search.web.base import ProviderConfig
from vlagent.search.web.providers import open_provider

_URLS = {"serper": serper.URL, "brave": brave.URL, "tavily": tavily.URL}
WEB, LOCAL = "google_serper", "local"
"""Values of `retrieval_mode`: whatever search engine is configured, and passages."""


@dataclass(frozen=True)
class Supplies:
    """What a server is given to answer from."""

    live: LiveConfig = field(default_factory=LiveConfig)
    local: str | None = None
    """A search folder, or the address of a retrieval server: what `retrieval_mode: "local"` asks."""
    network: Network = field(default_factory=Network)


class Desk:
    """Opens each source when it is first asked for, and closes all."""

    def __init__(self, supplies: Supplies, options: ServerOptions) -> None:
        """Raises `UserError` for a folder without an index, a missing key, an address that is none."""
        self.options = options
        self.watch = Watch()
        self.gate = Gate(options.at_once, options.waiting)
        self._supplies = supplies
        self._opened: list[object] = []
        self._budget = Budget(supplies.live.budget)
        self._lives: dict[str | None, Live] = {}
        self._answers: dict[tuple[str, str | None, str | None], Answers] = {}
        self.passages: TextIndexes | None = None
        self.images: ImageSearch | None = None
        self._local: TextSearch | None = None
        if supplies.local:
            self._open_local(supplies.local)
        self.live = self._live(None)
        self.images = self.images or self.live.images
        if not (self.has_web or self.has_local or self.images):
            raise UserError('nothing to serve: name text.provider = "serper" (or another) in the TOML, or --local DIR')

    def answers(self, mode: str, database: str | None, model: str | None) -> Answers:
        """Raises `Refused` for a mode that this server has not, an address or a model that is not on its list."""
        if model is not None and model != self._supplies.live.summary.model and model not in self.options.models:
            raise Refused(400, f"llm_model {model!r} is not on this server's list")
        place = _address(database) if database and mode == LOCAL else None
        key = (mode, place, model)
        if key not in self._answers:
            self._answers[key] = self._made(mode, place, model)
        return self._answers[key]

    async def aclose(self) -> None:
        """Close connections, browsers and caches."""
        for live in self._lives.values():
            await live.aclose()
        await closed(*self._opened)

    @property
    def has_web(self) -> bool:
        return self.live.answers is not None

    @property
    def has_local(self) -> bool:
        return self._local is not None

    @property
    def web_name(self) -> str:
        """The dependency that web queries need."""
        return self._supplies.live.text.provider

    def addresses(self) -> dict[str, str]:
        """Dependencies that are reached over the network, and where."""
        live = self._supplies.live
        text = live.text.base_url or _URLS.get(live.text.provider) or first_of(RETRIEVAL_NAMES)
        model = live.summary.base_url or first_of(SUMMARISER_NAMES)
        found = {
            self.web_name: text if self.has_web and self.web_name in self.watch.seen else None,
            "summariser": model if live.summary.model and "summariser" in self.watch.seen else None,
            f"database {self.local_address}": self.local_address,
        }
        return {name: url for name, url in found.items() if url}

    @property
    def local_address(self) -> str | None:
        """Of the retrieval server that local queries go to."""
        local = self._supplies.local
        return _address(local) if local and _is_address(local) else None

    def _made(self, mode: str, place: str | None, model: str | None) -> Answers:
        live = self._live(model)
        if mode == WEB:
            if live.answers is None:
                raise Refused(400, "this server searches no web: retrieval_mode must be 'local'")
            answers = live.answers
        else:
            assert live.summariser
            # Not kept as a whole: the passages may change at any time. Their summaries are kept by their content.
            answers = Answers(self._database(place), live.summariser, None, f"local {place}")
        answers.gate = self.gate.place
        return answers

    def _database(self, place: str | None) -> TextSearch:
        if place is None or place == self.local_address:
            if self._local is None:
                raise Refused(400, "this server has no passages: retrieval_mode must be 'google_serper'")
            return self._local
        if place not in {_address(allowed) for allowed in self.options.databases}:
            raise Refused(400, f"local_database_address {place}: not on this server's list")
        return self._retrieval(place)

    def _retrieval(self, address: str) -> TextSearch:
        network, config = self._supplies.network, ProviderConfig(base_url=address, timeout_s=15.0)
        provider = open_provider("retrieval", config, Budget(), network.transport)
        self._opened.append(provider)
        return WatchedText(self.watch, f"database {address}", provider)

    def _open_local(self, local: str) -> None:
        if _is_address(local):
            self._local = self._retrieval(_address(local))
            return
        found = open_search(Path(local), published=False)
        self.images = found.images
        if found.text:
            self.passages = FreshPassages(Path(local))
            self._local = self.passages

    def _live(self, model: str | None) -> Live:
        if model == self._supplies.live.summary.model:
            model = None
        if model not in self._lives:
            config, network = self._supplies.live, self._supplies.network
            if model is not None:
                summary = config.summary.model_copy(update={"model": model})
                config = config.model_copy(update={"summary": summary})
            self._lives[model] = open_live(config, replace(network, watch=self.watch, budget=self._budget))
        return self._lives[model]


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _address(text: str) -> str:
    """As addresses are compared: with or without the path that the contract ends in."""
    return text.strip().rstrip("/").removesuffix("/retrieve").rstrip("/")
