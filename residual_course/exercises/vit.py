"""Exercises on a vision transformer: patches, its forward, and a table of positions that is drowned by them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.checking.exercise import (
    Broken,
    Exercise,
    Mistake,
    Property,
    Unmet,
    close,
    construct,
    draw,
    filled,
    run,
)
from residual_course.datasets import font_letters

Cut = Callable[[Tensor, int], Tensor]


def cut(*order: int, last: int = 1) -> Cut:
    """Return a function that splits height and width, puts the six axes into an order and joins them."""

    def patchify(x: Tensor, p: int) -> Tensor:
        n, c, h, w = x.shape
        y = x.reshape(n, c, h // p, p, w // p, p).permute(0, *order)
        return y.reshape(n, -1, c * p * p) if last else y.reshape(n, c * p * p, -1)

    return patchify


patchify = cut(2, 4, 1, 3, 5)
GRAY, COLOUR = draw(2, 1, 4, 6), draw(2, 3, 8, 12, seed=1)


def pieces(f: Cut, x: Tensor, p: int) -> Tensor:
    """Return an answer's patches."""
    return run(lambda x: f(x, p), x, like=patchify(x, p))


def _numbered(f: Cut) -> None:
    x = torch.arange(16.0).view(1, 1, 4, 4).double()
    close(pieces(f, x, 2)[0, 0], torch.tensor([0.0, 1, 4, 5]).double(), "of 0 to 15 in rows of 4, the first patch")
    close(pieces(f, x, 2)[0, 1], torch.tensor([2.0, 3, 6, 7]).double(), "of 0 to 15 in rows of 4, the second patch")


def _agrees(x: Tensor, *sides: int) -> Callable[[Cut], None]:
    def test(f: Cut) -> None:
        for p in sides:
            close(pieces(f, x, p), patchify(x, p), f"for shape {tuple(x.shape)} and p = {p} the output")

    return test


PATCHIFY = Exercise(
    reference=patchify,
    also_right=(lambda x, p: F.unfold(x, p, stride=p).mT,),
    observe=lambda f: (pieces(f, GRAY, 2), pieces(f, COLOUR, 4)),
    properties=(
        Property("the first patch is the upper left square", _numbered),
        Property("pictures that are not square", _agrees(GRAY, 1, 2)),
        Property("three channels, patches of 4", _agrees(COLOUR, 2, 4)),
    ),
    mistakes=(
        Mistake(
            lambda x, p: x.reshape(len(x), -1, x.shape[1] * p * p),
            "numbers cut off one after the other",
            "A patch has numbers of several rows: split height and width first, then change the order of the axes.",
        ),
        Mistake(cut(4, 2, 1, 3, 5), "patches column by column", "The row of patches comes before the column."),
        Mistake(
            cut(2, 4, 1, 5, 3), "patches that are mirrored at their diagonal", "Within a patch its row comes first."
        ),
        Mistake(cut(2, 4, 3, 5, 1), "channels behind the pixels", "Within a patch the channel comes first."),
        Mistake(
            cut(1, 3, 5, 2, 4, last=0), "pixels before patches", "The order is picture, patch, then the numbers in it."
        ),
        Mistake(cut(3, 5, 1, 2, 4), "pixels that lie p apart", "Axis 2 counts patches and axis 3 the rows in a patch."),
        Mistake(
            lambda x, p: cut(2, 4, 1, 3, 5)(x, p).flip(1), "the patches from the last to the first", "Begin at the top."
        ),
    ),
    hints=(
        "Split the height into (which patch, which row in it), and the width likewise: one `view` with six axes.",
        "The six axes are n, c, patch row, row, patch column, column: `permute` them, then `reshape`.",
    ),
)


