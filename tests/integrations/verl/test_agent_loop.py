"""Our loop in veRL's own worker: from rows of our data set to the batch that veRL trains on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="veRL has an environment of its own: make test-verl")

import torch
from hydra.errors import InstantiationException
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.trainer.ppo.reward import load_reward_manager
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils.dataset.rl_dataset import collate_fn, get_dataset_class

from tests.agent.parts import answer
from tests.integrations.verl import world
from vlagent.errors import ServiceError, TransientError, UserError
from vlagent.integrations.verl.config import WATCHED, open_workplace
from vlagent.model.load import Policy
from vlagent.tools.image_crop import ImageCrop


class Place:
    """One test's folders, and runs of veRL's worker over them."""

    def __init__(self, policy: Policy, model: Path, folder: Path, **rewards: Any) -> None:
        self.policy = policy
        self.questions = world.write_questions(folder)
        self.loop = world.write_loop_config(folder, **rewards)
        self.config = world.verl_config(model, self.questions, folder)
        self.server = world.ScriptedServer(policy, world.crop_then_answer)

    def rows(self, samples: int = 1) -> DataProto:
        """Every question `samples` times, collated as veRL's trainer does it."""
        dataset = get_dataset_class(self.config.data)(self.questions, None, self.config.data)
        table = collate_fn([dataset[i] for i in range(len(dataset))])
        batch = DataProto.from_single_dict(table)
        batch.non_tensor_batch["uid"] = np.array([f"u{i}" for i in range(len(dataset))], dtype=object)
        return batch.repeat(samples)

    def play(self, samples: int = 1) -> DataProto:
        worker = world.make_worker(self.config, self.server)
        return asyncio.run(_generate(worker, self.rows(samples)))

    def requests_about(self, number: int) -> list[tuple[str, list[int], list[int]]]:
        """(request id, prompt, reply) of every turn about one question."""
        vocabulary = self.policy.processor.vocabulary
        turns = zip(self.server.requests, self.server.replies, strict=True)
        asked = [(request["id"], request["ids"], reply) for request, reply in turns]
        return [turn for turn in asked if f"number {number}?" in vocabulary.decode(turn[1])]


async def _generate(worker: AgentLoopWorker, batch: DataProto) -> DataProto:
    return await worker.generate_sequences(batch)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model") / "tiny"


@pytest.fixture(scope="module")
def policy(model: Path) -> Policy:
    torch.set_num_threads(1)
    return world.save_policy(model)


@pytest.fixture
def place(policy: Policy, model: Path, tmp_path: Path) -> Place:
    return Place(policy, model, tmp_path)


def real_ids(batch: DataProto, row: int) -> list[int]:
    return batch.batch["input_ids"][row][batch.batch["attention_mask"][row].bool()].tolist()


def test_the_ids_trained_on_are_the_ids_sampled(place: Place) -> None:
    done = place.play()
    for row, count in enumerate((1, 2, 3)):
        turns = place.requests_about(row)
        assert len(turns) == count
        assert len({request_id for request_id, _, _ in turns}) == 1
        mask = done.batch["response_mask"][row].bool()
        assert done.batch["responses"][row][mask].tolist() == [i for _, _, reply in turns for i in reply]
        _, prompt, reply = turns[-1]
        assert real_ids(done, row)[: len(prompt) + len(reply)] == prompt + reply


def test_observations_and_pictures_are_not_trained(place: Place) -> None:
    done = place.play()
    mask, responses = done.batch["response_mask"].bool(), done.batch["responses"]
    pad = place.policy.processor.vocabulary.ids["<|image_pad|>"]
    assert (responses[2] == pad).any()
    assert not mask[responses == pad].any()
    assert done.non_tensor_batch["__num_turns__"].tolist() == [1, 2, 3]


def test_a_trainer_finds_the_samplers_log_probabilities_in_verls_batch(place: Place) -> None:
    """With the positions, pictures and ids of veRL's batch, a plain forward gives what the sampler reported."""
    done = place.play()
    prompts = torch.zeros(len(done), world.LENGTHS[0])
    masks = torch.cat([prompts, done.batch["response_mask"]], 1).bool()
    samplers = torch.cat([prompts, done.batch["rollout_log_probs"]], 1)
    for row in range(3):
        kept = done.batch["attention_mask"][row].bool()
        ids, positions = done.batch["input_ids"][row, kept][None], done.batch["position_ids"][row][1:, None][..., kept]
        pictures = done.non_tensor_batch["multi_modal_inputs"][row]
        given = (ids, positions, pictures["pixel_values"], pictures["image_grid_thw"])
        found = world.forward_logprobs(place.policy, *given)
        own = masks[row, kept]
        assert own.any()
        assert (found[own[1:]] - samplers[row, kept][own]).abs().max() < 1e-4


def test_rewards_are_ours_and_stand_on_the_last_token(place: Place) -> None:
    place.server.script = lambda prompt, turn: world.crop_then_answer(prompt, turn).replace("a1", "wrong")
    done = place.play()
    scores = done.batch["rm_scores"]
    assert scores.sum(1).tolist() == [1.5, 0.5, 1.5]
    assert done.non_tensor_batch["acc"].tolist() == [1.0, 0.0, 1.0]
    assert done.non_tensor_batch["format"].tolist() == [1.0, 1.0, 1.0]
    assert done.non_tensor_batch["calls"].tolist() == [0.0, 1.0, 2.0]
    for row in range(3):
        last = int(done.batch["attention_mask"][row, world.LENGTHS[0] :].sum()) - 1
        assert scores[row, last] > 0


