import copy
import itertools

import pytest
import torch

from residual_edu import InvalidInput, PositionEmbedding, PositionEmbeddingND, parameter_groups

pytestmark = pytest.mark.usefixtures("as_installed")


@pytest.mark.parametrize(("space", "longest"), [((4,), 6), ((3, 2), (3, 5)), ((2, 1, 3), [2, 2, 4])])
def test_each_axis_looks_up_its_share_of_the_channels(space, longest):
    made, x = PositionEmbedding(6, len(space), longest).double(), torch.randn(2, *space, 6).double()
    y, share = made(x), 6 // len(space)
    assert y.shape == x.shape
    for place in itertools.product(*map(range, space)):
        rows = [table.weight[i] for table, i in zip(made.data_embeddings.values(), place, strict=True)]
        for axis, row in enumerate(rows):
            assert all(one[place][axis * share :][:share].equal(row) for one in y)


def test_the_gradient_of_a_row_is_summed_over_all_places_that_look_it_up():
    made, g = PositionEmbedding(4, 2, (5, 7)), torch.randn(2, 3, 4, 4)
    made(torch.zeros(2, 3, 4, 4)).backward(g)
    torch.testing.assert_close(made.data_embeddings.x.weight.grad[:3], g.sum((0, 2))[:, :2])
    torch.testing.assert_close(made.data_embeddings.y.weight.grad[:4], g.sum((0, 1))[:, 2:])
    assert not made.data_embeddings.x.weight.grad[3:].any()


def test_names_sizes_and_weight_decay():
    made = PositionEmbedding(6, 3, 4)
    assert list(made.state_dict()) == [f"data_embeddings.{axis}.weight" for axis in "xyz"]
    assert (made.embedding_dim, made.data_dim, made.max_dim_lengths) == (6, 3, (4, 4, 4))
    decayed, spared = parameter_groups(copy.deepcopy(made), 0.1)
    assert not decayed["params"] and len(spared["params"]) == 3
    assert PositionEmbeddingND is PositionEmbedding


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dtype_of_the_signal(dtype):
    assert PositionEmbedding(4, 1, 5)(torch.zeros(1, 5, 4, dtype=dtype)).dtype == dtype


def test_compile(compiled):
    made, x = PositionEmbedding(6, 2, 4), torch.randn(2, 3, 4, 6)
    assert compiled(made)(x).equal(made(x))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PositionEmbedding(8, 3, 5), "data_dim must divide 8, got 3"),
        (
            lambda: PositionEmbedding(6, 2, 5)(torch.zeros(2, 4, 6)),
            "x must be floating point of shape .batch, x, y, 6.",
        ),
        (lambda: PositionEmbedding(1, 1, 5)(torch.zeros(2, 4, 6)), "x must be floating point of shape .batch, x, 1."),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=f"^{words}"):
        call()
