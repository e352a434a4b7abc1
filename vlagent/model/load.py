"""Models and processors of Qwen3-VL and Qwen2.5-VL style from a folder, without torchvision.

Pixels have one path, PIL, for sampling and for training: PIL's and torchvision's resampling differ, and a policy that
is trained on other pixels than it sampled from is off-policy. Shape letters: P = patches, C = values of a patch.
"""

from __future__ import annotations

import copy
import json
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from PIL import Image
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoTokenizer,
    GenerationConfig,
    ProcessorMixin,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.utils.logging import disable_progress_bar, get_verbosity, set_verbosity, set_verbosity_error

from vlagent import images
from vlagent.chat.base import ImagePart
from vlagent.errors import UserError
from vlagent.files import read_json
from vlagent.model.chatml import IMAGE_TOKENS, ROLE_TOKENS, Renderer, Vocabulary
from vlagent.render.sizing import PixelLimits

ARCHITECTURES: dict[str, tuple[type[Any], str]] = {
    "qwen3_vl": (Qwen3VLForConditionalGeneration, "Qwen3VLProcessor"),
    "qwen2_5_vl": (Qwen2_5_VLForConditionalGeneration, "Qwen2_5_VLProcessor"),
}
"""`model_type` of config.json -> model class, and the name of its stock processor."""
_LOG = logging.getLogger(__name__)


class PilProcessor(ProcessorMixin):  # type: ignore[misc]
    """An image processor and a tokenizer; the stock processors also want a video processor, which wants torchvision."""

    def __init__(self, image_processor: Any = None, tokenizer: Any = None, chat_template: str | None = None) -> None:
        super().__init__(image_processor, tokenizer, chat_template=chat_template)


@dataclass(frozen=True, eq=False)
class Pixels:
    """A picture as the vision tower takes it."""

    patches: torch.Tensor
    """[P, C] float32, patches of one merge block side by side."""
    grid: tuple[int, int]
    """(height, width) in patches."""
    digest: int
    """Of the pixels' content; two equal pictures have equal digests."""


