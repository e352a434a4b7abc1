import torch
from torch import nn

from vlagent.train.muon import MatrixAndRest, Muon, is_hidden_matrix, orthogonal, warm_then_linear


def test_orthogonalised_matrices_keep_their_directions_and_lose_their_scales() -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((2, 6, 10), (2, 10, 6)):
        before = torch.randn(shape, generator=generator)
        values = torch.linalg.svdvals(orthogonal(before))
        assert values.min() > 0.5
        assert values.max() < 1.3
        assert torch.linalg.svdvals(before).max() > 3


def test_one_muon_step_moves_along_the_orthogonalised_gradient() -> None:
    weight = nn.Parameter(torch.eye(4))
    weight.grad = torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    Muon([weight], lr=0.1, weight_decay=0.0).step()
    moved = torch.eye(4) - weight.detach()
    assert torch.allclose(moved, torch.diag(moved.diagonal()), atol=1e-4)
    assert (moved.diagonal() > 0.05).all()
    assert (moved.diagonal() < 0.13).all()


def test_weight_decay_shrinks_a_matrix() -> None:
    kept, shrunk = nn.Parameter(torch.eye(4)), nn.Parameter(torch.eye(4))
    for weight, decay in ((kept, 0.0), (shrunk, 1.0)):
        weight.grad = torch.zeros(4, 4)
        Muon([weight], lr=0.1, weight_decay=decay).step()
    assert torch.equal(kept.detach(), torch.eye(4))
    assert torch.allclose(shrunk.detach(), 0.9 * torch.eye(4))


def test_only_matrices_of_blocks_are_hidden() -> None:
    matrix, vector = torch.zeros(2, 2), torch.zeros(2)
    assert is_hidden_matrix("model.language_model.layers.0.mlp.up_proj.weight", matrix)
    assert is_hidden_matrix("model.visual.blocks.1.attn.qkv.weight", matrix)
    assert not is_hidden_matrix("model.language_model.embed_tokens.weight", matrix)
    assert not is_hidden_matrix("model.visual.blocks.1.norm1.weight", vector)


def test_both_optimisers_follow_one_rate_and_resume_from_their_state() -> None:
    def fresh() -> tuple[nn.Parameter, nn.Parameter, MatrixAndRest]:
        matrix, bias = nn.Parameter(torch.eye(3)), nn.Parameter(torch.ones(3))
        named = [("language_model.layers.0.q", matrix), ("bias", bias)]
        return matrix, bias, MatrixAndRest(named, 0.01, 0.02)

    def advance(matrix: nn.Parameter, bias: nn.Parameter, optimiser: MatrixAndRest, rate: float) -> None:
        ((matrix @ torch.arange(9.0).view(3, 3)).sum() + (bias**2).sum()).backward()
        optimiser.step(rate)

    one = fresh()
    advance(*one, 0.0)
    assert torch.equal(one[0].detach(), torch.eye(3))
    advance(*one, 1.0)
    other = fresh()
    with torch.no_grad():
        other[0].copy_(one[0])
        other[1].copy_(one[1])
    other[2].load_state_dict(one[2].state_dict())
    advance(*one, 1.0)
    advance(*other, 1.0)
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])


def test_the_rate_warms_up_and_comes_down() -> None:
    assert warm_then_linear(0, 1000) == 1 / 30
    assert warm_then_linear(30, 1000) > 0.97
    assert abs(warm_then_linear(1000, 1000) - 0.08) < 1e-9
