"""The checks of what attention and the norms take: values that pass, and values that are refused in whole messages."""

import re

import numpy as np
import pytest
import torch

from residual_edu.old_errors import InvalidInput
from residual_edu.parts import attention_checks, norm_checks

pytestmark = pytest.mark.usefixtures("as_installed")

inf, nan, zeros = float("inf"), float("nan"), torch.zeros
Q, V = zeros(2, 3, 5, 4), zeros(2, 3, 6, 7)  # batch, heads, positions, features
K, M = zeros(2, 1, 6, 4), torch.ones(5, 6, dtype=torch.bool)
ROW = M & (torch.arange(5) != 2)[:, None]
CHECKS = {
    name.removeprefix("check_"): value
    for room in (attention_checks, norm_checks)
    for name, value in vars(room).items()
    if name.startswith("check_") and value.__module__ == room.__name__
}

GOOD = [
    ("normed", zeros(2, 4), 0.0),
    ("several", "n", 2),
    ("merged", Q),
    ("attention", Q, K, V[:1], M, zeros(1, 6), -1.0),
    ("keys", Q, K, V),
    ("heads", "channels", Q, 2),
    ("repeats", Q, 3),
    ("repeats", Q, np.int64(6)),
    ("tables", Q, K[0, 0, :5], K[0, 0, :5]),
    ("as_query", "key", K, Q),
    ("over_scores", "mask", torch.ones(3, 5, 1), Q, K),
    ("spreads", "mask", (1, 5), (2, 3, 5)),
    ("mask", M),
    ("bias", "bias", zeros(2, 2).fill_diagonal_(-inf)),
    ("bias", "bias", torch.tensor([[-1e9, -5.0]])),
    ("room", 3, 5, 8),
    ("last_queries", 3, 3),
]

BAD = [
    ("heads", ("channels", Q, 3), "channels must be divisible by 3 (heads), got 4"),
    ("heads", ("channels", Q, True), "heads must be a whole number, got True"),
    ("heads", ("channels", Q[:0], 2), "x must have no empty axis, got shape (0, 3, 5, 4)"),
    ("heads", ("channels", Q[0, 0], 2), "x must have at least the axes (batch, positions, channels), got shape (5, 4)"),
    ("repeats", (Q, 4), "heads must be divisible by 3 (x's heads), got 4"),
    ("repeats", (Q, 2), "heads must be divisible by 3 (x's heads), got 2"),
    ("repeats", (Q[0], 3), "x must have shape (batch, kv_heads, positions, head_dim), got (3, 5, 4)"),
    ("tables", (Q, K[0, 0], K[0, 0]), "cos must have shape (5, 4), got (6, 4)"),
    ("tables", (Q, K[0, 0, :5], K[0, 0, :1]), "sin must have shape (5, 4), got (1, 4)"),
    ("tables", (V, V[0, 0], V[0, 0]), "head_dim must be divisible by 2 (features come in pairs), got 7"),
    ("normed", (zeros(2, 4), -1.0), "eps must be a finite number, at least 0, got -1.0"),
    ("normed", (zeros(()), 0.0), "x must have at least the axes (features), got shape ()"),
    ("attention", (Q, K, V, M, None, nan), "scale must be a finite number, got nan"),
    (
        "attention",
        (Q, K, V, torch.ones(3, 5, 6, dtype=torch.bool), None, None),
        "mask must have 2 axes or query's 4, got (3, 5, 6); give it an axis of 1 where it is the same for all",
    ),
    (
        "attention",
        (Q, K, V, None, M, None),
        "bias must be floating point, got torch.bool; convert it with bias.float()",
    ),
    ("keys", (Q, K[..., :3], V), "key must have query's 4 features, got shape (2, 1, 6, 3)"),
    ("keys", (Q, K, V[..., :5, :]), "value must have key's 6 positions, got shape (2, 3, 5, 7)"),
    ("keys", (Q[:1], K, V), "key must have axes of 1 or those of (1, 3), got (2, 1)"),
    ("keys", (Q, K[..., :0, :], V[..., :0, :]), "key must have no empty axis, got shape (2, 1, 0, 4)"),
    ("keys", (Q, K.long(), V), "key must be floating point, got torch.int64; convert it with key.float()"),
    (
        "as_query",
        ("key", K.double(), Q),
        "key must be as query is, torch.float32 on cpu, got torch.float64 on cpu; convert it with key.to(query)",
    ),
    ("over_scores", ("mask", zeros(4, 6), Q, K), "mask must have axes of 1 or those of (2, 3, 5, 6), got (4, 6)"),
    ("over_scores", ("mask", zeros(6), Q, K), "mask must have at least the axes (queries, keys), got shape (6,)"),
    ("spreads", ("mask", (2, 1), (1, 5)), "mask must have axes of 1 or those of (1, 5), got (2, 1)"),
    ("spreads", ("mask", (1, 1, 5), (1, 5)), "mask must have axes of 1 or those of (1, 5), got (1, 1, 5)"),
    ("mask", (ROW,), "mask must allow each query at least 1 key, got a row that is all False"),
    (
        "mask",
        (M.long(),),
        "mask must be boolean, True where a query may attend to a key, got torch.int64; "
        "what is added to the scores is given as bias",
    ),
    *[
        ("bias", ("mask", torch.tensor([[0.0, x]])), "mask must hold numbers or minus infinity, got NaN or infinity")
        for x in (nan, inf)
    ],
    *[
        (
            "bias",
            ("mask", torch.tensor([[0, 0], [x, x]])),
            "mask must leave each query at least 1 key, got a row of -1e9 or less",
        )
        for x in (-1e9, -inf, -3e38)
    ],
    ("room", (0, 9, 8), "positions must be at most max_seq_len=8, got 9"),
    ("room", (8, 1, 8), "positions must be at most max_seq_len=8, got 8 before and 1 new ones"),
    ("last_queries", (4, 3), "queries must be the last positions of keys, got 4 queries and 3 keys"),
    ("merged", (zeros(2, 3, 5),), "x must have shape (batch, heads, positions, width), got (2, 3, 5)"),
    (
        "several",
        ("n", 1),
        "n must be at least 2, since the standard deviation divides by n - 1, got 1; LayerNorm takes a single feature",
    ),
    ("room", (-1, 1, 8), "start must be at least 0, got -1"),
    ("room", (0.5, 1, 8), "start must be a whole number, got 0.5"),
]


@pytest.mark.parametrize(("check", "arguments"), [(check, arguments) for check, *arguments in GOOD])
def test_what_is_let_through(check, arguments):
    assert CHECKS[check](*arguments) is None


@pytest.mark.parametrize(("check", "arguments", "message"), BAD)
def test_what_is_refused_and_in_which_words(check, arguments, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        CHECKS[check](*arguments)


@pytest.mark.parametrize("rows", [GOOD, BAD])
def test_every_check_has_a_row(rows):
    assert {check for check, *_ in rows} == set(CHECKS)
