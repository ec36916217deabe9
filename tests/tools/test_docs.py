"""docs/glossary.md and docs/coming_from.md: every name of this library exists, and takes the arguments shown."""

import inspect
import math
import re
from pathlib import Path
from pkgutil import resolve_name

import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
GLOSSARY, COMING_FROM = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("glossary", "coming_from")
)
CODE = re.compile(r"`([^`]+)`")
RENAMED_KEYS = re.findall(r"`([\w.]+)` becomes `([\w.]+)`", COMING_FROM)


def tables(text):
    """Each table of a page: its headings, and its rows."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        yield head, rows


def named(name):
    """What ``name`` stands for, in the package or by its full path."""
    return resolve_name(name if name.startswith("residual_edu.") else f"residual_edu.{name}")


def arguments(name):
    return inspect.signature(named(name)).parameters


SIZES = [row for head, rows in tables(GLOSSARY) if "means" in head for row in rows]
HERE = [
    code
    for head, rows in [*tables(GLOSSARY), *tables(COMING_FROM)]
    for row in rows
    if "here" in head and "means" not in head
    for code in CODE.findall(row[head.index("here")])
]
CALLS = [match.groups() for match in map(re.compile(r"([\w.]+)\(([\w, ]*)\)").fullmatch, HERE) if match]
KEYS = {key for pair in RENAMED_KEYS for key in pair}  # of state dicts, and no names of the package
NAMES = [code for code in HERE if re.fullmatch(r"[A-Z][\w.]+|residual_edu[\w.]+|[a-z]+(?:_[a-z]+)+", code)]


@pytest.mark.parametrize(("word", "users"), [(CODE.findall(row[0])[0], CODE.findall(row[2])) for row in SIZES])
def test_a_word_for_a_size_is_an_argument_of_each_class_that_is_named(word, users):
    assert users and [user for user in users if word not in arguments(user)] == []


@pytest.mark.parametrize(("name", "shown"), [call for call in CALLS if call[0] != "forward"])
def test_a_call_that_is_shown_has_its_arguments(name, shown):
    assert [word for word in re.findall(r"\w+", shown) if word not in arguments(name)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in KEYS])
def test_a_name_that_is_shown_exists(name):
    named(name)


def dit(x, c, p, heads, eps=1e-6):
    """A DiT block (Peebles & Xie, 2023) in numbers, from the names of its own state dict."""

    def linear(name, x):
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    def modulated(x, shift, scale):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * (1 + scale) + shift

    def attention(x):
        q, k, v = (z.unflatten(-1, (heads, -1)).transpose(1, 2) for z in linear("attn.qkv", x).chunk(3, dim=-1))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).exp()
        return linear("attn.proj", (weights / weights.sum(-1, keepdim=True) @ v).transpose(1, 2).flatten(2))

    def mlp(x):
        h = linear("mlp.fc1", x)
        gelu = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        return linear("mlp.fc2", gelu)

    six = linear("adaLN_modulation.1", c / (1 + torch.exp(-c)))[:, None].chunk(6, dim=-1)
    x = x + six[2] * attention(modulated(x, *six[:2]))
    return x + six[5] * mlp(modulated(x, *six[3:5]))


def test_the_dit_block_that_is_shown_is_dits_in_values_and_gradients():
    scope = {}
    (source,) = re.findall(r"^```python\n(.*?)^```", COMING_FROM, re.M | re.S)
    exec(source, scope)
    block = scope["dit_block"](12, 3).double()
    for p in block.parameters():
        nn.init.normal_(p, std=0.3)
    theirs = {new: old for old, new in RENAMED_KEYS if "." in old}
    parameters = {
        ".".join([theirs[name.rpartition(".")[0]], name.rpartition(".")[2]]): p for name, p in block.named_parameters()
    }
    x, c = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 5, 12), (2, 12)))
    probe, inputs = torch.randn(2, 5, 12, dtype=torch.float64), [x, c, *block.parameters()]
    ours, wanted = block(x, c), dit(x, c, parameters, heads=3)
    torch.testing.assert_close(ours, wanted, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(ours, inputs, probe), torch.autograd.grad(wanted, inputs, probe), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)
