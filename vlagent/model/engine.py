"""In-process generation: one thread, many conversations, continuous batching.

Requests join and leave between two steps. A prompt that several requests share is computed once, and a conversation's
next turn continues from the keys and values of the one before. The model is the plain transformers model; only its
cache is ours. Runs on any torch device.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread

import numpy as np
import torch
from pydantic import Field

from vlagent.chat.base import ImagePart
from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.errors import PermanentError, ServiceError
from vlagent.model.chatml import image_runs, rope_positions
from vlagent.model.decoder import Decoder, Extension
from vlagent.model.load import Pixels, Policy
from vlagent.model.requests import Request, StopWatch
from vlagent.model.sampling import draw
from vlagent.model.slots import Slots, common_start
from vlagent.types import Ids, Record


class EngineOptions(Record):
    """How much runs at once."""

    max_batch: int = Field(default=64, gt=0)
    """Conversations that decode together, and slots of the cache."""
    max_context: int = Field(default=32_768, gt=0)
    """Tokens of prompt and reply; a longer prompt is refused. The cache grows to what is used."""
    prefill_tokens: int = Field(default=8192, gt=0)
    """Prompt tokens, padding included, of one forward pass."""
    prefill_chunk: int = Field(default=2048, gt=0)
    """A longer prompt is fed in pieces of this length."""
    deterministic_batches: bool = False
    """Fixed shapes: a reply does not depend on what else runs, to the bit. Slower; keep `max_context` small."""
    threads: int | None = None
    """Torch threads of the engine; None leaves torch's own setting."""
    gather_s: float = Field(default=0.002, ge=0)
    """How long an idle engine waits for company after the first request."""


@dataclass
class EngineStats:
    """What an engine has done so far, in tokens."""

    computed: int = 0
    """Prompt tokens that were computed."""
    reused: int = 0
    """Prompt tokens whose keys and values were there already."""
    written: int = 0
    """New tokens."""
    steps: int = 0
    """Decoding steps, each one new token for every running conversation."""


WORTH_WAITING = 32
"""Shared tokens for which a prompt waits until another one is computed."""
FIXED_STEP = 64
"""Prompts are padded to multiples of this when shapes are fixed."""


