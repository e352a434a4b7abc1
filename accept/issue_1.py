"""Issue 1: the agent, end to end on real input."""

from __future__ import annotations

from accept.harness import Item
from accept.issue_1_clone import clean_clone, wheel
from accept.issue_1_loop import cases, malformed, pool, start
from accept.issue_1_real import real_content, tiff
from accept.issue_1_toy import kills, toy

ITEMS: dict[str, Item] = {
    "clean_clone": clean_clone,
    "wheel": wheel,
    "real_content": real_content,
    "toy": toy,
    "malformed": malformed,
    "cases": cases,
    "kills": kills,
    "tiff": tiff,
    "pool": pool,
    "start": start,
}
