"""A process that turns bytes into text: `python -m vlagent.search.pages.worker`.

Frames on stdin and stdout: two lengths (4 bytes each, big-endian), a JSON head, then raw bytes. It ends when its input
does, so it never outlives who started it.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
from typing import Any, BinaryIO

MEMORY = 2 * 2**30
"""Bytes of address space: a page that wants more kills only its worker."""
LENGTHS = struct.Struct(">II")


def frame(head: dict[str, Any], body: bytes = b"") -> bytes:
    """One message."""
    raw = json.dumps(head).encode()
    return LENGTHS.pack(len(raw), len(body)) + raw + body


def _read(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    head, body = LENGTHS.unpack(lengths)
    return json.loads(stream.read(head)), stream.read(body)


def _answer(head: dict[str, Any], body: bytes) -> dict[str, Any]:
    from vlagent.search.pages.extract import NotText, extract

    try:
        found = extract(body, head["content_type"], head["charset"], head["max_chars"])
    except NotText as error:
        return {"refused": str(error)}
    except (MemoryError, RecursionError) as error:
        return {"refused": f"too large or too deep to read ({type(error).__name__})"}
    return {"title": found.title, "text": found.text, "needs_javascript": found.needs_javascript}


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a library that prints must not break the frames
    import vlagent.search.pages.extract  # noqa: F401 - before the first page

    while (asked := _read(source)) is not None:
        sink.write(frame(_answer(*asked)))
        sink.flush()


if __name__ == "__main__":
    main()
