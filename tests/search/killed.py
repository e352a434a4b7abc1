"""Index in a process of its own that dies in the middle: `python -m tests.search.killed KIND SOURCE SEARCH SECONDS`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from vlagent.search.picture_build import PictureOptions, index_images
from vlagent.search.text_build import TextOptions, index_text


def main(kind: str, source: str, search: str, moment: str) -> None:
    """Kill -9 this process once it has told of `moment` files, at a point that is not a commit."""
    left = float(moment)

    def tell(done: int, _total: int, _file: str) -> None:
        if done >= left:
            threading.Timer(0.01 * (left % 1), os.kill, (os.getpid(), signal.SIGKILL)).start()

    if kind in ("text", "shards"):
        options = TextOptions(commit_every=7, shards=3 if kind == "shards" else 1)
        index_text([Path(source)], Path(search), options, progress=tell)
    else:
        index_images([Path(source)], Path(search), PictureOptions(commit_every=3), progress=tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
