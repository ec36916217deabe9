"""What stands around a mixer: linear maps that make its signals, and one that reads what it heard."""

from jaxtyping import Float
from torch import Tensor, nn

from residual_edu.config import Spec, build
from residual_edu.errors import check_batch, check_mixer, check_size, check_space
from residual_edu.parts.flop_count import Shape, count_positions, flop_count
from residual_edu.parts.mlp import InitMethod, start


class QKVSequenceMixer(nn.Module):
    """Project a signal to what the mixer takes, mix its positions, project back.

    A mixer of query, key and value (attention, Hyena) gets three signals from one fused map; a mixer of one signal
    (a long convolution, a scan) gets one.

    Args:
        hidden_dim: number of channels, at least 1.
        mixer_cfg: what to build (``config.build``): ``forward(query, key, value, *, conditioning)`` or
            ``forward(x, *, conditioning)``.
        qkv_bias: whether the map in has a bias.
        out_proj_bias: whether the map out has one.
        init_method_in: called with ``hidden_dim``, returns what fills the weight of the map in; its bias becomes zero.
        init_method_out: the same for the map out.

    Raises:
        InvalidInput: for a size out of range, a mixer that takes something else, or a signal of another shape.
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
        check_size("hidden_dim", hidden_dim)
        self.hidden_dim = hidden_dim
        mixer = build(mixer_cfg)
        self.signals = check_mixer("mixer", mixer, 3, 1)
        maps = nn.Linear(hidden_dim, self.signals * hidden_dim, bias=qkv_bias)
        self.qkv_proj = start(maps, init_method_in, hidden_dim)
        self.out_proj = start(nn.Linear(hidden_dim, hidden_dim, bias=out_proj_bias), init_method_out)
        self.mixer = mixer

    def forward(
        self, x: Float[Tensor, "batch *space channels"], *, conditioning: Tensor | None = None
    ) -> Float[Tensor, "batch *space channels"]:
        """Let each position of ``x`` hear the others; ``conditioning`` goes on to the mixer."""
        check_space("x", x, self.hidden_dim)
        signals = self.qkv_proj(x).chunk(self.signals, dim=-1)
        return self.out_proj(self.mixer(*signals, conditioning=conditioning))

    def flop_count(self, shape: Shape, inference: bool = False) -> int:
        """Return the cost for one sample: the maps in and out, and the mixer."""
        maps = 2 * (self.signals + 1) * count_positions(shape) * self.hidden_dim**2
        return maps + flop_count(self.mixer, shape, inference)


class QKVConditionMixer(nn.Module):
    """Cross-attention: each position of the signal asks, the positions of a condition answer.

    Args:
        hidden_dim: number of channels of the signal and of the condition, at least 1.
        mixer_cfg: what to build (``config.build``), a mixer whose keys may stand at other positions than its queries,
            as those of attention without rotary embedding: ``forward(query, key, value, *, conditioning)``.
        init_method_in: called with ``hidden_dim``, returns what fills the weights of the maps in.
        init_method_out: the same for the map out.

    Raises:
        InvalidInput: for a size out of range, a mixer that takes something else, a signal or a condition of another
            width, with too few or too many axes, or a condition for another number of samples.
    """

    def __init__(
        self,
        hidden_dim: int,
        mixer_cfg: Spec,
        init_method_in: InitMethod | None = None,
        init_method_out: InitMethod | None = None,
    ) -> None:
        super().__init__()
        check_size("hidden_dim", hidden_dim)
        self.hidden_dim = hidden_dim
        self.mixer = build(mixer_cfg)
        check_mixer("mixer", self.mixer, 3)
        self.kv_proj = start(nn.Linear(hidden_dim, 2 * hidden_dim, bias=False), init_method_in, hidden_dim)
        self.q_proj = start(nn.Linear(hidden_dim, hidden_dim, bias=False), init_method_in)
        self.out_proj = start(nn.Linear(hidden_dim, hidden_dim, bias=False), init_method_out)

    def forward(
        self,
        x: Float[Tensor, "batch *space channels"],
        condition: Float[Tensor, "#batch *elsewhere channels"],
    ) -> Float[Tensor, "batch *space channels"]:
        """Return what each position of ``x`` hears from ``condition``, (batch, channels) or with 1 to 3 axes between.

        A condition of one sample serves them all.
        """
        check_space("x", x, self.hidden_dim)
        condition = condition[:, None] if isinstance(condition, Tensor) and condition.ndim == 2 else condition
        check_space("condition", condition, self.hidden_dim)
        check_batch("condition", condition, len(x))
        key, value = self.kv_proj(condition).expand(len(x), *[-1] * (condition.ndim - 1)).chunk(2, dim=-1)
        return self.out_proj(self.mixer(self.q_proj(x), key, value))

    def flop_count(self, shape: Shape, inference: bool = False, condition_shape: Shape = 1) -> int:
        """Return the cost for one sample with ``condition_shape`` positions in its condition."""
        queries, keys = count_positions(shape), count_positions(condition_shape)
        maps = 4 * (queries + keys) * self.hidden_dim**2
        count = getattr(self.mixer, "flop_count", None)
        return maps + (0 if count is None else count(shape, inference, key_shape=condition_shape))
