"""Keyed randomness: every draw comes from its own key, so the order of completion changes nothing."""

from __future__ import annotations

import hashlib
import random

Key = tuple[str | int, ...]


def seed_of(*key: str | int) -> int:
    """A 63-bit seed from a key such as (run seed, sample id, rollout, turn, position)."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def rng_of(*key: str | int) -> random.Random:
    """A generator of its own for one key."""
    return random.Random(seed_of(*key))