class Parts(nn.Module):
    """What the lesson's ViT is made of."""

    def __init__(self, size: int = 16, patch: int = 4, channels: int = 1, classes: int = 10, **other: Any) -> None:
        super().__init__()
        self.patch, width, self.block = patch, 8, other
        self.embed = nn.Linear(channels * patch**2, width)
        self.table = nn.Parameter(torch.randn(1, (size // patch) ** 2, width))
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        self.blocks = nn.ModuleList(nn.Identity() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)


class Mix(nn.Module):
    """A block that lets tokens exchange what they hold, whatever their order."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each token, bent by the mean of all."""
        return x + torch.tanh(x * x.mean(dim=1, keepdim=True))


Forward = Callable[[Any, Tensor], Tensor]


def made(forward: Forward) -> type[Parts]:
    """Return a ViT with this forward."""
    return type("ViT", (Parts,), {"forward": forward})


def tokens(net: Any, x: Tensor, table: float = 1, patch: int | None = None) -> Tensor:
    """Return the patches with their positions, and CLS behind them."""
    x = net.embed(patchify(x, patch or net.patch)) + table * net.table
    return torch.cat([x, net.cls.expand(len(x), -1, -1)], dim=1)


def mixed(net: Any, x: Tensor) -> Tensor:
    """Return what the blocks make of the tokens."""
    for block in net.blocks:
        x = block(x)
    return x


def named(net: Any, x: Tensor) -> Tensor:
    """Return the scores."""
    return net.head(net.norm(mixed(net, tokens(net, x))[:, -1]))


VIT, X = made(named), draw(3, 1, 16, 16)


def network(maker: Any, **sizes: int) -> nn.Module:
    """Return a network of an answer, filled with numbers, whose blocks are the check's."""
    torch.manual_seed(0)
    net = construct(maker, **sizes)
    for name in ("embed", "table", "cls", "blocks", "norm", "head"):
        if not hasattr(net, name):
            raise Unmet(f"it has no `self.{name}`; leave `__init__` as it was")
    net.blocks = nn.ModuleList([Mix(), Mix()])
    return filled(net)


def scores(maker: Any, x: Tensor = X, **sizes: int) -> Tensor:
    """Return an answer's scores."""
    net = network(maker, **sizes)
    return run(net, x, like=torch.zeros(len(x), sizes.get("classes", 10)).double())


def right_scores(maker: Any, x: Tensor = X, **sizes: int) -> Tensor:
    """Return the right scores, with the answer's own parts."""
    return named(network(maker, **sizes), x)


def _shape(maker: Any) -> None:
    scores(maker)


def _scores(maker: Any) -> None:
    close(scores(maker), right_scores(maker), "the score")


def _other_sizes(maker: Any) -> None:
    x, sizes = draw(2, 3, 12, 12, seed=2), {"size": 12, "patch": 6, "channels": 3, "classes": 4}
    close(scores(maker, x, **sizes), right_scores(maker, x, **sizes), "for colour pictures of 12 by 12 the score")


def _learns(maker: Any) -> None:
    net = network(maker)
    with torch.enable_grad():
        net(X).square().sum().backward()
    for name, p in net.named_parameters():
        if p.grad is None or not p.grad.any():
            raise Broken(f"no gradient reaches `{name}`")


def _cls_first(net: Any, x: Tensor) -> Tensor:
    x = net.embed(patchify(x, net.patch)) + net.table
    return net.head(net.norm(mixed(net, torch.cat([net.cls.expand(len(x), -1, -1), x], dim=1))[:, 0]))


VIT_FORWARD = Exercise(
    reference=VIT,
    also_right=(made(_cls_first),),
    observe=lambda maker: scores(maker) - right_scores(maker),
    properties=(
        Property("ten scores for each picture", _shape),
        Property("the scores of the CLS token", _scores),
        Property("other sizes, three channels", _other_sizes),
        Property("a gradient for every parameter", _learns, ()),
    ),
    mistakes=(
        Mistake(
            made(lambda net, x: net.head(net.norm(mixed(net, tokens(net, x, table=0))[:, -1]))),
            "patches without their positions",
            "Add the table to the embedded patches.",
        ),
        Mistake(
            made(lambda net, x: net.head(net.norm(mixed(net, tokens(net, x))[:, 0]))),
            "the scores of the first patch",
            "Read the token behind the patches: `x[:, -1]`.",
        ),
        Mistake(
            made(lambda net, x: net.head(net.norm(mixed(net, tokens(net, x)[:, :-1])[:, -1]))),
            "no CLS token, and the scores of the last patch",
            "Append `self.cls` behind the patches with `torch.cat`.",
        ),
        Mistake(
            made(lambda net, x: net.head(net.norm(mixed(net, tokens(net, x)).mean(dim=1)))),
            "the mean of all tokens",
            "Only the CLS token is read here.",
        ),
        Mistake(
            made(lambda net, x: net.head(mixed(net, tokens(net, x))[:, -1])),
            "scores without the norm",
            "`self.norm` stands before `self.head`.",
        ),
        Mistake(
            made(lambda net, x: net.head(net.norm(tokens(net, x)[:, -1]))),
            "tokens that pass no block",
            "Loop over `self.blocks`, and keep what each returns.",
        ),
        Mistake(
            made(lambda net, x: net.head(net.norm(net.blocks[0](tokens(net, x))[:, -1]))),
            "one block alone",
            "Each block gets what the one before has made.",
        ),
    ),
    hints=(
        "Five lines: patches with their positions, CLS behind them, the blocks, and the scores of one token.",
        "`self.cls.expand(len(x), -1, -1)` is one CLS token for each picture; `torch.cat(..., dim=1)` joins tokens.",
    ),
)

Maker = Callable[[], Any]
LETTERS = font_letters(64, 1)[0]
BAND = 3  # times one size may be the other


def sizes_of(maker: Maker) -> tuple[float, float]:
    """Return how large the embedded patches and the table of an answer's network are."""
    torch.manual_seed(0)
    net = maker()
    if not all(hasattr(net, name) for name in ("embed", "table")):
        raise Broken("it did not return a ViT with `embed` and `table`")
    with torch.no_grad():
        patches = net.embed(patchify(LETTERS, 4))
        if net.table.numel() != patches[0].numel():
            raise Unmet("its table has no row of its own for each of the 16 patches")
        return tuple(each.square().mean().sqrt().item() for each in (patches, net.table))


def _heard(maker: Maker) -> None:
    patches, table = sizes_of(maker)
    if table * BAND < patches:
        raise Unmet(f"the patches have size {patches:.2g}, and the table {table:.2g}: it is drowned")
    if patches * BAND < table:
        raise Unmet(f"the table has size {table:.2g}, and the patches {patches:.2g}: now they are drowned")


def _rows_differ(maker: Maker) -> None:
    torch.manual_seed(0)
    table = maker().table.flatten(0, -2)
    if len(table.unique(dim=0)) < len(table):
        raise Unmet("some places have equal rows in the table, and cannot be told apart")


def _table_learns(maker: Maker) -> None:
    if not maker().table.requires_grad:
        raise Unmet("the table does not learn")


def with_table(std: float, patches: float = 1, table: Callable[[Tensor], Tensor] = lambda t: t) -> Maker:
    """Return a maker of networks with such a table."""

    def maker() -> Any:
        net = Parts()
        with torch.no_grad():
            net.table.copy_(table(net.table * std))
            net.embed.weight.mul_(patches)
            net.embed.bias.mul_(patches)
        return net

    return maker


def frozen() -> Any:
    """Return a network whose table is loud enough and does not learn."""
    net = with_table(0.3)()
    net.table.requires_grad_(False)
    return net


HEARD_POSITIONS = Exercise(
    reference=with_table(0.3),
    also_right=(with_table(0.15), with_table(0.5), with_table(0.02, patches=0.05)),
    observe=lambda maker: (*sizes_of(maker), (net := maker()).table.requires_grad, len(net.table.unique(dim=1)[0])),
    properties=(
        Property("table and patches are of about the same size", _heard),
        Property("each place has a row of its own", _rows_differ),
        Property("the table learns", _table_learns, ()),
    ),
    mistakes=(
        Mistake(with_table(0.02), "the table of before", "Print both sizes, then choose a larger `std`."),
        Mistake(with_table(0.05), "a table that is still too quiet", "The patches have a size of about 0.3."),
        Mistake(with_table(0.002), "a table that is quieter still", "Choose a larger `std`, not a smaller one."),
        Mistake(with_table(0), "a table of zeros", "Then no place differs from another at the start."),
        Mistake(with_table(3), "a table ten times as loud as the patches", "Now the patches are drowned: choose less."),
        Mistake(
            with_table(0.3, table=lambda t: t[:, :1].expand_as(t)),
            "one row for all places",
            "Let each place begin with numbers of its own.",
        ),
        Mistake(frozen, "a table that is fixed", "Leave `requires_grad` as it was."),
    ),
    hints=(
        "Two things that are added should be of about the same size if both are to be heard.",
        "The size is `x.square().mean().sqrt()`, of `net.embed(patchify(x, 4))` and of `net.table`.",
    ),
)

EXERCISES = {"patchify": PATCHIFY, "vit_forward": VIT_FORWARD, "heard_positions": HEARD_POSITIONS}
