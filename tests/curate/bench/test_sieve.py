"""Each rule of the filter refuses what it should, and only that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from tests.curate.bench.conftest import RULES, SIGN, make_bench, scene
from vlagent.config import make_config
from vlagent.curate.bench.collect import Given, collect_now
from vlagent.curate.bench.config import BenchConfig, read_config, write_default
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.measure import grey_of, sharpness, small_regions
from vlagent.curate.bench.sieve import sieve
from vlagent.errors import UserError
from vlagent.files import write_atomic
from vlagent.images import probe
from vlagent.types import Sample


def collected(tmp_path: Path, **images: Image.Image) -> Bench:
    source = tmp_path / "more"
    source.mkdir()
    for name, image in images.items():
        image.save(source / f"{name}.png")
    bench = Bench(tmp_path / "bench")
    write_atomic(bench.folder / "bench.toml", RULES)
    collect_now(bench, [str(source)], Given(), lambda *_: None)
    return bench


def verdict(bench: Bench) -> dict[str, tuple[str, ...]]:
    """File name -> why it is refused."""
    sieve(bench)
    names = {each.id: Path(each.source).stem for each in bench.pictures().values()}
    return {names[each.id]: each.why for each in bench.sieved().values()}


def sharp(tmp_path: Path, seed: int = 7) -> Image.Image:
    return Image.open(scene(tmp_path / "sharp.png", seed)).convert("RGB")


def test_small_blurred_and_copied_pictures_are_refused(tmp_path: Path) -> None:
    image = sharp(tmp_path)
    bench = collected(
        tmp_path,
        a_good=image,
        b_copy=image.resize((1000, 750)),
        c_blurred=sharp(tmp_path, 8).filter(ImageFilter.GaussianBlur(6)),
        d_small=sharp(tmp_path, 9).resize((400, 300)),
    )
    why = verdict(bench)
    assert why["a_good"] == ()
    assert any(reason.startswith("looks like") for reason in why["b_copy"])
    assert any(reason.startswith("sharpness") for reason in why["c_blurred"])
    assert why["d_small"][0].startswith("400 x 300")


def test_a_blurred_background_is_no_fault() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (600, 800), dtype=np.uint8)
    portrait = np.full((600, 800), 128, np.uint8)
    portrait[200:400, 300:500] = noise[200:400, 300:500]
    enlarged = np.asarray(Image.fromarray(noise[:75, :100]).resize((800, 600), Image.Resampling.BICUBIC))
    assert sharpness(portrait) > 6
    assert sharpness(enlarged) < sharpness(portrait) / 10
    assert sharpness(np.full((600, 800), 128, np.uint8)) == 0


def test_small_things_are_found_and_big_ones_are_not(tmp_path: Path) -> None:
    ref = probe(scene(tmp_path / "a.png", 3))
    image = Image.new("L", (800, 600), 128)
    ImageDraw.Draw(image).rectangle((100, 100, 600, 500), fill=250)
    image.save(tmp_path / "big.png")
    ImageDraw.Draw(image).rectangle(SIGN, fill=0)
    image.save(tmp_path / "both.png")
    found = small_regions(grey_of(probe(tmp_path / "both.png")), 0.05)
    assert small_regions(grey_of(probe(tmp_path / "big.png")), 0.05) == []
    assert any(abs(box[0] - SIGN[0]) <= 4 and abs(box[3] - SIGN[3]) <= 4 for box in found)
    assert small_regions(grey_of(ref), 0.05)


def test_a_picture_without_small_things_is_refused_where_they_are_asked_for(tmp_path: Path) -> None:
    plain = Image.fromarray(np.random.default_rng(1).integers(100, 120, (600, 800, 3), dtype=np.uint8))
    bench = collected(tmp_path, plain=plain, sign=sharp(tmp_path))
    assert verdict(bench)["plain"] == ("0 small things: 1 are needed",)
    write_atomic(bench.folder / "bench.toml", RULES + "small = 0\n")
    assert verdict(bench)["plain"] == ()


@pytest.mark.parametrize(
    ("rules", "refused"),
    [
        ('after = "2025-06-02"', True),
        ('after = "2025-06-01"', False),
        ('before = "2025-05-31"', True),
        ('undated = "refuse"', False),
    ],
)
def test_dates_decide_where_they_are_set(tmp_path: Path, rules: str, refused: bool) -> None:
    bench = make_bench(tmp_path, 1, f"{RULES}{rules}\n")
    (said,) = bench.sieved().values()
    assert said.kept is not refused


def test_pictures_without_a_date_are_refused_only_on_request(tmp_path: Path) -> None:
    bench = collected(tmp_path, a=sharp(tmp_path))
    for undated, why in (("keep", ()), ("refuse", ("no date is known",))):
        write_atomic(bench.folder / "bench.toml", f'{RULES}after = "2025-01-01"\nundated = "{undated}"\n')
        assert verdict(bench)["a"] == why


def test_a_picture_that_is_trained_on_is_refused(tmp_path: Path) -> None:
    image = sharp(tmp_path)
    image.resize((900, 675)).save(tmp_path / "trained.jpg", quality=80)
    bench = collected(tmp_path, a=image, b=sharp(tmp_path, 8))
    seen = Sample(id="t1", source="train", question="?", images=(probe(tmp_path / "trained.jpg"),))
    assert sieve(bench).kept == 2
    assert sieve(bench, against=[seen]).kept == 1
    assert [each.like for each in bench.sieved().values() if not each.kept] == ["train: t1"]


def test_a_second_call_measures_nothing_again_unless_the_rules_change(bench: Bench) -> None:
    lines = (bench.folder / "filter.jsonl").read_text()
    assert sieve(bench).known == 3
    assert (bench.folder / "filter.jsonl").read_text() == lines
    write_atomic(bench.folder / "bench.toml", RULES.replace("long_side = 800", "long_side = 801"))
    assert sieve(bench).known == 0
    assert not bench.usable()


def test_the_rules_that_are_written_are_the_defaults(tmp_path: Path) -> None:
    folder = tmp_path / "My bench"
    write_default(folder)
    assert read_config(folder) == make_config(BenchConfig, {"name": "My-bench"})
    write_atomic(folder / "bench.toml", "objct_share = 0.1\n")
    with pytest.raises(UserError, match="objct_share: unknown key"):
        read_config(folder)
    write_atomic(folder / "bench.toml", '[filter]\nafter = "soon"\n')
    with pytest.raises(UserError, match=r"filter\.after"):
        read_config(folder)


@pytest.mark.slow
def test_words_are_found_by_the_extra_that_reads_them(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr", reason="the extra [ocr] is not installed")
    image = Image.new("RGB", (800, 600), (150, 170, 160))
    pen = ImageDraw.Draw(image)
    pen.rectangle((380, 280, 560, 340), fill="white")
    pen.text((392, 290), "HARBOUR 7", fill="black", font_size=28)
    bench = collected(tmp_path, sign=image)
    write_atomic(bench.folder / "bench.toml", RULES + 'small_by = "ocr"\nsharpness = 0.5\n')
    sieve(bench)
    (said,) = bench.sieved().values()
    assert (said.kept, said.small) == (True, 1)
    assert said.smallest is not None
    assert 0.001 < said.smallest < 0.03