class Down(ImageCrop):
    """A tool whose service does not answer."""

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        raise TransientError("crop", "does not answer")


def test_a_service_failure_never_trains_and_is_no_zero_in_the_statistics(place: Place) -> None:
    workplace = open_workplace(str(place.loop))
    workplace.tools["image_crop"] = Down()
    place.server.script = lambda prompt, turn: (
        world.crop_then_answer(prompt, turn) if "number 1" in prompt else answer(("a0", "no")["number 2" in prompt])
    )
    done = place.play()
    assert done.non_tensor_batch["trained"].tolist() == [1.0, 0.0, 1.0]
    assert done.non_tensor_batch["scored"].tolist() == [1.0, 0.0, 1.0]
    assert done.non_tensor_batch["acc"].tolist() == [1.0, 0.0, 0.0]
    assert not done.batch["response_mask"][1].any()
    done.batch["token_level_rewards"] = done.batch["rm_scores"]
    done.non_tensor_batch["uid"] = np.array(["one"] * 3, dtype=object)
    found = compute_advantage_for_multi_trajectories(done, ["one_0_0", "one_1_0", "one_2_0"], "bn_gspo", config=None)
    values = found.batch["advantages"].sum(1) / done.batch["response_mask"].sum(1).clamp(min=1)
    assert values.tolist() == pytest.approx([1.0, 0.0, -1.0], abs=1e-5)


def test_services_that_fail_too_often_end_the_run(place: Place) -> None:
    workplace = open_workplace(str(place.loop))
    for _ in range(WATCHED - 1):
        workplace.count(True, "the index is down")
    with pytest.raises(ServiceError, match="64 of a worker's last 64 episodes"):
        workplace.count(True, "the index is down")


def test_a_sampled_picture_token_spoils_the_episode_and_not_the_batch(place: Place) -> None:
    generate = place.server.generate
    pad = place.policy.processor.vocabulary.ids["<|image_pad|>"]

    async def forged(*args: Any, **kwargs: Any) -> Any:
        output = await generate(*args, **kwargs)
        first = "number 0" in place.policy.processor.vocabulary.decode(kwargs["prompt_ids"])
        return output.model_copy(update={"token_ids": [pad, *output.token_ids[1:]]}) if first else output

    place.server.generate = forged  # type: ignore[method-assign]
    done = place.play()
    assert done.non_tensor_batch["trained"].tolist() == [0.0, 1.0, 1.0]


def test_an_episode_longer_than_verls_lengths_does_not_train(place: Place) -> None:
    place.config.actor_rollout_ref.rollout.response_length = 40
    done = place.play()
    assert done.non_tensor_batch["trained"].tolist() == [1.0, 0.0, 0.0]


def test_sampling_is_verls_and_limits_are_the_loops(place: Place) -> None:
    place.config.actor_rollout_ref.rollout.temperature = 0.7
    place.play()
    params = place.server.requests[0]["params"]
    assert params["temperature"] == 0.7
    assert params["stop"] == ["</tool_call>", "</answer>"]
    assert 0 < params["max_tokens"] <= 2500
    assert params["logprobs"] is True


def test_a_server_without_log_probabilities_is_the_users_mistake(place: Place) -> None:
    generate = place.server.generate

    async def mute(*args: Any, **kwargs: Any) -> Any:
        return (await generate(*args, **kwargs)).model_copy(update={"log_probs": None})

    place.server.generate = mute  # type: ignore[method-assign]
    with pytest.raises(UserError, match="calculate_log_probs=true"):
        place.play()


def test_pixel_limits_that_verl_would_size_again_are_the_users_mistake(place: Place, tmp_path: Path) -> None:
    """A picture sized again would have other features than placeholders in the ids."""
    world.write_loop_config(tmp_path, min_pixels=256)
    open_workplace.cache_clear()
    with pytest.raises(InstantiationException, match="needs factor 16, min_pixels >= 4608"):
        place.play()


def test_rows_of_another_dataset_are_the_users_mistake(place: Place) -> None:
    batch = place.rows()
    del batch.non_tensor_batch["vlagent_sample"]
    with pytest.raises(UserError, match=r"data\.custom_cls\.path"):
        asyncio.run(_generate(world.make_worker(place.config, place.server), batch))


def test_the_reward_manager_refuses_episodes_of_another_loop(place: Place) -> None:
    async def ask() -> None:
        await load_reward_manager(place.config, None).run_single(place.rows())

    with pytest.raises(UserError, match="default_agent_loop=vlagent"):
        asyncio.run(ask())


def test_groups_of_verl_become_our_advantages(place: Place) -> None:
    """From questions to advantages through veRL's worker and veRL's trainer function."""
    said = iter("ab" * 100)
    place.server.script = lambda prompt, turn: answer(
        f"a{prompt.split('number ')[1][0]}" if next(said) == "a" else "no"
    )
    done = place.play(samples=4)
    done.batch["token_level_rewards"] = done.batch["rm_scores"]
    done.non_tensor_batch["uid"] = np.repeat(["u0", "u1", "u2"], 4).astype(object)
    keys = [f"u{i // 4}_{i % 4}_0" for i in range(12)]
    found = compute_advantage_for_multi_trajectories(done, keys, "bn_gspo", config=place.config.algorithm)
    values = found.batch["advantages"].sum(1) / done.batch["response_mask"].sum(1)
    right = done.non_tensor_batch["acc"] == 1
    assert 0 < right.sum() < 12
    assert (values.numpy()[right] > 0).all()
    assert (values.numpy()[~right] < 0).all()
    assert float(values.std(unbiased=False)) == pytest.approx(1.0, abs=1e-4)
