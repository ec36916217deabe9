"""The head that lesson 08a hands over to be mended: three of its lines are wrong, and each may be mended by itself."""

import torch
from torch import Tensor, nn

from residual_edu.parts import rotary_angles, rotate


class Handed(nn.Module):
    """The head as it is handed over."""

    def __init__(self, width: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))

    def turn(self, x: Tensor) -> Tensor:
        """Return x (batch, positions, width), each pair of features rotated by its position's angles."""
        half = x.shape[-1] // 2
        speeds = 100.0 ** (-torch.arange(half) / half)
        angles = torch.arange(x.shape[1])[:, None] * speeds
        cos, sin = (part.repeat_interleave(2, -1) for part in (angles.cos(), angles.sin()))
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-b, a], dim=-1) * sin

    def mask(self, count: int) -> Tensor:
        """Return True where a row may attend to a column: to itself and the window - 1 positions before."""
        ahead = torch.arange(count) - torch.arange(count)[:, None]
        return (ahead <= 0) & (ahead > -self.window)

    def scores(self, h: Tensor) -> Tensor:
        """Return the scores before the mask, (batch, positions, positions)."""
        return self.turn(self.q(h)) @ self.turn(self.k(h)).mT / h.shape[1] ** 0.5

    def weights(self, h: Tensor) -> Tensor:
        """Return the weights, (batch, positions, positions)."""
        return self.scores(h).masked_fill(~self.mask(h.shape[1]), -torch.inf).softmax(dim=1)

    def forward(self, h: Tensor) -> Tensor:
        """Return the weighted means of the values."""
        return self.weights(h) @ self.v(h)


class Turned(Handed):
    """The rotation is mended."""

    def turn(self, x: Tensor) -> Tensor:
        """Return x, the features i and i + half rotated together."""
        return rotate(x, rotary_angles([x.shape[1]], x.shape[2], base=100.0))


class Neighbours(Handed):
    """The rotation is mended the other way: the features 2i and 2i + 1 are a pair."""

    def turn(self, x: Tensor) -> Tensor:
        """Return x, the features 2i and 2i + 1 rotated together."""
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1])[:, None] * 100.0 ** (-torch.arange(half) / half)
        cos, sin = (part.repeat_interleave(2, -1) for part in (angles.cos(), angles.sin()))
        partner = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
        return x * cos + partner * sin


class OneSpeed(Handed):
    """Every pair turns by one radian a position."""

    def turn(self, x: Tensor) -> Tensor:
        """Return x, all of its pairs rotated by the same angle."""
        return rotate(x, torch.arange(x.shape[1]).float()[:, None].expand(-1, x.shape[2] // 2))


class Scaled(Handed):
    """The division is mended."""

    def scores(self, h: Tensor) -> Tensor:
        """Return scores divided by the root of the number of features."""
        return self.turn(self.q(h)) @ self.turn(self.k(h)).mT / h.shape[-1] ** 0.5


class Undivided(Handed):
    """Scores that are not divided."""

    def scores(self, h: Tensor) -> Tensor:
        """Return products."""
        return self.turn(self.q(h)) @ self.turn(self.k(h)).mT


class Rows(Handed):
    """The axis of the softmax is mended."""

    def weights(self, h: Tensor) -> Tensor:
        """Return weights whose rows sum to 1."""
        return self.scores(h).masked_fill(~self.mask(h.shape[1]), -torch.inf).softmax(dim=-1)


class EitherMask(Handed):
    """A mask that allows what either of the two allows."""

    def mask(self, count: int) -> Tensor:
        """Return True where one holds."""
        ahead = torch.arange(count) - torch.arange(count)[:, None]
        return (ahead <= 0) | (ahead > -self.window)


class CausalAlone(Handed):
    """A causal mask without its window."""

    def mask(self, count: int) -> Tensor:
        """Return True up to the diagonal."""
        return torch.ones(count, count).tril().bool()


class OneTooMany(Handed):
    """A window of one too many."""

    def mask(self, count: int) -> Tensor:
        """Return True where both hold, with >= for >."""
        ahead = torch.arange(count) - torch.arange(count)[:, None]
        return (ahead <= 0) & (ahead >= -self.window)


class Unturned(Handed):
    """No positions."""

    def turn(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


def joined(*mended: type[Handed]) -> type[Handed]:
    """Return the head with the mends of all."""
    return type("Mended", (*mended, Handed), {})


Mended = joined(Turned, Scaled, Rows)
