"""Small real files for the tests of search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def pdf(path: Path, pages: list[str], title: str = "") -> Path:
    """A PDF with one line of text a page, written by hand."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 40 700 Td ({text}) Tj ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    objects.append(b"<< /Title (%s) >>" % title.encode("latin-1"))
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    root = b"<< /Size %d /Root 1 0 R /Info %d 0 R >>" % (len(objects) + 1, len(objects))
    path.write_bytes(bytes(out + b"trailer\n" + root + b"\nstartxref\n%d\n%%%%EOF\n" % start))
    return path


def photo(seed: int, size: tuple[int, int] = (400, 300)) -> Image.Image:
    """A picture full of corners; another one for every seed."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (7, 9, 3), dtype=np.uint8)
    picture = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(picture)
    for _ in range(70):
        x, y = int(rng.integers(0, size[0])), int(rng.integers(0, size[1]))
        points = [(x + int(dx), y + int(dy)) for dx, dy in rng.integers(-45, 45, (int(rng.integers(3, 6)), 2))]
        draw.polygon(points, fill=tuple(int(c) for c in rng.integers(0, 255, 3)))
    return picture