class InProcessEngine:
    """A `TokenEngine` over a model in this process. Close it, or use it in a `with`."""

    def __init__(self, policy: Policy, options: EngineOptions | None = None) -> None:
        self.policy = policy
        self.options = options or EngineOptions()
        self.stats = EngineStats()
        vocabulary = policy.processor.vocabulary
        self._image_pad = vocabulary.ids["<|image_pad|>"]
        fixed = -(-self.options.max_context // FIXED_STEP) * FIXED_STEP if self.options.deterministic_batches else None
        self._fixed_span = fixed
        self._decoder: Decoder | None = None
        self._slots: Slots | None = None
        self._stops = StopWatch(vocabulary)
        self._arrivals: SimpleQueue[Request | None] = SimpleQueue()
        self._waiting: list[Request] = []
        self._active: list[Request] = []
        """The request of slot 0, of slot 1, ..."""
        self._lock = Lock()
        """Held while the model runs."""
        self._gate = Lock()
        """Held while a request enters or the door closes."""
        self._thread: Thread | None = None
        self._closed = False

    async def generate(self, token_ids: Ids, images: Sequence[ImagePart], params: TokenParams) -> TokenOutput:
        """Sample a reply. Raises `PermanentError` for a prompt that does not fit, `ServiceError` after `close`."""
        room = self.options.max_context - len(token_ids)
        if room < 1:
            raise PermanentError(
                "model", f"a prompt of {len(token_ids)} tokens does not fit max_context {self.options.max_context}"
            )
        request = self._request(token_ids, await self._pixels(images), params, min(room, params.max_tokens))
        self._submit(request)
        return await asyncio.wrap_future(request.future)

    async def _pixels(self, parts: Sequence[ImagePart]) -> list[Pixels]:
        """Cached pixels at once; files are read beside the event loop."""
        processor = self.policy.processor
        if all(processor.cached(part) is not None for part in parts):
            return [processor.load(part) for part in parts]
        return await asyncio.to_thread(lambda: [processor.load(part) for part in parts])

    def _request(self, ids: Ids, pixels: list[Pixels], params: TokenParams, limit: int) -> Request:
        merge = self.policy.processor.merge
        grids = [(picture.grid[0] // merge, picture.grid[1] // merge) for picture in pixels]
        positions, after = rope_positions(ids, grids, self._image_pad)
        runs = image_runs(ids, self._image_pad)
        keys = np.array(ids, np.int64)
        for (start, stop), picture in zip(runs, pixels, strict=True):
            keys[start:stop] = -1 - (picture.digest >> 1)
        return Request(ids, keys, positions, after, list(zip(pixels, runs, strict=True)), params, limit)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing runs inside; afterwards, what was cached under the old weights is not used for new prompts."""
        with self._lock:
            yield
            if self._slots is not None:
                self._slots.forget()

    def close(self) -> None:
        """Stop the thread; whoever still waits gets a `ServiceError`."""
        with self._gate:
            self._closed = True
            self._arrivals.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> InProcessEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, request: Request) -> None:
        with self._gate:
            if self._closed:
                raise ServiceError("model", "the engine is closed")
            self._arrivals.put(request)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="vlagent-engine", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        if self.options.threads is not None:
            torch.set_num_threads(self.options.threads)
        while self._collect():
            with self._lock, torch.inference_mode():
                try:
                    self._advance()
                except Exception as error:  # noqa: BLE001 - the thread's boundary: every waiting caller gets it
                    self._fail_all(error)
        self._fail_all(ServiceError("model", "the engine is closed"))

    def _collect(self) -> bool:
        """Take what has arrived; wait when there is nothing to do. False when the engine closes."""
        if not self._active and not self._waiting:
            first = self._arrivals.get()
            if first is None:
                return False
            self._waiting.append(first)
            time.sleep(self.options.gather_s)
        while True:
            try:
                request = self._arrivals.get_nowait()
            except Empty:
                return True
            if request is None:
                return False
            self._waiting.append(request)

    def _fail_all(self, error: Exception) -> None:
        while True:
            try:
                request = self._arrivals.get_nowait()
            except Empty:
                break
            if request is not None:
                self._waiting.append(request)
        for request in (*self._active, *self._waiting):
            _settle(request.future, error)
        self._active, self._waiting = [], []
        self._decoder = self._slots = None

    def _ready(self) -> tuple[Decoder, Slots]:
        """The cache is built on first use, and anew after an error."""
        if self.policy.model.training:
            self.policy.model.eval()
        if self._decoder is None or self._slots is None:
            vocabulary, slots = self.policy.processor.vocabulary, self.options.max_batch
            capacity = self._fixed_span or min(self.options.max_context, 256)
            self._decoder = Decoder(
                self.policy.model, (self._image_pad, vocabulary.pad), slots, capacity, self._fixed_span
            )
            self._slots = Slots(self._decoder.cache, slots)
        return self._decoder, self._slots

    def _advance(self) -> None:
        """Drop the cancelled, let the waiting in, and write one token in each running conversation."""
        decoder, slots = self._ready()
        self._waiting = [request for request in self._waiting if not request.future.cancelled()]
        for at in reversed(range(len(self._active))):
            if self._active[at].future.cancelled():
                self._leave(slots, at)
        while self._waiting and len(self._active) < self.options.max_batch:
            self._admit(decoder, slots)
        if self._active:
            self._step(decoder, slots)

    def _admit(self, decoder: Decoder, slots: Slots) -> None:
        """Compute the prompts of one round; one that shares much with another of this round waits for the next."""
        reuse = not self.options.deterministic_batches
        room = self.options.max_batch - len(self._active)
        seen: set[bytes] = set()
        chosen: list[tuple[int, Request]] = []
        later: list[Request] = []
        for request in self._waiting:
            name = request.keys.tobytes() if reuse else b""
            cached = int(slots.shared(request.keys[:-1]).max()) if reuse else 0
            shared = common_start(chosen[0][1].keys, request.keys) if reuse and chosen else 0
            if len(chosen) == room or (reuse and name in seen) or shared - cached >= WORTH_WAITING:
                later.append(request)
                continue
            chosen.append((len(request.ids) - cached, request))
            seen.add(name)
        self._waiting = later
        if reuse:
            chosen.sort(key=lambda item: item[0])
        self._place(decoder, slots, [request for _, request in chosen])

    def _place(self, decoder: Decoder, slots: Slots, requests: Sequence[Request]) -> None:
        reuse = not self.options.deterministic_batches
        first = len(self._active)
        rows: list[Extension] = []
        for request in requests:
            start = slots.place(request.keys, len(self._active), reuse=reuse)
            self._active.append(request)
            rows.append(request.extension(start))
            self.stats.reused += start
            self.stats.computed += len(request.ids) - start
        for a, b in self._passes(rows):
            self._prefill(decoder, slots, first + a, rows[a:b])
        self._retire(slots)

    def _passes(self, rows: Sequence[Extension]) -> Iterator[tuple[int, int]]:
        """Split rows, sorted by length, into forward passes that pad little and stay within `prefill_tokens`."""
        a = 0
        for b in range(1, len(rows) + 1):
            if b < len(rows) and not self.options.deterministic_batches:
                width = len(rows[b].ids)
                if width * (b + 1 - a) <= self.options.prefill_tokens and width <= 2 * len(rows[a].ids) + FIXED_STEP:
                    continue
            yield a, b
            a = b

    def _prefill(self, decoder: Decoder, slots: Slots, first: int, rows: Sequence[Extension]) -> None:
        multiple = FIXED_STEP if self.options.deterministic_batches else 1
        logits = decoder.extend(first, rows, self.options.prefill_chunk, multiple)
        for at in range(first, first + len(rows)):
            slots.ready(at)
        self._write(logits, self._active[first : first + len(rows)])

    def _step(self, decoder: Decoder, slots: Slots) -> None:
        """Feed each conversation's last token and draw the next one."""
        count = len(self._active)
        idle = self.options.max_batch - count if self.options.deterministic_batches else 0
        tokens = [request.written[-1] for request in self._active]
        starts = slots.length[:count].tolist()
        positions = [request.next_position() for request in self._active]
        for at, token in enumerate(tokens):
            slots.append(at, token)
        blank = [0] * idle
        logits = decoder.step(tokens + blank, positions + blank, starts + blank)[:count]
        self.stats.steps += 1
        self._write(logits, self._active)
        self._retire(slots)

    def _write(self, logits: torch.Tensor, requests: Sequence[Request]) -> None:
        """Draw a token for each request and note whether its reply is complete."""
        ids, logprobs = draw(
            logits,
            [request.params for request in requests],
            [request.written for request in requests],
            [request.uniform() for request in requests],
            self.policy.processor.vocabulary.banned,
        )
        for request, token, logprob in zip(requests, ids, logprobs, strict=True):
            self.stats.written += 1
            request.written.append(token)
            request.logprobs.append(logprob)
            request.finish = self._stops.finish(request.written, request.params.stop, request.limit)

    def _retire(self, slots: Slots) -> None:
        for at in reversed(range(len(self._active))):
            request = self._active[at]
            if request.finish is not None:
                self._leave(slots, at)
                _settle(request.future, request.output())

    def _leave(self, slots: Slots, at: int) -> None:
        """A conversation ends: the last running one takes its slot, its own content stays behind for its next turn."""
        slots.touch(at)
        last = len(self._active) - 1
        slots.swap(at, last)
        self._active[at] = self._active[last]
        self._active.pop()


def _settle(future: Future[TokenOutput], result: TokenOutput | Exception) -> None:
    try:
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
    except InvalidStateError:
        return  # the caller cancelled in this very moment
