from __future__ import annotations

import asyncio
import threading
import time

from vlagent import images
from vlagent.images.threads import THREADS


def test_few_pictures_are_worked_on_at_one_time_and_all_in_the_end() -> None:
    lock, running, most = threading.Lock(), 0, 0

    def work(number: int, *, add: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return number + add

    async def many() -> list[int]:
        return await asyncio.gather(*(images.in_thread(work, number, add=1) for number in range(5 * THREADS)))

    for _ in range(2):  # every event loop has threads of its own
        assert asyncio.run(many()) == list(range(1, 5 * THREADS + 1))
    assert most == THREADS
