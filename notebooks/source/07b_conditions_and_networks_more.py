# %% [markdown]
# # 07b, appendix · Configs, a table that must move, more controls, the finished pieces
#
# Not needed for [lesson 07b](07b_conditions_and_networks.ipynb), and not counted in it.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from residual_edu import InvalidInput, config
from residual_edu.exercises import check
from residual_edu.lesson import holds, setup, stored_runs

device = setup()
stored = stored_runs("07b_conditions_and_networks")["runs"]


def row(name):
    return [stored[seed][name] for seed in range(3)]


def told(name, digits=3):
    return "  ".join(f"{one:.{digits}f}" for one in row(name))


# %% [markdown]
# ## Whatever the picture
#
# norm(h + c) = norm(h) needs no training to be seen. A new block of the lesson's first network, other inputs, ten random labels: how much does the output differ?

# %% tags=["trained"]
torch.manual_seed(0)
first, second = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
labels = torch.randn(10, 32)[:, :, None, None]
for groups in 32, 16:
    norm = nn.GroupNorm(groups, 32)
    for name, x in {
        "noise": torch.randn(1, 32, 8, 8),
        "noise times 100": 100 * torch.randn(1, 32, 8, 8),
        "16 x 16 pixels": torch.randn(1, 32, 16, 16),
        "one pixel": torch.randn(1, 32, 1, 1),
    }.items():
        with torch.no_grad():
            out = second(F.silu(norm(first(x) + labels)))
        far = (out - out[:1]).abs().max().item()
        print(f"{groups} groups, {name:16} {far:.0e}")
        holds((far < 1e-4) == (groups == 32), "With 32 groups it is rounding.")

# %% [markdown]
# ## A table that must move
#
# In the lesson a table of random vectors did as well as a learned one. It was easy: 32 numbers for ten labels, and in 300 steps the learned table hardly moved. Here only two numbers of each
# label are used, learned, held as they were drawn, or learned with ten times the rate (8 groups, three seeds):

# %% tags=["trained"]
print(f"{'':24} table moved            test loss              a wrong label adds")
CASES = {"two numbers": "learned", "two held": "held"}
CASES["two faster"] = "learned, ten times the rate"
CASES |= {"groups 8": "all 32 numbers", "ten times the rate": "all, ten times the rate"}
for name, label in CASES.items():
    columns = [told(f"{name}: {what}") for what in ("moved", "loss", "adds")]
    print(f"{label:28}", "    ".join(columns))
faster, held = row("two faster: adds"), row("two held: adds")
holds(min(faster) > max(held), "The table that moves makes more of two numbers.")


# %% [markdown]
# ## A scale before the norm
#
# And if the label also multiplies, h · (1 + scale) + shift, and GroupNorm(32, 32) follows? The norm divides by the spread of the channel, so a positive factor cancels as well, up to the norm's eps:

# %% tags=["trained"]
print(f"{'':28} test loss              a wrong label adds")
NAMES = {"scale before": "1 + scale", "positive scale before": "exp(scale)"}
for name, label in NAMES.items():
    print(f"{label:28}", told(f"{name}: loss"), "  ", told(f"{name}: adds", 4))
print(f"{'after the norm':28}", told("scale and shift: loss"), "  ", end=" ")
print(told("scale and shift: adds", 4))
lost, kept = row("positive scale before: adds"), row("scale before: adds")
holds(max(lost) < min(kept), "Without its sign the scale passes less.")

