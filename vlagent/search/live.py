"""A live configuration to search services."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx

from vlagent.chat.base import ChatModel, Sampling
from vlagent.chat.open import open_chat
from vlagent.config import load_config
from vlagent.errors import UserError
from vlagent.search.base import ImageSearch, PageReader, SearchServices, Summariser, TextSearch, closed
from vlagent.search.budget import Budget
from vlagent.search.cache.store import Store
from vlagent.search.cache.tape import Tape
from vlagent.search.cache.taped import Absent, TapedChat, TapedImages, TapedPages, TapedText
from vlagent.search.cached import CachedImages
from vlagent.search.client import ServedImages, ServedSummaries, ServedText
from vlagent.search.live_config import RETRIEVAL_NAMES, SUMMARISER_NAMES, LiveConfig, first_of
from vlagent.search.noise import NoiseChecks
from vlagent.search.open import open_search
from vlagent.search.pages.guard import Resolver, system_resolver
from vlagent.search.pages.reader import WebPages
from vlagent.search.pipeline import (
    Answers,
    KeptImages,
    KeptPages,
    KeptSummaries,
    KeptText,
    LiveText,
    SharedSummaries,
)
from vlagent.search.summary import ExtractiveSummariser, ModelSummariser
from vlagent.search.watch import Watch, WatchedChat, WatchedImages, WatchedPages, WatchedText
from vlagent.search.web.lens import SerpApiLens, SerperLens, Thumbnails
from vlagent.search.web.providers import open_provider
from vlagent.search.web.publish import FolderPublisher, Publisher, PutPublisher


@dataclass(frozen=True)
class Network:
    """What stands for the network: a recording, or a test's."""

    tape: Tape | None = None
    transport: httpx.AsyncBaseTransport | None = None
    resolver: Resolver = system_resolver
    summariser: ChatModel | None = None
    """Wins over `summary.model`."""
    watch: Watch | None = None
    """Notes the outcome of every call that leaves this process."""
    budget: Budget | None = None
    """Shared by all services of one process; None is one of their own."""

    @property
    def replays(self) -> bool:
        return self.tape is not None and self.tape.mode == "replay"


@dataclass
class Live(SearchServices):
    """Search services of the live web, with what a server wants to know of them."""

    answers: Answers | None = None
    """Search and summary as one step."""
    budget: Budget | None = None
    store: Store | None = None
    web: WebPages | None = None


def open_live_file(path: Path, *, top_k: int = 5, published: bool = True, tape: Tape | None = None) -> Live:
    """What `--search FILE.toml` names: a `LiveConfig`. `top_k` and `published` are as those of `open_search`."""
    live = open_live(load_config(LiveConfig, path), Network(tape=tape))
    if published:
        live.images = CachedImages(live.images, top_k=top_k)
    return live


def open_live(config: LiveConfig, network: Network | None = None) -> Live:
    """Services that search the web; nothing is connected to before the first search. Raises `UserError`.

    Close them with `aclose`. In a replay no key, no endpoint and no browser is needed, and no cache is read.
    """
    return _Opening(config, network or Network()).live()


