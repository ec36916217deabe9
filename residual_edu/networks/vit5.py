r"""ViT-5: an image as patches, a CLS token and registers, a stack of blocks, and one token, or a mean, that answers.

.. math::
    x_0 = [W_{\mathrm{patch}}\, \mathrm{patches}, 0, 0] + \mathrm{tokens}, \qquad
    x_{l+1} = \mathrm{block}_l(x_l), \qquad \mathrm{logits} = W_{\mathrm{out}}\, \mathrm{readout}(\mathrm{norm}(x_L))

One learned table, ``tokens``, holds the patches' positions, then the CLS token, then the registers.

Wang et al., 2026, https://arxiv.org/abs/2602.08071; registers, Darcet et al., 2023, https://arxiv.org/abs/2309.16588
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.config import Spec, build, described
from residual_edu.errors import (
    check_agreement,
    check_choice,
    check_divisible,
    check_factory,
    check_images,
    check_keywords,
    check_own_parameters,
    check_size,
    check_whole,
)
from residual_edu.mixers.registers import RegisterCompressConcat
from residual_edu.parts.drop_path import drop_path_schedule
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.patches import Patchify
from residual_edu.parts.weight_decay import no_weight_decay


class ViT5ClassificationNet(nn.Module):
    """Says which class a square image belongs to. Its tokens stand as [patches, CLS, registers, padding].

    Args:
        in_channels: number of channels of the images, at least 1.
        num_classes: number of classes, at least 1.
        hidden_dim: number of channels of the stream, at least 1.
        num_blocks: number of blocks, at least 1.
        patch_size: pixels along each side of a patch, at least 1.
        image_size: pixels along each side of an image, a multiple of ``patch_size``.
        num_registers: number of registers, at least 0.
        block_cfg: what to build each block from, ``ViT5ResidualBlock`` say; the network fills in ``drop_path_rate``,
            ``num_registers`` and ``register_start_idx``.
        norm_cfg: the norm before the readout; weight decay spares it.
        readout: who answers: ``"cls"``, a token of its own; ``"gap"``, the mean of the patches; or
            ``"register_concat"``, the registers side by side, each narrowed to a share of its channels.
        drop_path_rate: rate in [0, 1) of the last block; the first has 0, and between them it grows linearly.
        neck_compression_ratio: for ``"register_concat"``, how many times narrower each register gets.
        pad_to_multiple_of: zeros are added behind the registers up to such a number of tokens: the width of the grid,
            where a mixer lays the tokens out in rows.

    Raises:
        InvalidInput: for a number out of range, an unknown readout, a built block, or images of another shape.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        hidden_dim: int,
        num_blocks: int,
        patch_size: int,
        image_size: int,
        num_registers: int,
        block_cfg: Spec,
        norm_cfg: Spec,
        readout: str = "cls",
        drop_path_rate: float = 0.0,
        neck_compression_ratio: int = 1,
        pad_to_multiple_of: int = 1,
    ) -> None:
        super().__init__()
        check_size("num_classes", num_classes)
        check_size("patch_size", patch_size)
        check_divisible("image_size", image_size, patch_size, "patch_size")
        check_whole("num_registers", num_registers)
        check_choice("readout", readout, ["cls", "gap", "register_concat"])
        check_size("neck_compression_ratio", neck_compression_ratio)
        check_size("pad_to_multiple_of", pad_to_multiple_of)
        self.image_size, self.num_registers, self.readout = image_size, num_registers, readout
        self.num_patches = (image_size // patch_size) ** 2
        self.register_start_idx = start = self.num_patches + (readout == "cls")
        self.num_tokens = start + num_registers
        self.padding = -self.num_tokens % pad_to_multiple_of
        self.patch_embed = Patchify(in_channels, hidden_dim, 2, patch_size)
        self.tokens = no_weight_decay(nn.Embedding(self.num_tokens, hidden_dim))
        rates = drop_path_schedule(num_blocks, drop_path_rate)
        self.blocks = nn.ModuleList(build_block(block_cfg, rate, num_registers, start) for rate in rates)
        check_own_parameters("block_cfg", self.blocks)
        self.out_norm = no_weight_decay(build(norm_cfg))
        concat = partial(RegisterCompressConcat, num_registers, hidden_dim, hidden_dim // neck_compression_ratio)
        self.neck = concat() if readout == "register_concat" else nn.Identity()
        self.out_proj = nn.Linear(getattr(self.neck, "out_dim", hidden_dim), num_classes, bias=False)
        nn.init.trunc_normal_(self.tokens.weight, std=0.02)
        nn.init.trunc_normal_(self.out_proj.weight, std=0.02)

    def forward(self, images: Float[Tensor, "batch side side in_channels"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of each class, from the stream after the last block."""
        x = self.embed(images)
        for block in self.blocks:
            x = block(x)
        return self.out_proj(self.neck(self.out_norm(self.answering(x))))

    def embed(self, images: Float[Tensor, "batch side side in_channels"]) -> Float[Tensor, "batch tokens channels"]:
        """Return the stream before the first block: [patches, CLS, registers, padding]."""
        check_images("images", images, self.image_size, self.patch_embed.conv.in_channels)
        patches, others = self.patch_embed(images).flatten(1, 2), self.num_tokens - self.num_patches
        tokens = F.pad(patches, (0, 0, 0, others)) + self.tokens.weight
        return F.pad(tokens, (0, 0, 0, self.padding))

    def answering(self, x: Float[Tensor, "batch tokens channels"]) -> Float[Tensor, "batch *registers channels"]:
        """Return what the readout reads: the CLS token, the mean of the patches, or the registers."""
        if self.readout == "register_concat":
            return x[:, self.register_start_idx : self.num_tokens]
        return x[:, self.num_patches] if self.readout == "cls" else x[:, : self.num_patches].mean(dim=1)

    def flop_count(self, inference: bool = False) -> int:
        """Return the cost for one image: patches, blocks, readout. Additions of tables and means are not counted."""
        maps = self.num_patches * self.patch_embed.conv.weight.numel() + self.out_proj.weight.numel()
        answers = self.num_registers if self.readout == "register_concat" else 1
        readout = flop_count(self.out_norm, answers) + flop_count(self.neck, self.tokens.embedding_dim)
        return sum((flop_count(b, self.num_tokens + self.padding, inference) for b in self.blocks), 2 * maps + readout)


def build_block(block_cfg: Spec, drop_path_rate: float, num_registers: int, register_start_idx: int) -> nn.Module:
    """Build a block that is told how often it is dropped and where the registers stand; a built one is refused."""
    told: dict[str, Any] = {"num_registers": num_registers, "register_start_idx": register_start_idx}
    told["drop_path_rate"] = drop_path_rate
    check_factory("block_cfg", block_cfg)
    check_agreement("block_cfg", block_cfg, told)
    call = described(block_cfg) if isinstance(block_cfg, Mapping) else block_cfg
    check_keywords(call, told)
    return build(partial(call, **told))
