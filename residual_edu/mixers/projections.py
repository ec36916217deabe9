r"""The linear maps around a mixer: into query, key and value, or one signal, and out.

.. math:: y = W_o \, \mathrm{mixer}(W_q x, \, W_k x, \, W_v x)

In cross-attention :math:`W_k` and :math:`W_v` map a condition instead.
Vaswani et al., 2017, https://arxiv.org/abs/1706.03762
"""

from functools import partial
from inspect import signature

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import check_shape
from residual_edu.parts.flop_count import Shape, Signal, count_positions, flop_count
from residual_edu.parts.start import InitMethod, init_weight

Condition = Float[Tensor, "#batch *elsewhere channels"]


class QKVSequenceMixer(nn.Module):
    """Project a signal to the mixer's inputs, mix its positions, project the result.

    Args:
        hidden_dim: number of channels.
        mixer_cfg: what to build (``config.build``): ``forward(query, key, value, *,
            conditioning)`` (attention, Hyena), or ``forward(x, *, conditioning)``.
        qkv_bias, out_proj_bias: whether the input and the output map have a bias.
        init_method_in, init_method_out: called with ``hidden_dim``, return a function
            that fills the weight of a map; its bias becomes 0. None: torch's start.
    """

    def __init__(
        self,
        hidden_dim: int,
        mixer_cfg: Spec,
        qkv_bias: bool = False,
        out_proj_bias: bool = False,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.init_method_in, self.init_method_out = init_method_in, init_method_out
        self.mixer = build(mixer_cfg)
        self.signals = count_signals(self.mixer)
        qkv = nn.Linear(hidden_dim, self.signals * hidden_dim, bias=qkv_bias)
        self.qkv_proj = init_weight(qkv, init_method_in, hidden_dim)
        out = nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias)
        self.out_proj = init_weight(out, init_method_out)

    def reset_parameters(self) -> None:
        """Fill both maps again, where there is an ``init_method``."""
        init_weight(self.qkv_proj, self.init_method_in, self.hidden_dim)
        init_weight(self.out_proj, self.init_method_out)

    def forward(self, x: Signal, *, conditioning: Tensor | None = None) -> Signal:
        """Mix the positions of ``x``; ``conditioning`` is passed to the mixer."""
        signals = self.qkv_proj(x).chunk(self.signals, dim=-1)
        return self.out_proj(self.mixer(*signals, conditioning=conditioning))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: both maps, and the mixer."""
        maps = 2 * (self.signals + 1) * count_positions(shape) * self.hidden_dim**2
        return maps + flop_count(self.mixer, shape, inference)


def count_signals(mixer: nn.Module) -> int:
    """Return 3, query, key and value, if ``mixer`` takes as many signals, else 1."""
    try:
        signature(mixer.forward).bind("query", "key", "value", conditioning=None)
    except TypeError:
        return 1
    return 3


class QKVConditionMixer(nn.Module):
    """Cross-attention: queries from the signal, keys and values from a condition.

    Args:
        hidden_dim: number of channels of the signal and of the condition.
        mixer_cfg: what to build (``config.build``): a mixer of query, key and value
            whose keys may be elsewhere, such as attention without rotary embedding.
        init_method_in, init_method_out: as in ``QKVSequenceMixer``.
    """

    def __init__(
        self,
        hidden_dim: int,
        mixer_cfg: Spec,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.init_method_in, self.init_method_out = init_method_in, init_method_out
        self.mixer = build(mixer_cfg)
        linear = partial(nn.Linear, hidden_dim, bias=False)
        self.kv_proj = init_weight(linear(2 * hidden_dim), init_method_in, hidden_dim)
        self.q_proj = init_weight(linear(hidden_dim), init_method_in)
        self.out_proj = init_weight(linear(hidden_dim), init_method_out)

    def reset_parameters(self) -> None:
        """Fill the three maps again, where there is an ``init_method``."""
        init_weight(self.kv_proj, self.init_method_in, self.hidden_dim)
        init_weight(self.q_proj, self.init_method_in)
        init_weight(self.out_proj, self.init_method_out)

    def forward(self, x: Signal, condition: Condition) -> Signal:
        """Attend to ``condition``; that may be (batch, channels), or one for all."""
        check_shape("condition", condition, "...", "batch", self.hidden_dim)
        condition = condition[:, None] if condition.ndim == 2 else condition
        kv = self.kv_proj(condition).expand(x.shape[0], *condition.shape[1:-1], -1)
        key, value = kv.chunk(2, dim=-1)
        return self.out_proj(self.mixer(self.q_proj(x), key, value))

    def flop_count(
        self, shape: Shape, inference: bool = False, condition_shape: Shape = 1
    ) -> int:
        """Return the cost for one sample and ``condition_shape`` of its condition."""
        queries, keys = count_positions(shape), count_positions(condition_shape)
        maps = 4 * (queries + keys) * self.hidden_dim**2
        count = getattr(self.mixer, "flop_count", None)
        mixed = count(shape, inference, key_shape=condition_shape) if count else 0
        return maps + mixed