class _Opening:
    """The parts of one configuration, put together from the bottom."""

    def __init__(self, config: LiveConfig, network: Network) -> None:
        self.config, self.network = config, network
        self.budget = network.budget or Budget(config.budget)
        self.store = Store(config.cache) if config.cache and not network.replays else None
        self.local = open_search(Path(config.folder), published=False) if config.folder else SearchServices()
        self.web = WebPages(config.pages, transport=network.transport, resolver=network.resolver)
        self.opened: list[object] = [self.web]
        self.served: ServedText | None = None

    def live(self) -> Live:
        text, images = self._text(), self._images()
        summariser, tag = self._summariser()
        # A recording must see every call of the model, so nothing above the model is kept with one.
        store = None if self.network.tape else self.store
        tag = f"{self._text_tag()} {tag}"
        noise = self.config.noise
        return Live(
            text=text,
            images=images,
            pages=self._pages(),
            summariser=summariser,
            checks=NoiseChecks(noise) if any(noise.model_dump().values()) else None,
            closers=[self._aclose],
            answers=Answers(text, summariser, store, tag) if text else None,
            budget=self.budget,
            store=self.store,
            web=self.web,
        )

    async def _aclose(self) -> None:
        await closed(*self.opened)
        if self.store:
            self.store.close()

    def _text_tag(self) -> str:
        config = self.config.text
        return f"{config.provider} {config.base_url} {sorted(config.extra.items())} {config.read_pages}"

    def _text(self) -> TextSearch | None:
        config, tape = self.config.text, self.network.tape
        if config.provider == "none":
            return None
        if config.provider == "local":
            if self.local.text is None:
                raise UserError(f"{self.config.folder}: no text index in it; make it: vlagent index text SOURCE... DIR")
            return self.local.text
        full_text = config.provider in ("retrieval", "server")
        if config.provider == "server" and tape:
            raise UserError('text.provider = "server" is not recorded: record with the provider that it uses itself')
        provider: TextSearch | None = None if self.network.replays else self._provider()
        if provider and self.store and config.provider != "server":  # which keeps what it said
            provider = KeptText(provider, self.store, self._text_tag())
        if tape:
            provider = TapedText(tape, config.provider, provider)
        assert provider
        return provider if full_text or not config.read_pages else LiveText(provider, self._pages())

    def _provider(self) -> TextSearch:
        config = self.config.text
        if config.provider == "retrieval" and config.base_url is None:
            config = config.model_copy(update={"base_url": first_of(RETRIEVAL_NAMES)})
        provider = open_provider(config.provider, config, self.budget, self.network.transport)
        self.opened.append(provider)
        if isinstance(provider, ServedText):
            self.served = provider
        watch = self.network.watch
        return WatchedText(watch, config.provider, provider) if watch else provider

    def _pages(self) -> PageReader:
        pages = self.config.pages
        reader: PageReader = WatchedPages(self.network.watch, self.web) if self.network.watch else self.web
        if self.store:
            reader = KeptPages(reader, self.store, f"{pages.javascript} {pages.max_chars} {pages.robots}")
        return TapedPages(self.network.tape, reader) if self.network.tape else reader

    def _images(self) -> ImageSearch | None:
        config, tape = self.config.images, self.network.tape
        if config.provider == "none":
            return None
        if config.provider == "local":
            if self.local.images is None:
                raise UserError(f"{self.config.folder}: no pictures in it; make it: vlagent index images SOURCE... DIR")
            return self.local.images
        search: ImageSearch | None = None if self.network.replays else self._found()
        if search and self.store:
            search = KeptImages(search, self.store, f"{config.provider} {config.base_url}")
        if tape:
            search = TapedImages(tape, config.provider, search)
        return search

    def _found(self) -> ImageSearch:
        config, transport = self.config.images, self.network.transport
        kept = Path(self.config.cache.path).parent if self.config.cache and self.config.cache.path else Path()
        folder = Path(config.thumbnails) if config.thumbnails else kept / "thumbnails"
        search: ImageSearch
        if config.provider == "server":
            search = ServedImages(config, self.budget, folder, transport)
        else:
            search = self._lens(folder)
        self.opened.append(search)
        return WatchedImages(self.network.watch, config.provider, search) if self.network.watch else search

    def _lens(self, folder: Path) -> ImageSearch:
        config, transport = self.config.images, self.network.transport
        kind = SerperLens if config.provider == "serper_lens" else SerpApiLens
        return kind(config, self.budget, self._publisher(), Thumbnails(self.web.fetcher, folder), transport)

    def _publisher(self) -> Publisher:
        config = self.config.images
        assert config.publish_url
        if config.publish_folder:
            return FolderPublisher(Path(config.publish_folder), config.publish_url)
        return PutPublisher(config.publish_url, self.network.transport)

    def _summariser(self) -> tuple[Summariser, str]:
        config = self.config.summary
        if self.served:
            return ServedSummaries(self.served), "server"
        model = self.network.summariser or self._chat()
        if model is None:
            return SharedSummaries(ExtractiveSummariser()), "extractive"
        if self.network.tape:
            model = TapedChat(self.network.tape, model, "summary")
        if self.network.watch:
            model = WatchedChat(self.network.watch, "summariser", model)
        self.opened.append(model)
        sampling = Sampling(max_tokens=config.max_tokens)
        summariser = ModelSummariser(model, sampling=sampling, timeout_s=config.timeout_s)
        tag = f"{model.name} {config.max_tokens}"
        if self.store is None or self.network.tape:
            return SharedSummaries(summariser), tag
        return KeptSummaries(summariser, self.store, tag), tag

    def _chat(self) -> ChatModel | None:
        config = self.config.summary
        if config.model is None:
            return None
        if self.network.replays:
            return Absent(config.model)
        return open_chat(
            config.model,
            config.base_url or first_of(SUMMARISER_NAMES),
            attempts=config.attempts,
            usd_per_million_prompt_tokens=config.usd_per_million_prompt_tokens,
            usd_per_million_completion_tokens=config.usd_per_million_completion_tokens,
        )
