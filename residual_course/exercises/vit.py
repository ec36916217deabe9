"""Exercises on a vision transformer: patches, its forward, and a table of positions that is drowned by them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from residual_course.checking.exercise import Broken, Exercise, Mistake, Property, Unmet, close, draw, filled, run
from residual_course.checking.gradients import all_learn
from residual_course.checking.properties import construct
from residual_course.datasets import font_letters

Cut = Callable[[Tensor, int], Tensor]


def cut(*order: int) -> Cut:
    """Return a function that splits height and width, puts the six axes into an order and joins them."""

    def patchify(x: Tensor, p: int) -> Tensor:
        n, c, h, w = x.shape
        return x.reshape(n, c, h // p, p, w // p, p).permute(0, *order).reshape(n, -1, c * p * p)

    return patchify


patchify = cut(2, 4, 1, 3, 5)
GRAY, COLOUR = draw(2, 1, 4, 6), draw(2, 3, 8, 12, seed=1)


def _pieces(f: Cut, x: Tensor, p: int) -> Tensor:
    return run(lambda x: f(x, p), x, like=patchify(x, p))


def _numbered(f: Cut) -> None:
    found = _pieces(f, torch.arange(16.0).view(1, 1, 4, 4).double(), 2)[0, :2]
    wanted = torch.tensor([[0.0, 1, 4, 5], [2, 3, 6, 7]]).double()
    close(found, wanted, "of 0 to 15 in rows of 4, the number in the first two patches")


def _agrees(f: Cut) -> None:
    for x, p in ((GRAY, 1), (GRAY, 2), (COLOUR, 2), (COLOUR, 4)):
        close(_pieces(f, x, p), patchify(x, p), f"for shape {tuple(x.shape)} and p = {p} the output")


PATCHIFY = Exercise(
    reference=patchify,
    observe=lambda f: (_pieces(f, GRAY, 2), _pieces(f, COLOUR, 4)),
    properties=(
        Property("the first patch is the upper left square", _numbered),
        Property("pictures that are not square, of one channel and of three", _agrees),
    ),
    mistakes=(
        Mistake(
            lambda x, p: x.reshape(len(x), -1, x.shape[1] * p * p),
            "numbers cut off one after the other",
            "A patch has numbers of several rows: split height and width first, then change the order of the axes.",
        ),
        Mistake(cut(4, 2, 1, 3, 5), "patches column by column", "The row of patches comes before the column."),
        Mistake(cut(2, 4, 3, 5, 1), "channels behind the pixels", "Within a patch the channel comes first."),
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


class _Mix(nn.Module):
    """A block that lets tokens exchange what they hold, whatever their order."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(x * x.mean(dim=1, keepdim=True))


def made(read: Callable[[Any, Tensor], Tensor], table: float = 1) -> type[Parts]:
    """Return a ViT whose scores are ``read(net, x)`` of what the blocks make, with so much of its table."""

    def forward(net: Any, x: Tensor) -> Tensor:
        x = net.embed(patchify(x, net.patch)) + table * net.table
        x = torch.cat([x, net.cls.expand(len(x), -1, -1)], dim=1)
        for block in net.blocks:
            x = block(x)
        return read(net, x)

    return type("ViT", (Parts,), {"forward": forward})


def _last(net: Any, x: Tensor) -> Tensor:
    return net.head(net.norm(x[:, -1]))


VIT, X = made(_last), draw(3, 1, 16, 16)


def _network(maker: Any, **sizes: int) -> nn.Module:
    torch.manual_seed(0)
    net = construct(maker, **sizes)
    for name in ("embed", "table", "cls", "blocks", "norm", "head"):
        if not hasattr(net, name):
            raise Unmet(f"it has no `self.{name}`; leave `__init__` as it was")
    net.blocks = nn.ModuleList([_Mix(), _Mix()])
    return filled(net)


def scores(maker: Any, x: Tensor = X, **sizes: int) -> tuple[Tensor, Tensor]:
    """Return an answer's scores, and the right ones with the answer's own parts."""
    net = _network(maker, **sizes)
    found = run(net, x, like=torch.zeros(len(x), sizes.get("classes", 10)).double())
    return found, VIT.forward(net, x)


def _scores(maker: Any) -> None:
    close(*scores(maker), "the score")


def _other_sizes(maker: Any) -> None:
    found = scores(maker, draw(2, 3, 12, 12, seed=2), size=12, patch=6, channels=3, classes=4)
    close(*found, "for colour pictures of 12 by 12 the score")


VIT_FORWARD = Exercise(
    reference=VIT,
    observe=lambda maker: torch.sub(*scores(maker)),
    properties=(
        Property("the scores of the CLS token, ten for each picture", _scores),
        Property("other sizes, three channels", _other_sizes),
        Property("a gradient for every parameter", lambda maker: all_learn(_network(maker), X), ()),
    ),
    mistakes=(
        Mistake(made(_last, table=0), "patches without their positions", "Add the table to the embedded patches."),
        Mistake(
            made(lambda net, x: net.head(net.norm(x[:, 0]))),
            "the scores of the first patch",
            "Read the token behind the patches: `x[:, -1]`.",
        ),
        Mistake(
            made(lambda net, x: net.head(net.norm(x.mean(dim=1)))),
            "the mean of all tokens",
            "Only the CLS token is read here.",
        ),
        Mistake(
            made(lambda net, x: net.head(x[:, -1])), "scores without the norm", "`self.norm` stands before `self.head`."
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


def _rows(maker: Maker) -> None:
    torch.manual_seed(0)
    rows = maker().table.flatten(0, -2)
    if len(rows.unique(dim=0)) < len(rows):
        raise Unmet("some places have equal rows in the table, and cannot be told apart")
    if not rows.requires_grad:
        raise Unmet("the table does not learn")


def with_table(std: float, rows: int = 16) -> Maker:
    """Return a maker of networks with such a table, of which so many rows are drawn."""

    def maker() -> Any:
        net = Parts()
        net.table.data = std * net.table.data[:, torch.arange(16) % rows]
        return net

    return maker


HEARD_POSITIONS = Exercise(
    reference=with_table(0.3),
    observe=lambda maker: (*sizes_of(maker), len(maker().table.unique(dim=1)[0])),
    properties=(
        Property("table and patches are of about the same size", _heard),
        Property("each place has a row of its own, which learns", _rows, ()),
    ),
    mistakes=(
        Mistake(with_table(0.02), "the table of before", "Print both sizes, then choose a larger `std`."),
        Mistake(with_table(3), "a table ten times as loud as the patches", "Now the patches are drowned: choose less."),
        Mistake(with_table(0.3, rows=1), "one row for all places", "Let each place begin with numbers of its own."),
    ),
    hints=(
        "Two things that are added should be of about the same size if both are to be heard.",
        "The size is `x.square().mean().sqrt()`, of `net.embed(patchify(x, 4))` and of `net.table`.",
    ),
)

EXERCISES = {"patchify": PATCHIFY, "vit_forward": VIT_FORWARD, "heard_positions": HEARD_POSITIONS}
