"""Our loop under veRL's present trainer: its worker for TransferQueue, with a real Ray and a real queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="veRL has an environment of its own: make test-verl")

import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils import tensordict_utils
from verl.utils.dataset.rl_dataset import collate_fn, get_dataset_class

from tests.integrations.verl import world
from vlagent.integrations.verl.config import open_workplace

SAMPLES = 2


def start_ray() -> None:
    """Ray gives its processes 15 to 30 s to start, whatever else runs: on a machine too busy for that, we skip."""
    try:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    except Exception as error:  # Ray raises no type of its own here
        ray.shutdown()
        if "timed out during startup" in str(error):
            pytest.skip(f"Ray does not start here: {error}")
        raise


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[None]:
    """A Ray of this test's own, and veRL's queue in it."""
    start_ray()
    settings = {"backend": {"storage_backend": "SimpleStorage", "SimpleStorage": {"num_data_storage_units": 1}}}
    try:
        tq.init(OmegaConf.create(settings))
        yield
        tq.close()
    finally:
        ray.shutdown()


def prompts(config: Any, questions: str) -> Any:
    """A batch of the training set as veRL's trainer sends it to its workers."""
    dataset = get_dataset_class(config.data)(questions, None, config.data)
    table = collate_fn([dataset[i] for i in range(len(dataset))])
    table["uid"] = np.array([f"u{i}" for i in range(len(dataset))], dtype=object)
    return tensordict_utils.get_tensordict(table, {"global_steps": 1})


async def play(worker: Any, batch: Any) -> None:
    await worker.generate_sequences(batch)
    await asyncio.gather(*worker.background_tasks)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("queue")
def test_what_lies_in_verls_queue_is_what_was_sampled(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    policy = world.save_policy(tmp_path / "model")
    questions = world.write_questions(tmp_path)
    world.write_loop_config(tmp_path)
    open_workplace.cache_clear()
    config = world.verl_config(tmp_path / "model", questions, tmp_path, f"actor_rollout_ref.rollout.n={SAMPLES}")
    server = world.ScriptedServer(policy, world.crop_then_answer)
    worker = world.make_worker(config, server, AgentLoopWorkerTQ.__ray_metadata__.modified_class)
    asyncio.run(play(worker, prompts(config, questions)))
    keys = [f"u{prompt}_{sample}_0" for prompt in range(3) for sample in range(SAMPLES)]
    fields = ["responses", "response_mask", "rollout_log_probs", "rm_scores", "uid", "position_ids", "input_ids"]
    data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=fields)
    assert list(data["uid"]) == [key.split("_")[0] for key in keys]
    for row in range(len(keys)):
        mask = data["response_mask"][row].bool()
        turns = [
            (len(request["ids"]), reply)
            for request, reply in zip(server.requests, server.replies, strict=True)
            if f"number {row // SAMPLES}?" in policy.processor.vocabulary.decode(request["ids"])
        ]
        assert len(turns) == SAMPLES * (1 + row // SAMPLES)
        by_turn = dict(turns)  # the samples of a question say the same, in whatever order they are served
        assert len(by_turn) == 1 + row // SAMPLES
        assert data["responses"][row][mask].tolist() == [i for length in sorted(by_turn) for i in by_turn[length]]
        assert float(data["rm_scores"][row].sum()) == 1.5
        assert float(data["rm_scores"][row][-1]) == 1.5
        assert (data["rollout_log_probs"][row][mask] < 0).all()
        assert data["position_ids"][row].shape[-1] == data["input_ids"][row].shape[-1]