# %% [markdown]
# 1 + scale may be negative, and a sign passes. exp(scale) is never below 0, and still a little is left. It can only pass by eps: the norm divides by √(variance + eps), and without eps a positive factor would cancel
# exactly. With 1 + scale, eps counts too: with an eps of 1e-12 a wrong label adds 0.11 and 0.08 instead of 0.16 and 0.19 (two seeds).
#
# ## Removal by hooks
#
# ### Exercise · 8 minutes · ●●●○○
#
# Return `loss()`, called once, while each of `layers` (a list of modules, perhaps empty) returns zeros instead of its output. Afterwards all layers work as before, even where `loss` raises
# an error. A layer may take any arguments.
#
# <details><summary>Hint 1</summary>What does PyTorch call just after a module's forward, and what may it return?</details>
# <details><summary>Hint 2</summary><code>layer.register_forward_hook(function)</code> calls function(layer, inputs, output) and takes what it returns as
# the output. It returns a handle with a method <code>remove</code>.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "loss-without", "locked": false, "schema_version": 3, "solution": true, "task": false}
def loss_without(layers, loss):
    """Return loss() while the layers return zeros."""
    ### BEGIN SOLUTION
    hooks = [layer.register_forward_hook(lambda m, i, out: 0 * out) for layer in layers]
    try:
        return loss()
    finally:
        for hook in hooks:
            hook.remove()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "loss-without-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check(loss_without, "loss_without")

# %% [markdown]
# ## A call that has not happened yet
#
# `functools.partial` is a call with its arguments, kept for later. `partial(LayerNorm, dim=4)` builds nothing yet. `partial(LayerNorm, dimm=4)` does not complain either: the typo fails when it is called, in
# somebody else's constructor, perhaps after an hour in a queue.

# %% [markdown]
# ### Exercise · 7 minutes · ●●○○○
#
# Write that: `lazy_config(target, **keywords)` returns a call to come, as `partial` does, but raises an error at once for a
# keyword that `target` does not take. Arguments that are still missing may come later: `lazy_config(LayerNorm,
# eps=0.1)(dim=4)`. And it builds nothing by itself.
#
# <details><summary>Hint 1</summary>What knows which arguments a function takes? Look for it in the module
# <code>inspect</code>.</details>
# <details><summary>Hint 2</summary><code>inspect.signature(target)</code> has a method <code>bind_partial</code>, which
# raises for a name that is not there and does not mind missing ones.</details>


# %% tags=["exercise"] nbgrader={"grade": false, "grade_id": "lazy_config", "locked": false, "schema_version": 3, "solution": true, "task": false}
def lazy_config(target, **keywords):
    """Return the call to come; raise an error now for a keyword it does not take."""
    ### BEGIN SOLUTION
    from functools import partial
    from inspect import signature

    signature(target).bind_partial(**keywords)
    return partial(target, **keywords)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "lazy_config-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check(lazy_config, "lazy_config")

# %% [markdown]
# ## The finished pieces
#
# `LazyConfig` and `build`. A mapping read from a file names its target by `__target__`; a name that is no module is refused before it is called. A first reader may skip this cell and the ones that follow.


# %% tags=["promote:config"] jupyter={"source_hidden": true}
from collections.abc import Mapping
from functools import partial
from pkgutil import resolve_name

from torch import nn

from residual_edu.errors import InvalidInput


class LazyConfig:
    def __init__(self, target):
        self.target = import_target(target) if isinstance(target, str) else target

    def __call__(self, **keywords):
        for value in keywords.values():
            if isinstance(value, Mapping) and "__target__" in value:
                from_mapping(value)
        return partial(self.target, **keywords)


def build(spec):
    if isinstance(spec, nn.Module):
        return spec
    if isinstance(spec, Mapping):
        spec = from_mapping(spec)
    module = spec() if callable(spec) else spec
    return module


def from_mapping(mapping):
    keywords = dict(mapping)
    return LazyConfig(keywords.pop("__target__"))(**keywords)


def import_target(name):
    """Import the class or function called ``name``."""
    try:
        found = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"__target__ {name!r} cannot be imported: {error}") from None
    return found


# %%
settings = [
    {"__target__": "residual_edu.LayerNorm", "dim": 4},
    {"__target__": "os.system", "command": "ls"},
    {"__target__": "residual_edu.LayerNorm", "dimm": 4},
]
for spec in settings:
    try:
        print(
            config.build(spec)
        )  # the package's, with the checks that are left out above
    except InvalidInput as error:
        print(f"refused: {error}")

