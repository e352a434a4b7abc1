import numpy as np
import torch
from PIL import Image

from vlagent.model.load import Policy
from vlagent.model.logprobs import ScoredRow, collate, forward_logits, stack_pixels
from vlagent.model.tiny import make_policy
from vlagent.model.vision import stock_vision
from vlagent.train.stage0.data import NOTHING, Row
from vlagent.train.stage0.decoder import batches
from vlagent.train.stage0.forward import augmented, look, own_logits, patches_of


def tiny() -> Policy:
    policy = make_policy()
    with torch.no_grad():
        for weight in policy.model.model.visual.deepstack_merger_list.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    return policy


def pictures(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def test_patches_are_those_of_the_image_processor() -> None:
    processor, pixels = tiny().processor, pictures(3, 64, 128)
    theirs = torch.cat([processor.pixels(Image.fromarray(one)).patches for one in pixels])
    assert torch.allclose(patches_of(torch.from_numpy(pixels).float(), 8, 2), theirs, atol=1e-6)


def test_features_are_those_of_the_model() -> None:
    policy, pixels = tiny(), pictures(3, 64, 128)
    stock_vision(policy.model)
    patches, grid = stack_pixels([policy.processor.pixels(Image.fromarray(one)) for one in pixels])
    theirs = policy.model.model.get_image_features(patches, grid, return_dict=True)
    ours = look(policy.model, torch.from_numpy(pixels).float())
    assert torch.allclose(ours.merged.flatten(0, 1), torch.cat(list(theirs.pooler_output)), atol=1e-5)
    assert torch.allclose(ours.deep[0].flatten(0, 1), torch.cat(list(theirs.deepstack_features[0])), atol=1e-5)


def test_logits_are_those_of_the_whole_model() -> None:
    policy = tiny()
    pixels = [pictures(1, 96, 96, 1)[0], pictures(1, 64, 128, 2)[0]]
    vocabulary = policy.processor.vocabulary
    start, pad, end = (vocabulary.ids[f"<|{name}|>"] for name in ("vision_start", "image_pad", "vision_end"))
    rows = []
    for shown in (pixels, []):
        ids = list(vocabulary.encode("user\n"))
        for one in shown:
            ids += [start, *[pad] * (one.shape[0] * one.shape[1] // 256), end]
        ids += vocabulary.encode("what is it?")
        own = np.arange(len(ids)) >= len(ids) - 4
        rows.append((np.array(ids), own, shown))
    theirs = collate(
        [
            ScoredRow(ids, own, [policy.processor.pixels(Image.fromarray(one)) for one in shown])
            for ids, own, shown in rows
        ],
        policy.processor,
    )
    before = torch.zeros_like(theirs.own)
    before[:, :-1] = theirs.own[:, 1:]
    expected = forward_logits(policy.model, theirs, before)
    seen = [look(policy.model, torch.from_numpy(one[None]).float()) for one in pixels]
    given = [
        Row(ids, own, tuple((one.shape[0] // 16, one.shape[1] // 16) for one in shown), np.zeros((0, 5), np.int16))
        for ids, own, shown in rows
    ]
    logits, targets = own_logits(
        policy.model,
        given,
        torch.cat([part.merged[0] for part in seen]),
        [torch.cat([part.deep[0][0] for part in seen])],
    )
    assert torch.allclose(logits, expected, atol=1e-4)
    assert targets.tolist() == theirs.input_ids[theirs.own].tolist()


def test_light_changes_and_the_content_stays() -> None:
    pixels = np.full((4, 16, 16, 3), 128, np.uint8)
    bright = augmented(pixels, torch.Generator().manual_seed(0))
    assert bright.shape == (4, 16, 16, 3)
    assert float(bright.min()) >= 0
    assert float(bright.max()) <= 255
    assert float(bright.mean((1, 2)).std()) > 3
    assert torch.equal(bright, augmented(pixels, torch.Generator().manual_seed(0)))


def test_rows_of_similar_length_go_together_and_none_is_lost() -> None:
    lengths = [10, 200, 12, 190, 11, 205]
    rows = [Row(np.zeros(n, np.int64), np.ones(n, np.bool_), (), np.full((0, 5), NOTHING, np.int16)) for n in lengths]
    groups = [[len(row.ids) for row in group] for group in batches(rows)]
    assert groups == [[10, 11, 12], [190, 200, 205]]
