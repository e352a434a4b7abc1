import numpy as np
import torch

from vlagent.train.stage0.codes import AMPLITUDE, Codes
from vlagent.train.stage0.data import CROP, GROUPS, NOTHING, OVERVIEW
from vlagent.train.stage0.vision import flipped

CODES = Codes(128)


def labelled(*tokens: tuple[int, int, int, int, int]) -> torch.Tensor:
    return torch.tensor([tokens])


def exact(labels: torch.Tensor) -> torch.Tensor:
    features = torch.zeros(*labels.shape[:2], 128)
    for group, directions in enumerate(CODES.groups):
        held = labels[..., group]
        features[held >= 0] += AMPLITUDE * directions[held[held >= 0]]
    return features


def test_directions_are_orthonormal_and_the_same_every_time() -> None:
    everything = torch.cat([*CODES.groups, CODES.rest])
    assert torch.allclose(everything @ everything.T, torch.eye(128), atol=1e-5)
    assert torch.equal(CODES.groups[2], Codes(128).groups[2])
    assert [len(group) for group in CODES.groups] == list(GROUPS.values())


def test_the_loss_prefers_the_right_code_to_a_wrong_one_and_to_silence() -> None:
    labels = labelled((2, 5, 7, NOTHING, NOTHING), (NOTHING,) * 5)
    wrong = labelled((3, 5, 7, NOTHING, NOTHING), (NOTHING,) * 5)
    right = float(CODES.loss(exact(labels), labels, OVERVIEW))
    assert right < 0.2
    assert float(CODES.loss(exact(wrong), labels, OVERVIEW)) > right + 2
    assert float(CODES.loss(torch.zeros(1, 2, 128), labels, OVERVIEW)) > right + 2


def test_a_token_that_shows_nothing_must_be_silent() -> None:
    labels = labelled((NOTHING,) * 5)
    assert float(CODES.loss(torch.zeros(1, 1, 128), labels, CROP)) == 0
    loud = exact(labelled((NOTHING, NOTHING, NOTHING, 4, NOTHING)))
    assert abs(float(CODES.loss(loud, labels, CROP)) - 0.6 * AMPLITUDE**2) < 1e-4


def test_a_code_of_another_group_costs_a_little() -> None:
    labels = labelled((NOTHING,) * 5)
    colour = exact(labelled((1, NOTHING, NOTHING, NOTHING, NOTHING)))
    assert abs(float(CODES.loss(colour, labels, CROP)) - 0.02 * AMPLITUDE**2) < 1e-4


def test_exact_codes_are_read_back() -> None:
    labels = labelled((NOTHING, NOTHING, NOTHING, 4, NOTHING), (NOTHING, NOTHING, NOTHING, 4, 9))
    assert CODES.read(exact(labels), 3).tolist() == [4]
    assert CODES.right(exact(labels), labels, 4).tolist() == [True]


def test_imitated_codes_are_mostly_right_and_noise_is_an_option() -> None:
    labels = np.full((400, 5), NOTHING, np.int16)
    labels[:200, 3] = np.arange(200) % 16
    quiet = CODES.imitate(labels, 0.0, torch.Generator().manual_seed(0))
    assert torch.equal(quiet[200:], torch.zeros(200, 128))
    named = (quiet[:200] @ CODES.groups[3].T).argmax(-1)
    assert (named == torch.arange(200) % 16).all()
    noisy = CODES.imitate(labels, 0.2, torch.Generator().manual_seed(0))
    assert abs(float(noisy[200:].std()) - 0.2) < 0.01


def test_a_mirrored_overview_has_mirrored_places() -> None:
    pixels = np.zeros((1, 96, 96, 3), np.uint8)
    pixels[0, :16, :16] = 255
    labels = np.full((1, 36, 5), NOTHING, np.int16)
    labels[0, 0, :3] = (4, 2, 3)
    seen = set()
    for seed in range(12):
        turned, moved = flipped(pixels, labels, np.random.default_rng(seed))
        at = int(np.flatnonzero(moved[0, :, 0] == 4)[0])
        row, column = divmod(at, 6)
        assert turned[0, row * 16, column * 16, 0] == 255
        assert tuple(moved[0, at, :3]) == (4, 2 if column == 0 else 10, 3 if row == 0 else 13)
        seen.add((row, column))
    assert len(seen) == 4
    assert labels[0, 0, 1] == 2
