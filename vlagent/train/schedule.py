"""The learning rate as a function of the step: nothing to save, nothing to restore."""

from __future__ import annotations

import math

from vlagent.train.config import OptimConfig


def learning_rate(config: OptimConfig, step: int, total: int) -> float:
    """Of step 0 ... total - 1: linear warm-up to `lr`, then down towards `final` x `lr` at step `total`."""
    warm = math.ceil(config.warmup * total)
    if step < warm:
        return config.lr * (step + 1) / warm
    if config.schedule == "constant":
        return config.lr
    part = (step - warm) / max(1, total - warm)
    left = 0.5 * (1 + math.cos(math.pi * part)) if config.schedule == "cosine" else 1 - part
    return config.lr * (config.final + (1 - config.final) * left)