# %% [markdown]
# `MLP`, to skip likewise. Two of its activations are gated: the first map is twice as wide, and one half of its output multiplies the other.


# %% tags=["promote:parts/mlp"] jupyter={"source_hidden": true}
from functools import partial

from torch import nn
from torch.nn import functional as F


def swiglu(x):
    # x: ..., doubled; result: ..., channels
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b


class MLP(nn.Module):
    ACTIVATIONS = {
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu_tanh": partial(F.gelu, approximate="tanh"),
        "silu": F.silu,
        "glu": F.glu,
        "swiglu": swiglu,
    }

    def __init__(
        self,
        dim,
        activation,
        dropout_cfg,
        expansion_factor=2.0,
        bias=False,
        init_method_in=None,
        init_method_out=None,
    ):
        super().__init__()
        hidden = int(dim * expansion_factor)
        self.dim, self.activation, self.gated = (
            dim,
            activation,
            activation in ("glu", "swiglu"),
        )
        self.layer1 = start(
            nn.Linear(dim, 2 * hidden if self.gated else hidden, bias), init_method_in
        )
        self.dropout = build(dropout_cfg)
        self.layer2 = start(nn.Linear(hidden, dim, bias), init_method_out)

    def forward(self, x):
        # x: ..., channels
        return self.layer2(
            self.dropout(self.ACTIVATIONS[self.activation](self.layer1(x)))
        )


def start(layer, init_method, width=None):
    if init_method is not None:
        init_method(layer.out_features if width is None else width)(layer.weight.data)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return layer


# %% [markdown]
# `Patchify` and `Unpatchify`, to skip likewise:


# %% tags=["promote:parts/patches"] jupyter={"source_hidden": true}
from torch import nn


class Patchify(nn.Module):
    def __init__(
        self, in_features, out_features, data_dim, patch_size, stride=None, bias=True
    ):
        super().__init__()
        self.data_dim, self.patch_size, self.stride = (
            data_dim,
            patch_size,
            stride or patch_size,
        )
        convolution = getattr(nn, f"Conv{data_dim}d")
        self.conv = convolution(
            in_features, out_features, patch_size, self.stride, bias=bias
        )

    def forward(self, x):
        # x: batch, ..., in_features; result: batch, ..., out_features
        return self.conv(x.movedim(-1, 1)).movedim(1, -1)


class Unpatchify(nn.Module):
    def __init__(
        self, in_features, out_features, data_dim, patch_size, stride=None, bias=True
    ):
        super().__init__()
        self.data_dim, self.patch_size, self.stride = (
            data_dim,
            patch_size,
            stride or patch_size,
        )
        deconvolution = getattr(nn, f"ConvTranspose{data_dim}d")
        self.deconv = deconvolution(
            in_features, out_features, patch_size, self.stride, bias=bias
        )

    def forward(self, x):
        # x: batch, ..., in_features; result: batch, ..., out_features
        return self.deconv(x.movedim(-1, 1)).movedim(1, -1)


# %% [markdown]
# `PositionEmbedding`, to skip likewise: one table for each axis, so that the parameters grow with the sum of the lengths.


# %% tags=["promote:parts/position_embedding"] jupyter={"source_hidden": true}
from collections.abc import Sequence

import torch
from torch import nn

from residual_edu.parts.weight_decay import no_weight_decay


