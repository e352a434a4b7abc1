"""Trajectories to rows: token ids, and a mask that is True on the model's own tokens only (arXiv 2512.24330, eq. 1).

Sampled turns are spliced in as the ids that they were sampled as. Turns of a scripted policy or of an HTTP model have
no ids: their text is encoded once, here, and their turn end is trained. Shape letter: L = tokens of a row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vlagent.agent.conversation import RewriteError, Style, conversation
from vlagent.bench.selection import agent_of, episodes
from vlagent.data.sealed import refuse_canaries
from vlagent.errors import UserError
from vlagent.model.chatml import Renderer
from vlagent.render.sizing import PixelLimits
from vlagent.train.config import SourceConfig
from vlagent.types import Sample, TrainRow, Trajectory, Turn


@dataclass
class Rows:
    """The rows of one source, and why the other episodes were left out."""

    source: SourceConfig
    rows: list[TrainRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_rows(source: SourceConfig, renderer: Renderer, pixels: PixelLimits, max_tokens: int) -> Rows:
    """The rows of a run folder that the source selects. Raises `UserError` where there are none.

    Pictures keep the size that the run showed them at; `pixels`, the model's limits, are for runs of another family.
    """
    folder = Path(source.run)
    agent = agent_of(folder)
    limits = agent.pixels if agent.pixels.factor == pixels.factor else pixels
    style = Style(agent, limits, renderer.vocabulary.special_tokens, source.dialect)
    found = Rows(source)
    for sample, trajectory, _ in episodes(folder, source, found.left_out):
        if source.limit is not None and len(found.rows) >= source.limit:
            break
        refuse_canaries([sample], str(folder))
        try:
            row = make_row(sample, trajectory, style, renderer, source)
        except RewriteError as error:
            found.left_out[str(error)] += 1
            continue
        if len(row.ids) > max_tokens:
            found.left_out["longer than max_tokens"] += 1
        elif not row.mask.any():
            found.left_out["nothing to learn from"] += 1
        else:
            found.rows.append(row)
    if not found.rows:
        why = ", ".join(f"{reason}: {count}" for reason, count in found.left_out.most_common()) or "it is empty"
        raise UserError(f"{folder}: no row to train on ({why})")
    return found


def make_row(
    sample: Sample, trajectory: Trajectory, style: Style, renderer: Renderer, source: SourceConfig
) -> TrainRow:
    """One trajectory as one row; `advantage` is the source's weight.

    Raises `RewriteError` where the messages cannot be rebuilt, also when they are not as long as those sampled from.
    """
    rendered = renderer.render(conversation(sample, trajectory, style), reply=False)
    spans = own_spans(rendered.own)
    if len(spans) != len(trajectory.turns):
        raise RewriteError("an empty turn")
    if style.dialect is None:
        _check_prompts(trajectory, spans)
    mask = rendered.own.copy()
    for turn, (start, stop) in zip(trajectory.turns, spans, strict=True):
        if not _trains(turn, source):
            mask[start:stop] = False
    return TrainRow(
        ids=rendered.ids,
        mask=mask,
        logprobs=rendered.logprobs,
        advantage=source.weight,
        images=[part.ref for part in rendered.images],
        views=[part.view for part in rendered.images],
        sample_id=sample.id,
    )


def own_spans(own: Any) -> list[tuple[int, int]]:
    """(start, stop) of each run of True in a mask [L]: one a turn, for turns never touch."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], np.asarray(own, np.int8), [0]))))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def _trains(turn: Turn, source: SourceConfig) -> bool:
    """A call that a person changed is not what led to what follows."""
    return turn.edited_by is None and not (source.mask_invalid and turn.error is not None)


def _check_prompts(trajectory: Trajectory, spans: list[tuple[int, int]]) -> None:
    """Every sampled turn counted the tokens of its prompt: the rebuilt prompts must be as long."""
    complete = all(turn.tokens is not None for turn in trajectory.turns)
    if not complete or trajectory.usage.calls != len(trajectory.turns):
        return
    if sum(start for start, _ in spans) != trajectory.usage.prompt_tokens:
        raise RewriteError("other prompts than those that were sampled from")
