"""Time and peak memory of cutting 2,000 x 2,000 pixels out of big pictures, against plain Pillow in the same run.

    python benchmarks/crop.py [FOLDER]

FOLDER keeps the pictures (about 300 MB: a 40,000 x 40,000 JPEG-tiled pyramid, an 8K and a 4K JPEG). Every case runs in
a process of its own; the time is the median of seven cuts at different places, memory is the process's peak.
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 2000
REPEATS = 7
HUGE = 40_000
TILE = 512
PERIOD = 4096
"""The huge picture repeats a texture of this side."""
CASES = (
    "pillow 4K JPEG",
    "vlagent 4K JPEG",
    "pillow 8K JPEG",
    "vlagent 8K JPEG",
    "vlagent 40k TIFF",
    "vlagent 40k view",
)
MAX_RATIO = 3.0
MAX_MEMORY_MB = 600.0


def measure(folder: Path | None = None) -> dict[str, Any]:
    """Case -> median seconds and peak MB; `ratio` is the TIFF's crop time over Pillow's on the 8K JPEG."""
    folder = folder or Path(tempfile.gettempdir()) / "vlagent-benchmarks"
    make_pictures(folder)
    cases = {case: _in_process(case, folder) for case in CASES}
    ratio = cases["vlagent 40k TIFF"]["median_s"] / cases["pillow 8K JPEG"]["median_s"]
    peak = max(cases[case]["peak_mb"] for case in CASES if "40k" in case)
    right = math.isfinite(ratio) and _is_right(folder / "huge.tif")
    passed = right and ratio <= MAX_RATIO and peak <= MAX_MEMORY_MB
    return {"cases": cases, "ratio": ratio, "tiff_peak_mb": peak, "right_pixels": right, "passed": passed}


def _is_right(path: Path) -> bool:
    """Whether a cut holds the texture that was drawn there (JPEG changes it a little)."""
    from vlagent import images

    x, y = 23_456, 12_345
    cut = images.load(images.crop(images.probe(path, decode=False), (x, y, x + SIDE, y + SIDE)))
    drawn = np.roll(_texture(), (-y, -x), (0, 1))[:SIDE, :SIDE]
    return bool(np.abs(np.asarray(cut, np.int16) - drawn).mean() < 5)


def make_pictures(folder: Path) -> None:
    """Draw what is not there yet; an interrupted write leaves nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    texture = _texture()
    for name, size in (("8k.jpg", (7680, 4320)), ("4k.jpg", (3840, 2160))):
        if not (folder / name).exists():
            part = np.tile(texture, (2, 2, 1))[: size[1], : size[0]]
            Image.fromarray(part).save(folder / f"part-{name}", quality=92)
            (folder / f"part-{name}").replace(folder / name)
    if not (folder / "huge.tif").exists():
        _write_huge(folder / "part-huge.tif", texture)
        (folder / "part-huge.tif").replace(folder / "huge.tif")


def _texture() -> NDArray[np.uint8]:
    """Soft clouds with fine grain, [PERIOD, PERIOD, 3]: about as hard to compress as a photograph."""
    rng = np.random.default_rng(1)
    clouds = Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)).resize((PERIOD, PERIOD))
    grain = rng.integers(-6, 7, (PERIOD, PERIOD, 1), dtype=np.int16)
    textured: NDArray[np.uint8] = np.clip(np.asarray(clouds, np.int16) + grain, 0, 255).astype(np.uint8)
    return textured


def _write_huge(path: Path, texture: NDArray[np.uint8]) -> None:
    import tifffile

    levels = 5
    with tifffile.TiffWriter(path, bigtiff=True) as tiff:
        for level in range(levels):
            side = HUGE >> level
            tiff.write(
                _encoded_tiles(texture, level, side),
                shape=(side, side, 3),
                dtype="uint8",
                photometric="ycbcr",
                tile=(TILE, TILE),
                compression="jpeg",
                subifds=levels - 1 if level == 0 else 0,
                subfiletype=1 if level else 0,
            )


def _encoded_tiles(texture: NDArray[np.uint8], level: int, side: int) -> Iterator[bytes]:
    """JPEG tiles, row by row; each distinct one is encoded once."""
    import imagecodecs

    small = np.asarray(Image.fromarray(texture).reduce(1 << level)) if level else texture
    repeats = max(1, TILE // small.shape[0])
    small = np.tile(small, (repeats, repeats, 1))
    period = small.shape[0] // TILE
    tiles = {
        (row, column): bytes(
            imagecodecs.jpeg8_encode(
                np.ascontiguousarray(small[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]),
                level=80,
            )
        )
        for row in range(period)
        for column in range(period)
    }
    count = -(-side // TILE)
    return (tiles[row % period, column % period] for row in range(count) for column in range(count))


def _in_process(case: str, folder: Path) -> dict[str, float]:
    """Run one case alone and read its time and memory; a case that fails took for ever."""
    command = [sys.executable, __file__, "--case", case, str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        print(f"{case} failed: {answer.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {"median_s": math.inf, "peak_mb": math.inf}
    return {name: float(value) for name, value in json.loads(answer.stdout).items()}


def _run_case(case: str, folder: Path) -> dict[str, float]:
    files = {"4K": "4k.jpg", "8K": "8k.jpg", "40k": "huge.tif"}
    name = next(file for word, file in files.items() if word in case)
    cut = _pillow(folder / name) if case.startswith("pillow") else _ours(folder / name, whole="view" in case)
    seconds = []
    for repeat in range(REPEATS):
        started = time.perf_counter()
        cut(repeat)
        seconds.append(time.perf_counter() - started)
    return {"median_s": statistics.median(seconds), "peak_mb": _peak_mb()}


def _peak_mb() -> float:
    """Peak resident memory of this process; `ru_maxrss` would count what the parent held when it forked."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _corner(repeat: int, width: int, height: int) -> tuple[int, int]:
    return (width - SIDE) * repeat // REPEATS, (height - SIDE) * repeat // REPEATS


def _pillow(path: Path) -> Callable[[int], None]:
    def cut(repeat: int) -> None:
        with Image.open(path) as picture:
            x, y = _corner(repeat, *picture.size)
            picture.crop((x, y, x + SIDE, y + SIDE)).load()

    return cut


def _ours(path: Path, whole: bool) -> Callable[[int], None]:
    from vlagent import images

    ref = images.probe(path, decode=False)

    def cut(repeat: int) -> None:
        x, y = _corner(repeat, ref.width, ref.height)
        images.load(images.crop(ref, (x, y, x + SIDE, y + SIDE)))

    def view(repeat: int) -> None:  # noqa: ARG001 - called like `cut`
        images.load(ref, (2880, 2880))

    return view if whole else cut


def main(arguments: list[str]) -> None:
    """Print the table, or (with --case) measure one case in this process."""
    if arguments[:1] == ["--case"]:
        print(json.dumps(_run_case(arguments[1], Path(arguments[2]))))
        return
    result = measure(Path(arguments[0]) if arguments else None)
    for case, found in result["cases"].items():
        print(f"{case:18} {found['median_s'] * 1000:8.0f} ms {found['peak_mb']:8.0f} MB")
    print(f"40k TIFF crop over Pillow on the 8K JPEG: {result['ratio']:.2f} (at most {MAX_RATIO:g})")
    print(f"peak memory on the TIFF: {result['tiff_peak_mb']:.0f} MB (at most {MAX_MEMORY_MB:g})")
    print(f"the pixels are {'right' if result['right_pixels'] else 'WRONG'}")
    raise SystemExit(0 if result["passed"] else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