class PositionEmbedding(nn.Module):
    def __init__(self, embedding_dim, data_dim, max_dim_lengths):
        super().__init__()
        lengths = (
            max_dim_lengths
            if isinstance(max_dim_lengths, Sequence)
            else [max_dim_lengths] * data_dim
        )
        self.embedding_dim, self.data_dim, self.max_dim_lengths = (
            embedding_dim,
            data_dim,
            tuple(lengths),
        )
        tables = [nn.Embedding(length, embedding_dim // data_dim) for length in lengths]
        self.data_embeddings = no_weight_decay(
            nn.ModuleDict(dict(zip("xyz", tables, strict=False)))
        )

    def forward(self, x):
        # x: batch, ..., channels
        axes = [torch.arange(length, device=x.device) for length in x.shape[1:-1]]
        places = torch.meshgrid(*axes, indexing="ij")  # one (*space) for each axis
        rows = [
            table(place)
            for table, place in zip(self.data_embeddings.values(), places, strict=True)
        ]
        return torch.cat(rows, dim=-1).expand(x.shape).type_as(x)


# %% [markdown]
# `ResidualNetwork`, to skip likewise. `block_cfg` is built once for each block.


# %% tags=["promote:networks/residual_network"] jupyter={"source_hidden": true}
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from residual_edu.networks.residual_network import (
    build_projection,
    last_positions,
    target_lengths,
)
from residual_edu.networks.stack import build_blocks
from residual_edu.parts.weight_decay import no_weight_decay


class ResidualNetwork(nn.Module):
    def __init__(
        self,
        in_channels,
        out_channels,
        num_blocks,
        hidden_dim,
        data_dim,
        in_proj_cfg,
        out_proj_cfg,
        norm_cfg,
        block_cfg,
        dropout_in_cfg,
        condition_in_proj_cfg=None,
        target_size=None,
        gradient_checkpointing=False,
    ):
        super().__init__()
        self.in_channels, self.out_channels, self.num_blocks = (
            in_channels,
            out_channels,
            num_blocks,
        )
        self.hidden_dim, self.data_dim, self.gradient_checkpointing = (
            hidden_dim,
            data_dim,
            gradient_checkpointing,
        )
        self.target_size = target_lengths(target_size, data_dim)
        self.dropout_in = build(dropout_in_cfg)
        self.in_proj = build_projection(
            "in_proj_cfg", in_proj_cfg, in_channels, hidden_dim
        )
        self.condition_in_proj = None
        if condition_in_proj_cfg is not None:
            name = "condition_in_proj_cfg"
            self.condition_in_proj = build_projection(
                name, condition_in_proj_cfg, hidden_dim, hidden_dim
            )
        self.blocks = build_blocks("block_cfg", block_cfg, [{}] * num_blocks)
        self.out_norm = no_weight_decay(build(norm_cfg))
        self.out_proj = build_projection(
            "out_proj_cfg", out_proj_cfg, hidden_dim, out_channels
        )

    def forward(self, inputs):
        x, condition = (
            self._embedded(inputs["input"]),
            self._projected(inputs["condition"]),
        )
        for block in self.blocks:
            run = (
                partial(checkpoint, block, use_reentrant=False)
                if self.gradient_checkpointing
                else block
            )
            x = run(x, condition)
        logits = self.readout(x)
        return {"logits": logits}

    def _embedded(self, x):
        # x: batch, ..., in_channels; result: batch, ..., channels
        x = self.in_proj(self.dropout_in(x))
        return x

    def _projected(self, condition):
        if self.condition_in_proj is None:
            return condition
        return self.condition_in_proj(condition)

    def readout(self, x):
        # x: batch, ..., channels; result: batch, ..., classes
        return last_positions(self.out_proj(self.out_norm(x)), self.target_size)


# %% [markdown]
# `ClassificationResNet`, to skip likewise: the mean over all positions, then norm and map.


# %% tags=["promote:networks/residual_network"]
from residual_edu.networks.stack import build_with


class ClassificationResNet(ResidualNetwork):
    def readout(self, x):
        # x: batch, ..., channels; result: batch, classes
        x = last_positions(x, self.target_size)
        return self.out_proj(self.out_norm(x.flatten(1, -2).mean(dim=1)))


def build_projection(name, spec, in_features, out_features):
    return build_with(name, spec, in_features=in_features, out_features=out_features)


def last_positions(x, lengths):
    # x: batch, ..., channels
    if lengths is None:
        return x
    for axis, length in enumerate(lengths, start=1):
        x = x.narrow(axis, x.shape[axis] - length, length)
    return x