@dataclass(frozen=True, eq=False)
class Processor:
    """Text and pictures of one checkpoint: `vocabulary`, `limits`, and pixels by address."""

    hf: PilProcessor
    """What transformers and TRL want to be handed."""
    vocabulary: Vocabulary
    limits: PixelLimits
    store: PixelStore

    @property
    def merge(self) -> int:
        """Side of the square of patches that becomes one visual token."""
        return int(self.hf.image_processor.merge_size)

    @property
    def renderer(self) -> Renderer:
        return Renderer(self.vocabulary, self.visual_tokens)

    def visual_tokens(self, view: tuple[int, int]) -> int:
        """Placeholders of a view (width, height); the sides must be multiples of the model's factor."""
        factor = self.limits.factor
        if view[0] % factor or view[1] % factor:
            raise ValueError(f"view {view[0]} x {view[1]}: both sides must be multiples of {factor}")
        return view[0] * view[1] // factor**2

    def grids(self, parts: Sequence[ImagePart]) -> list[tuple[int, int]]:
        """(height, width) of each picture in visual tokens."""
        return [(part.view[1] // self.limits.factor, part.view[0] // self.limits.factor) for part in parts]

    def pixels(self, image: Image.Image) -> Pixels:
        """Patches of an RGB picture that already has its final size."""
        self.visual_tokens(image.size)
        out = self.hf.image_processor(images=[image], do_resize=False, return_tensors="pt")
        _, height, width = out["image_grid_thw"][0].tolist()
        digest = blake2b(image.tobytes(), digest_size=8, key=repr(image.size).encode()).digest()
        return Pixels(out["pixel_values"], (height, width), int.from_bytes(digest, "big"))

    def load(self, part: ImagePart) -> Pixels:
        """Pixels of a message's picture, from the store or from its file. Raises `ServiceError("image", ...)`."""
        found = self.cached(part)
        if found is None:
            found = self.pixels(images.load(part.ref, part.view))
            self.store.put(_address(part), found)
        return found

    def cached(self, part: ImagePart) -> Pixels | None:
        """Pixels that are in the store."""
        return self.store.get(_address(part))

    def save(self, folder: Path, model_type: str) -> None:
        """Write the files of a plain checkpoint folder, under the stock processor's name."""
        self.hf.save_pretrained(folder)
        for name in ("processor_config.json", "tokenizer_config.json"):
            file = folder / name
            table = json.loads(file.read_text(encoding="utf-8"))
            table["processor_class"] = ARCHITECTURES[model_type][1]
            file.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _address(part: ImagePart) -> tuple[object, ...]:
    return (part.ref.path, part.ref.box, part.view)


class PixelStore:
    """The most recently used pixels, up to a number of bytes. Safe to use from several threads."""

    def __init__(self, max_bytes: int = 1 << 29) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._items: OrderedDict[Any, Pixels] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Any) -> Pixels | None:
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
            return found

    def put(self, key: Any, pixels: Pixels) -> None:
        with self._lock:
            if key in self._items:
                return
            self._items[key] = pixels
            self._bytes += pixels.patches.nbytes
            while self._bytes > self._max_bytes and len(self._items) > 1:
                self._bytes -= self._items.popitem(last=False)[1].patches.nbytes


@dataclass(eq=False)
class Policy:
    """A model and its processor."""

    model: Any
    """`Qwen3VLForConditionalGeneration` or `Qwen2_5_VLForConditionalGeneration`, unmodified."""
    processor: Processor
    name: str = "local"

    @property
    def model_type(self) -> str:
        return str(self.model.config.model_type)

    def save(self, folder: Path, *, dtype: torch.dtype | None = None) -> None:
        """Write a folder that plain transformers loads; `dtype` is that of the file only."""
        model = self.model if dtype is None else copy.deepcopy(self.model).to(dtype)
        disable_progress_bar()
        model.save_pretrained(folder)
        self.processor.save(folder, self.model_type)


def load_policy(folder: Path, *, device: str = "cpu", dtype: str | None = None, attention: str = "sdpa") -> Policy:
    """A policy from a checkpoint folder. `dtype` None is float32 on a CPU and bfloat16 elsewhere.

    Raises `UserError` for a folder that is not whole: no weight is ever left at random.
    """
    config = checkpoint_config(folder)
    name = dtype or ("float32" if device == "cpu" else "bfloat16")
    kind = getattr(torch, name, None)
    if not isinstance(kind, torch.dtype):
        raise UserError(f"dtype {name!r}: use float32, bfloat16 or float16")
    disable_progress_bar()
    with _reading(folder):
        model, found = ARCHITECTURES[config.model_type][0].from_pretrained(
            folder,
            config=config,
            dtype=kind,
            attn_implementation=attention,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    _refuse_gaps(folder, found)
    return Policy(model.to(device).eval(), load_processor(folder), folder.name)


def checkpoint_config(folder: Path) -> Any:
    """The transformers configuration of a checkpoint folder of a supported architecture."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no config.json, so not a checkpoint folder")
    table = read_json(folder / "config.json")
    kind = table.get("model_type") if isinstance(table, dict) else None
    if kind not in ARCHITECTURES:
        raise UserError(f"{folder}: architecture {kind!r}; supported are {', '.join(ARCHITECTURES)}")
    with _reading(folder):
        return AutoConfig.from_pretrained(folder)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """What transformers and its readers raise over a folder's files (and a missing attention package), as one line."""
    before = get_verbosity()
    set_verbosity_error()
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError) as error:
        raise UserError(f"{folder}: cannot be loaded ({_first_line(error)})") from error
    except (SafetensorError, StrictDataclassError) as error:
        raise UserError(f"{folder}: a damaged file ({_first_line(error)}); copy the checkpoint anew") from error
    finally:
        set_verbosity(before)


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _refuse_gaps(folder: Path, found: dict[str, Any]) -> None:
    """Weights that the files lack would be random numbers."""
    missing = sorted(found["missing_keys"])
    misfits = sorted(found["mismatched_keys"], key=lambda each: str(each[0]))
    if missing:
        raise UserError(
            f"{folder}: {len(missing)} weights are missing from its files, the first {missing[0]}; "
            "copy the checkpoint anew"
        )
    if misfits:
        raise UserError(
            f"{folder}: {len(misfits)} weights do not have the shape that config.json says: {misfits[0][0]}"
        )
    if found["unexpected_keys"]:
        first = min(found["unexpected_keys"])
        _LOG.warning("%s: %d weights are not used, the first %s", folder, len(found["unexpected_keys"]), first)


def load_processor(folder: Path) -> Processor:
    """The processor of a checkpoint folder. Raises `UserError` where its files are damaged."""
    eos = None
    with _reading(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        template = getattr(tokenizer, "chat_template", None)
        hf = PilProcessor(Qwen2VLImageProcessorPil.from_pretrained(folder), tokenizer, chat_template=template)
        if (folder / "generation_config.json").is_file():
            eos = GenerationConfig.from_pretrained(folder).eos_token_id
    return wrap_processor(hf, eos=[eos] if isinstance(eos, int) else eos)


def wrap_processor(hf: PilProcessor, eos: Sequence[int] | None = None) -> Processor:
    """Our view of a transformers processor; `eos` are further ids that end a reply."""
    image = hf.image_processor
    size = image.size
    limits = PixelLimits(
        factor=image.patch_size * image.merge_size, min_pixels=size["shortest_edge"], max_pixels=size["longest_edge"]
    )
    return Processor(hf, _vocabulary(hf.tokenizer, eos or ()), limits, PixelStore())


def _vocabulary(tokenizer: Any, eos: Sequence[int]) -> Vocabulary:
    special = {token.content: i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    missing = [name for name in (*ROLE_TOKENS, *IMAGE_TOKENS) if name not in special]
    if missing:
        raise UserError(f"tokenizer: no special token {missing[0]}, so it is not of a Qwen-VL model")
    own = copy.deepcopy(tokenizer.backend_tokenizer)
    own.encode_special_tokens = True
    end = special["<|im_end|>"]
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else end
    return Vocabulary(own, special, (end, *sorted(set(eos) - {end})), pad)
