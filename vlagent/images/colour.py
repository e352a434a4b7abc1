"""Every pixel format to 8-bit RGB: scaled, never clipped; transparency lies on white."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

_DEEP = ("I", "F")
"""Modes whose range is known only from the whole picture."""


def needs_whole(mode: str) -> bool:
    """Whether a region cannot be converted alone, since its scale comes from all pixels."""
    return mode in _DEEP


def to_rgb(picture: Image.Image) -> Image.Image:
    """Convert a loaded picture of any Pillow mode."""
    if picture.mode in _DEEP:
        return _grey(np.asarray(picture, np.float64), *_range_of(np.asarray(picture)))
    if picture.mode.startswith("I;16"):
        return _grey(np.asarray(picture, np.float64), 0, 65535)
    if picture.mode == "CMYK" and picture.info.get("icc_profile"):
        return _by_profile(picture)
    if picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info:
        return _on_white(picture)
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def to_bytes(
    samples: NDArray[Any], bits: int, low: float | None = None, high: float | None = None
) -> NDArray[np.uint8]:
    """Samples of any type to 0-255. Integers scale by their `bits`; others by the range that is given."""
    if samples.dtype == np.uint8 and bits == 8:
        return np.asarray(samples, np.uint8)
    if samples.dtype == np.bool_:
        return samples.astype(np.uint8) * np.uint8(255)
    if samples.dtype.kind == "u" and low is None:
        low, high = 0, 2**bits - 1
    if low is None or high is None:
        low, high = _range_of(samples)
    scaled = (np.nan_to_num(samples.astype(np.float32)) - low) * (255 / max(high - low, 1e-12))
    shown: NDArray[np.uint8] = np.clip(np.rint(scaled), 0, 255).astype(np.uint8)
    return shown


def value_range(samples: NDArray[Any]) -> tuple[float, float]:
    """The scale that samples of unknown meaning are drawn on."""
    return _range_of(samples)


def _range_of(samples: NDArray[Any]) -> tuple[float, float]:
    known = samples[np.isfinite(samples)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if low >= 0:
        for usual in (1.0, 255.0, 65535.0):
            if high <= usual and (usual > 1 or samples.dtype.kind == "f"):
                return 0.0, usual
    return low, high


def _grey(samples: NDArray[Any], low: float, high: float) -> Image.Image:
    return Image.fromarray(to_bytes(samples, 0, low, high)).convert("RGB")


def _on_white(picture: Image.Image) -> Image.Image:
    seen = picture.convert("RGBA")
    white = Image.new("RGBA", seen.size, "white")
    return Image.alpha_composite(white, seen).convert("RGB")


def _by_profile(picture: Image.Image) -> Image.Image:
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(picture.info["icc_profile"]))
        done = ImageCms.profileToProfile(picture, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError):
        return picture.convert("RGB")
    return picture.convert("RGB") if done is None else done
