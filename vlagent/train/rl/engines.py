"""Where the policy's tokens come from, and how an engine gets the weights after each step.

    in_process   the trained model itself, batched continuously (`model.engine`): nothing is copied
    vllm         a `vllm serve` of 0.22 to 0.31; weights over NCCL, through TRL's client
    sglang       an SGLang server; weights through a folder that both can read

Importable without torch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from pydantic import Field, model_validator

from vlagent.chat.base import ImagePart
from vlagent.chat.token_server import Slots, TokenServerOptions
from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.errors import PermanentError, UserError
from vlagent.types import Ids, Record

if TYPE_CHECKING:
    from vlagent.model.load import Policy


class EngineConfig(Record):
    """The engine that episodes are sampled with."""

    kind: Literal["in_process", "vllm", "sglang"] = "in_process"
    max_batch: int = Field(default=128, ge=1)
    """Conversations that decode together (in_process)."""
    max_context: int = Field(default=32_768, ge=1)
    """Tokens of prompt and reply (in_process)."""
    deterministic: bool = False
    """A reply does not depend on what else runs, to the bit; slower (in_process)."""
    base_url: str | None = None
    """Root of the server."""
    model: str | None = None
    """The name that a vLLM server serves the policy under."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Of one request to a server."""
    attempts: int = Field(default=3, ge=1)
    send_seed: bool = False
    """Keyed seeds for SGLang, whose server must run with --enable-deterministic-inference; vLLM always gets them."""
    sync: bool = True
    """Send the weights to the server before each step; False for a policy that does not change."""
    sync_folder: str | None = None
    """Where weights are put for SGLang; None is `weights` in the run folder. Trainer and server must see it alike."""

    @model_validator(mode="after")
    def _names_its_server(self) -> Self:
        if self.kind != "in_process" and self.base_url is None:
            raise ValueError(f"engine.base_url is needed for {self.kind}: http://HOST:PORT")
        if self.kind == "vllm" and self.model is None:
            raise ValueError("engine.model is needed for vllm: the name that the server serves")
        return self


class RolloutEngine(Protocol):
    """A `TokenEngine` that can be given new weights."""

    async def generate(self, token_ids: Ids, images: Sequence[ImagePart], params: TokenParams) -> TokenOutput: ...

    async def push(self, policy: Policy) -> None:
        """Sample from these weights from now on. Every process calls it, nothing may be running."""
        ...

    async def aclose(self) -> None: ...


def open_engine(config: EngineConfig, policy: Policy, run: Path | None = None) -> RolloutEngine:
    """The engine of a run; `policy` as it is trained, adapters included."""
    if config.kind == "in_process":
        return _in_process(config, policy)
    vocabulary = policy.processor.vocabulary
    known = policy.model.get_input_embeddings().num_embeddings
    slots = Slots(vocabulary.ids["<|image_pad|>"], vocabulary.banned, vocabulary.eos, known)
    options = {"base_url": config.base_url, "timeout_s": config.timeout_s, "attempts": config.attempts}
    if config.kind == "vllm":
        from vlagent.chat.vllm import VllmEngine

        assert config.model is not None
        return _Vllm(VllmEngine(config.model, slots, TokenServerOptions.model_validate(options)), config)
    from vlagent.chat.sglang import SglangEngine, SglangOptions

    engine = SglangEngine(slots, SglangOptions.model_validate(options | {"send_seed": config.send_seed}))
    return _Sglang(engine, config, Path(config.sync_folder) if config.sync_folder else (run or Path()) / "weights")


def _in_process(config: EngineConfig, policy: Policy) -> RolloutEngine:
    from vlagent.model.engine import EngineOptions, InProcessEngine

    class Engine(InProcessEngine):
        """The trained model itself."""

        async def push(self, policy: Policy) -> None:
            """The weights are the trained ones already; only what was computed with the old ones is forgotten."""
            if policy.model is not self.policy.model:
                raise ValueError("an in-process engine samples from the model that it was opened with")
            with self.paused():
                pass

        async def aclose(self) -> None:
            await asyncio.to_thread(self.close)

    return Engine(
        policy,
        EngineOptions(
            max_batch=config.max_batch, max_context=config.max_context, deterministic_batches=config.deterministic
        ),
    )


class _Vllm:
    """Weights go over NCCL by TRL's own transfer, which knows FSDP, DeepSpeed and adapters."""

    def __init__(self, engine: Any, config: EngineConfig) -> None:
        self.generate, self.aclose = engine.generate, engine.aclose
        self._config = config
        self._transfer: Any = None
        if config.sync and find_spec("vllm") is None:
            raise UserError(
                'engine.kind = "vllm": the transfer of weights needs vLLM in this environment too; '
                "pip install 'trl[vllm]', or set engine.sync = false"
            )

    async def push(self, policy: Policy) -> None:
        if not self._config.sync:
            return
        if self._transfer is None:
            self._transfer = await asyncio.to_thread(self._connect, policy)
        try:
            await asyncio.to_thread(self._transfer.sync_weights)
        except Exception as error:  # TRL raises bare Exceptions for whatever the server answers
            raise PermanentError("vLLM server", f"it did not take the weights ({_line(error)})") from error

    def _connect(self, policy: Policy) -> Any:
        from accelerate import Accelerator
        from trl.generation.vllm_generation import VLLMGeneration

        try:
            return VLLMGeneration(
                model=policy.model,
                accelerator=Accelerator(),
                processing_class=policy.processor.hf,
                mode="server",
                server_base_url=self._config.base_url,
            )
        except Exception as error:
            raise PermanentError("vLLM server", f"no weight transfer with it ({_line(error)})") from error


class _Sglang:
    """Weights go through a folder; the server empties its caches when it has loaded them."""

    def __init__(self, engine: Any, config: EngineConfig, folder: Path) -> None:
        self.generate, self.aclose = engine.generate, engine.aclose
        self._engine, self._config, self._folder = engine, config, folder

    async def push(self, policy: Policy) -> None:
        if not self._config.sync:
            return
        from accelerate import PartialState

        from vlagent.train.parts import export

        state = PartialState()
        if state.is_main_process:
            await asyncio.to_thread(export, policy, self._folder, None)
            await self._engine.update_weights(self._folder)
        state.wait_for_everyone()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
