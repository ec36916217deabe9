r"""The linear maps around a mixer: one gives query, key and value, or one signal; another maps its output.

.. math:: y = W_o \, \mathrm{mixer}(W_q x, \, W_k x, \, W_v x)

In cross-attention :math:`W_k` and :math:`W_v` map a condition instead. Vaswani et al., 2017,
https://arxiv.org/abs/1706.03762
"""

from inspect import signature

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.calls import check_takes
from residual_edu.checked import Flag, Size, checked
from residual_edu.config import Spec, build
from residual_edu.old_errors import InvalidInput, check_batch, check_signal
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.start import InitMethod, init_weight


class QKVSequenceMixer(nn.Module):
    """Project a signal to the mixer's inputs, mix its positions, and project the result.

    A mixer of query, key and value (attention, Hyena) gets three signals from one fused map; a mixer of one signal
    (a long convolution, a scan) gets one.

    Args:
        hidden_dim: number of channels, at least 1.
        mixer_cfg: what to build (``config.build``): ``forward(query, key, value, *, conditioning)`` or
            ``forward(x, *, conditioning)``.
        qkv_bias: whether the input map has a bias.
        out_proj_bias: whether the output map has one.
        init_method_in: called with ``hidden_dim``, returns a function that fills the weight of the input map in place;
            its bias becomes zero. None for torch's own start.
        init_method_out: the same for the output map.

    Raises:
        InvalidInput: for an argument out of range, a mixer with other inputs, or a signal of another shape.
    """

    @checked
    def __init__(
        self,
        hidden_dim: Size,
        mixer_cfg: Spec,
        qkv_bias: Flag = False,
        out_proj_bias: Flag = False,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.mixer = build(mixer_cfg)
        self.signals = count_signals(self.mixer)
        maps = nn.Linear(hidden_dim, self.signals * hidden_dim, bias=qkv_bias)
        self.qkv_proj = init_weight(maps, init_method_in, hidden_dim)
        self.out_proj = init_weight(
            nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias), init_method_out
        )
        self.init_method_in, self.init_method_out = init_method_in, init_method_out

    def reset_parameters(self) -> None:
        """Fill both maps again, where there is an ``init_method``."""
        init_weight(self.qkv_proj, self.init_method_in, self.hidden_dim)
        init_weight(self.out_proj, self.init_method_out)

    def forward(
        self,
        x: Float[Tensor, "batch *space channels"],
        *,
        conditioning: Tensor | None = None,
    ) -> Float[Tensor, "batch *space channels"]:
        """Mix the positions of ``x``; ``conditioning`` is passed to the mixer."""
        check_signal("x", x, self.hidden_dim, layer=self.qkv_proj)
        signals = self.qkv_proj(x).chunk(self.signals, dim=-1)
        return self.out_proj(self.mixer(*signals, conditioning=conditioning))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: both maps, and the mixer."""
        maps = 2 * (self.signals + 1) * count_positions(shape) * self.hidden_dim**2
        return maps + flop_count(self.mixer, shape, inference)


class QKVConditionMixer(nn.Module):
    """Cross-attention: queries come from the signal, keys and values from a condition.

    Args:
        hidden_dim: number of channels of the signal and of the condition, at least 1.
        mixer_cfg: what to build (``config.build``), a mixer that takes keys at other positions than its queries, such
            as attention without rotary embedding: ``forward(query, key, value, *, conditioning)``.
        init_method_in: called with ``hidden_dim``, returns a function that fills the weight of an input map in place.
            None for torch's own start.
        init_method_out: the same for the output map.

    Raises:
        InvalidInput: for a size out of range, a mixer with other inputs, a signal or a condition of another width, with
            too few or too many axes, or a condition for another number of samples.
    """

    @checked
    def __init__(
        self,
        hidden_dim: Size,
        mixer_cfg: Spec,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.mixer = build(mixer_cfg)
        check_takes("mixer", self.mixer, "query", "key", "value", "conditioning=")
        self.kv_proj = init_weight(
            nn.Linear(hidden_dim, 2 * hidden_dim, bias=False),
            init_method_in,
            hidden_dim,
        )
        self.q_proj = init_weight(
            nn.Linear(hidden_dim, hidden_dim, bias=False), init_method_in
        )
        self.out_proj = init_weight(
            nn.Linear(hidden_dim, hidden_dim, bias=False), init_method_out
        )
        self.init_method_in, self.init_method_out = init_method_in, init_method_out

    def reset_parameters(self) -> None:
        """Fill the three maps again, where there is an ``init_method``."""
        init_weight(self.kv_proj, self.init_method_in, self.hidden_dim)
        init_weight(self.q_proj, self.init_method_in)
        init_weight(self.out_proj, self.init_method_out)

    def forward(
        self,
        x: Float[Tensor, "batch *space channels"],
        condition: Float[Tensor, "#batch *elsewhere channels"],
    ) -> Float[Tensor, "batch *space channels"]:
        """Attend from each position of ``x`` to ``condition``: (batch, channels), or with 1 to 3 axes between.

        A condition of one sample serves all.
        """
        condition = (
            condition[:, None]
            if isinstance(condition, Tensor) and condition.ndim == 2
            else condition
        )
        check_signals(x, condition, self.hidden_dim, self.q_proj)
        key, value = (
            self.kv_proj(condition)
            .expand(x.shape[0], *[-1] * (condition.ndim - 1))
            .chunk(2, dim=-1)
        )
        return self.out_proj(self.mixer(self.q_proj(x), key, value))

    def flop_count(
        self, shape: Shape, inference: bool = False, condition_shape: Shape = 1
    ) -> int:
        """Return the cost for one sample with ``condition_shape`` positions in its condition."""
        queries, keys = count_positions(shape), count_positions(condition_shape)
        maps = 4 * (queries + keys) * self.hidden_dim**2
        count = getattr(self.mixer, "flop_count", None)
        return maps + (
            0 if count is None else count(shape, inference, key_shape=condition_shape)
        )


def count_signals(mixer: nn.Module) -> int:
    """Return how many signals ``mixer`` takes beside ``conditioning=``: 3, query, key and value, if it can, else 1.

    Raises:
        InvalidInput: for a mixer that takes neither.
    """
    for count in (3, 1):
        try:
            signature(mixer.forward).bind(*range(count), conditioning=None)
        except TypeError:
            continue
        return count
    kind, taken = type(mixer).__name__, ", ".join(signature(mixer.forward).parameters)
    ways = "(query, key, value, conditioning=) or (x, conditioning=)"
    raise InvalidInput(
        f"mixer must take {ways}, {kind}.forward takes ({taken}); wrap it in a module that fits"
    )


def check_signals(
    x: Tensor, condition: Tensor, hidden_dim: int, layer: nn.Module
) -> None:
    """Raise ``InvalidInput`` unless both are signals of ``hidden_dim``, fit for ``layer``, and of as many samples."""
    check_signal("x", x, hidden_dim, layer=layer)
    check_signal("condition", condition, hidden_dim, layer=layer)
    check_batch("condition", condition, x.shape[0])
