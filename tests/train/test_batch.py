from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vlagent.errors import ServiceError
from vlagent.train.batch import Mixture, epoch_steps, make_micro, prefetch, shares
from vlagent.train.config import BatchConfig, OptimConfig, SourceConfig
from vlagent.train.rows import read_rows
from vlagent.train.schedule import learning_rate

LENGTHS = [5, 90, 20, 70, 10, 60, 30, 50, 40, 80]


def test_an_epoch_sees_each_row_as_often_as_its_share_says() -> None:
    mixture = Mixture((4, 10, 3), (1.0, 0.5, 2.0))
    for epoch in range(3):
        seen = Counter(mixture.order(0, epoch))
        assert [seen[i] for i in range(4)] == [1] * 4
        assert sum(seen[i] for i in range(4, 14)) == 5
        assert [seen[i] for i in range(14, 17)] == [2] * 3
    assert mixture.epoch_rows == 15


def test_the_order_follows_from_seed_and_epoch_alone() -> None:
    mixture = Mixture((20,), (0.5,))
    assert mixture.order(1, 2) == mixture.order(1, 2)
    others = [mixture.order(1, 2), mixture.order(1, 3), mixture.order(2, 2)]
    assert len({tuple(order) for order in others}) == 3
    assert len({tuple(sorted(order)) for order in others}) == 3


def test_steps_hold_every_row_once_whatever_the_bucketing() -> None:
    order = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]
    plain = epoch_steps(order, LENGTHS, BatchConfig(rows=3), 0)
    assert plain == [[3, 1, 4], [0, 5, 9], [2, 6, 8], [7]]
    sorted_ = epoch_steps(order, LENGTHS, BatchConfig(rows=3, bucket_steps=4), 0)
    assert sorted(i for step in sorted_ for i in step) == list(range(10))

    def spread(steps: list[list[int]]) -> int:
        return sum(max(LENGTHS[i] for i in step) - min(LENGTHS[i] for i in step) for step in steps)

    assert spread(sorted_) < spread(plain) / 2


@pytest.mark.parametrize("world", [1, 2, 3, 12])
def test_processes_share_a_step_evenly_and_count_every_row_once(world: int) -> None:
    config = BatchConfig(micro_rows=3, micro_tokens=150)
    work = [shares(range(10), LENGTHS, config, world, rank) for rank in range(world)]
    assert len({len(one) for one in work}) == 1
    counted = [row for one in work for share in one if share.counts for row in share.rows]
    assert sorted(counted) == list(range(10))
    for share in (share for one in work for share in one):
        assert 1 <= len(share.rows) <= 3
        assert len(share.rows) == 1 or len(share.rows) * max(LENGTHS[i] for i in share.rows) <= 150


def test_both_limits_of_a_pass_matter() -> None:
    def passes(**options: int) -> int:
        return len(shares(range(10), LENGTHS, BatchConfig(**options), 1, 0))

    assert passes(micro_rows=10) == 1
    assert passes(micro_rows=2) == 5
    assert passes(micro_rows=10, micro_tokens=100) > 5


def test_padding_costs_no_own_token_and_pictures_come_in_the_order_of_rows(demo_run: Path, processor: Any) -> None:
    rows = read_rows(SourceConfig(run=str(demo_run), weight=0.25), processor.renderer, processor.limits, 9999).rows[:3]
    micro = make_micro(rows, processor)
    assert micro.weights.tolist() == [0.25] * 3
    assert micro.padded == 3 * max(len(row.ids) for row in rows)
    for i, row in enumerate(rows):
        assert np.array_equal(micro.batch.own[i, : len(row.ids)].numpy(), row.mask)
        assert not micro.batch.own[i, len(row.ids) :].any()
    assert micro.batch.image_grid_thw is not None
    views = [(16 * 1, view[1] // 8, view[0] // 8) for row in rows for view in row.views]
    assert [(16, *grid[1:]) for grid in micro.batch.image_grid_thw.tolist()] == views
    assert make_micro(rows, processor, counts=False).weights.tolist() == [0.0] * 3


def test_prefetched_passes_are_the_same_in_the_same_order(demo_run: Path, processor: Any) -> None:
    rows = read_rows(SourceConfig(run=str(demo_run)), processor.renderer, processor.limits, 9999).rows
    work = shares(range(len(rows)), [len(row.ids) for row in rows], BatchConfig(micro_rows=2), 1, 0)
    for share, micro in zip(work, prefetch(rows, work, processor), strict=True):
        assert (
            micro.batch.input_ids.tolist()
            == make_micro([rows[i] for i in share.rows], processor).batch.input_ids.tolist()
        )


def test_a_picture_that_is_gone_is_a_failure_and_not_a_blank(demo_run: Path, tiny: Path, tmp_path: Path) -> None:
    from vlagent.model.load import load_processor

    fresh = load_processor(tiny)
    row = read_rows(SourceConfig(run=str(demo_run), limit=1), fresh.renderer, fresh.limits, 9999).rows[0]
    path = tmp_path / "x.png"
    Image.new("RGB", (160, 80)).save(path)
    row.images = [row.images[0].model_copy(update={"path": str(path)})]
    path.unlink()
    with pytest.raises(ServiceError, match="image"):
        list(prefetch([row], shares([0], [len(row.ids)], BatchConfig(), 1, 0), fresh))


def test_the_learning_rate_warms_up_and_comes_down() -> None:
    config = OptimConfig(lr=1.0, warmup=0.2, schedule="linear", final=0.5)
    rates = [learning_rate(config, step, 10) for step in range(10)]
    assert rates[:3] == [0.5, 1.0, 1.0]
    assert rates[-1] == pytest.approx(0.5 + 0.5 / 8)
    cosine = [learning_rate(config.model_copy(update={"schedule": "cosine"}), step, 10) for step in range(10)]
    assert cosine[6] == pytest.approx(0.75)
    assert cosine[2:] == sorted(cosine[2:], reverse=True)
    constant = [learning_rate(config.model_copy(update={"schedule": "constant"}), step, 10) for step in range(2, 10)]
    assert constant == [1.0] * 8
    assert learning_rate(OptimConfig(lr=1.0, warmup=0.0), 0, 5) == 1.0
