"""Print how many machines are in the Ray cluster at RAY_ADDRESS."""

from __future__ import annotations

import os

import ray

if __name__ == "__main__":
    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR")
    print(sum(node["Alive"] for node in ray.nodes()))
