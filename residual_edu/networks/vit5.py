r"""ViT-5: patches of an image, a CLS token and registers, a stack of blocks, and a readout that pools some tokens.

.. math::
    x_0 = [W_{\mathrm{patch}}\, \mathrm{patches}, 0, 0] + \mathrm{tokens}, \qquad
    x_{l+1} = \mathrm{block}_l(x_l), \qquad
    \mathrm{logits} = W_{\mathrm{out}}\, \mathrm{neck}(\mathrm{norm}(\mathrm{pool}(x_L)))

One learned table, ``tokens``, holds the patches' position embeddings, then the CLS token, then the registers.

Wang et al., 2026, https://arxiv.org/abs/2602.08071; registers, Darcet et al., 2023, https://arxiv.org/abs/2309.16588
"""

from functools import partial
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.checked import Count, Rate, Size, checked
from residual_edu.config import Spec, build
from residual_edu.mixers.registers import RegisterCompressConcat
from residual_edu.networks.stack import build_blocks, check_stack
from residual_edu.old_errors import check_divisible, check_shape
from residual_edu.parts.drop_path import drop_path_schedule
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.patches import Patchify
from residual_edu.parts.weight_decay import no_weight_decay


class ViT5ClassificationNet(nn.Module):
    """Classifies square images. Its tokens are, in this order, the patches, the CLS token, the registers, padding.

    Args:
        in_channels: number of channels of the images, at least 1.
        num_classes: number of classes, at least 1.
        hidden_dim: number of channels of the stream, at least 1.
        num_blocks: number of blocks, at least 1.
        patch_size: pixels along each side of a patch, at least 1.
        image_size: pixels along each side of an image, a multiple of ``patch_size``.
        num_registers: number of registers, at least 0.
        block_cfg: what builds each block, such as ``ViT5ResidualBlock``; the network fills in ``drop_path_rate``,
            ``num_registers`` and ``register_start_idx``.
        norm_cfg: the norm before the readout, exempt from weight decay.
        readout: what the logits are computed from: ``"cls"``, the CLS token; ``"gap"``, the mean of the patches (then
            there is no CLS token); or ``"register_concat"``, the registers, each projected to fewer channels, then
            concatenated (no CLS token either).
        drop_path_rate: rate in [0, 1) of the last block; the first has 0, and between them it grows linearly.
        neck_compression_ratio: for ``"register_concat"``, how many times fewer channels each register gets, at least 1.
        pad_to_multiple_of: zeros are appended up to a multiple of this number of tokens, at least 1: the width of the
            grid, for a mixer that arranges the tokens in rows.

    Raises:
        InvalidInput: for a number out of range, an unknown readout, a built block, or images of another shape.
    """

    @checked
    def __init__(
        self,
        in_channels: Size,
        num_classes: Size,
        hidden_dim: Size,
        num_blocks: Size,
        patch_size: Size,
        image_size: Size,
        num_registers: Count,
        block_cfg: Spec,
        norm_cfg: Spec,
        readout: Literal["cls", "gap", "register_concat"] = "cls",
        drop_path_rate: Rate = 0.0,
        neck_compression_ratio: Size = 1,
        pad_to_multiple_of: Size = 1,
    ) -> None:
        super().__init__()
        check_divisible("image_size", image_size, patch_size, "patch_size")
        self.image_size, self.num_registers, self.readout = (
            image_size,
            num_registers,
            readout,
        )
        self.num_patches = (image_size // patch_size) ** 2
        self.register_start_idx = self.num_patches + (readout == "cls")
        self.num_tokens = self.register_start_idx + num_registers
        self.padding = -self.num_tokens % pad_to_multiple_of
        self.patch_embed = Patchify(in_channels, hidden_dim, 2, patch_size)
        self.tokens = no_weight_decay(nn.Embedding(self.num_tokens, hidden_dim))
        registers = {
            "num_registers": num_registers,
            "register_start_idx": self.register_start_idx,
        }
        rates = drop_path_schedule(num_blocks, drop_path_rate)
        self.blocks = build_blocks(
            "block_cfg",
            block_cfg,
            [registers | {"drop_path_rate": rate} for rate in rates],
        )
        check_stack("block_cfg", self.blocks, "x")
        self.out_norm = no_weight_decay(build(norm_cfg))
        concat = partial(
            RegisterCompressConcat,
            num_registers,
            hidden_dim,
            hidden_dim // neck_compression_ratio,
        )
        self.neck = concat() if readout == "register_concat" else nn.Identity()
        self.out_proj = nn.Linear(
            getattr(self.neck, "out_dim", hidden_dim), num_classes, bias=False
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw tokens and readout from a narrow normal distribution."""
        nn.init.trunc_normal_(self.tokens.weight, std=0.02)
        nn.init.trunc_normal_(self.out_proj.weight, std=0.02)

    def forward(
        self, images: Float[Tensor, "batch side side in_channels"]
    ) -> Float[Tensor, "batch classes"]:
        """Return the logits of each class, computed from the stream after the last block."""
        x = self.embed(images)
        for block in self.blocks:
            x = block(x)
        return self.out_proj(self.neck(self.out_norm(self.pool(x))))

    def embed(
        self, images: Float[Tensor, "batch side side in_channels"]
    ) -> Float[Tensor, "batch tokens channels"]:
        """Return the stream before the first block: [patches, CLS, registers, padding]."""
        check_shape(
            "images",
            images,
            "batch",
            self.image_size,
            self.image_size,
            self.patch_embed.conv.in_channels,
            layer=self.patch_embed.conv,
        )
        patches = self.patch_embed(images).flatten(
            1, 2
        )  # (batch, num_patches, channels)
        tokens = (
            F.pad(patches, (0, 0, 0, self.num_tokens - self.num_patches))
            + self.tokens.weight
        )
        return F.pad(tokens, (0, 0, 0, self.padding))

    def pool(
        self, x: Float[Tensor, "batch tokens channels"]
    ) -> Float[Tensor, "batch *registers channels"]:
        """Return what the readout uses: the CLS token, the mean of the patches, or the registers."""
        if self.readout == "register_concat":
            return x[:, self.register_start_idx : self.num_tokens]
        return (
            x[:, self.num_patches]
            if self.readout == "cls"
            else x[:, : self.num_patches].mean(dim=1)
        )

    def flop_count(self, inference: bool = False) -> int:
        """Return the cost for one image: patches, blocks, readout. Additions of tables and means are not counted."""
        maps = (
            self.num_patches * self.patch_embed.conv.weight.numel()
            + self.out_proj.weight.numel()
        )
        rows = self.num_registers if self.readout == "register_concat" else 1
        readout = flop_count(self.out_norm, rows) + flop_count(
            self.neck, self.tokens.embedding_dim
        )
        return sum(
            (
                flop_count(b, self.num_tokens + self.padding, inference)
                for b in self.blocks
            ),
            2 * maps + readout,
        )
