"""What the reviews of a second model would take."""

from __future__ import annotations

from pathlib import Path

from vlagent.agent.ledger import BYTES_PER_TOKEN
from vlagent.chat.base import ImagePart, TextPart
from vlagent.chat.scripted import Scripted
from vlagent.curate.budget import PaidCall, Quote, key_of
from vlagent.curate.verify import Work
from vlagent.curate.verify_model import PIXELS, Reviewer
from vlagent.files import read_records
from vlagent.types import Sample, Trajectory

REPLY_TOKENS = 150


def quote_reviews(
    work: Work, model: str, paid: Path, price: tuple[float, float] | None, with_images: bool = True
) -> Quote:
    """One call an episode that the rules accept, its prompt counted as it would be sent; answers in `paid` are free."""
    reviewer = Reviewer(Scripted([], name=model), with_images)
    sizes = [_tokens(reviewer, pair) for pair in work.to_review]
    answered = {call.key for call in read_records(paid, PaidCall)}
    keys = [key_of(model, reviewer.first_request(*pair)) for pair in work.to_review]
    due = [size for size, key in zip(sizes, keys, strict=True) if key not in answered]
    known, left = len(sizes) - len(due), len(due)
    prompt, completion = round(sum(due)), left * REPLY_TOKENS
    cost = None if price is None else (prompt * price[0] + completion * price[1]) / 1e6
    return Quote(
        what=f"reviews by {model}",
        items=left,
        calls=left,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost_usd=cost,
        note=f"{known} are paid for already" if known else "",
    )


def _tokens(reviewer: Reviewer, pair: tuple[Sample, Trajectory]) -> float:
    total = 0.0
    for message in reviewer.messages(*pair):
        for part in message.parts:
            if isinstance(part, ImagePart):
                total += part.view[0] * part.view[1] / PIXELS.factor**2
            elif isinstance(part, TextPart):
                total += len(part.text.encode()) / BYTES_PER_TOKEN
    return total
