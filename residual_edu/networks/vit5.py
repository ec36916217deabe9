r"""ViT-5: patches, a CLS token and registers, a stack of blocks, a readout.

.. math::
    x_0 &= [W_{\mathrm{patch}}\, \mathrm{patches}, 0, 0] + \mathrm{tokens} \\
    x_{l+1} &= \mathrm{block}_l(x_l) \\
    \mathrm{logits} &= W\, \mathrm{neck}(\mathrm{norm}(\mathrm{pool}(x_L)))

The learned table ``tokens`` holds the patches' positions, CLS token and registers.
Wang et al., 2026, https://arxiv.org/abs/2602.08071
Registers: Darcet et al., 2023, https://arxiv.org/abs/2309.16588
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.config import Spec, build
from residual_edu.errors import InvalidInput, check_choice, check_shape, check_size
from residual_edu.mixers.registers import RegisterCompressConcat
from residual_edu.mixers.vit5_attention import Tokens
from residual_edu.networks.stack import build_blocks
from residual_edu.parts.drop_path import drop_path_schedule
from residual_edu.parts.flop_count import flop_count
from residual_edu.parts.patches import Patchify
from residual_edu.parts.weight_decay import no_weight_decay

Images = Float[Tensor, "batch side side in_channels"]


class ViT5ClassificationNet(nn.Module):
    """Classifies square images, from the tokens [patches, CLS, registers, padding].

    Args:
        in_channels, num_classes: number of channels of the images, and of classes.
        hidden_dim: number of channels of the stream.
        num_blocks: number of blocks, at least 1.
        patch_size: pixels along each side of a patch.
        image_size: pixels along each side of an image, a multiple of ``patch_size``.
        num_registers: number of registers, at least 0.
        block_cfg: what builds each block, such as ``ViT5ResidualBlock``; the network
            gives ``drop_path_rate``, ``num_registers`` and ``register_start_idx``.
        norm_cfg: the norm before the readout, exempt from weight decay.
        readout: ``"cls"``, from the CLS token; ``"gap"``, from the mean of the patches;
            ``"register_concat"``, from the registers, narrowed and concatenated. Only
            the first has a CLS token.
        drop_path_rate: rate in [0, 1) of the last block, growing linearly from 0.
        neck_compression_ratio: how many times ``"register_concat"`` narrows a register.
        pad_to_multiple_of: zeros are appended up to a multiple of this many tokens.
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
        readout: Literal["cls", "gap", "register_concat"] = "cls",
        drop_path_rate: float = 0.0,
        neck_compression_ratio: int = 1,
        pad_to_multiple_of: int = 1,
    ) -> None:
        super().__init__()
        check_size("num_registers", num_registers, least=0)
        check_size("pad_to_multiple_of", pad_to_multiple_of)
        check_choice("readout", readout, ["cls", "gap", "register_concat"])
        if image_size % patch_size:
            wanted = f"a multiple of {patch_size}, patch_size"
            raise InvalidInput(f"image_size must be {wanted}, got {image_size}")
        self.image_size, self.readout = image_size, readout
        self.num_registers = num_registers
        self.num_patches = (image_size // patch_size) ** 2
        start = self.register_start_idx = self.num_patches + (readout == "cls")
        self.num_tokens = start + num_registers
        self.padding = -self.num_tokens % pad_to_multiple_of
        self.patch_embed = Patchify(in_channels, hidden_dim, 2, patch_size)
        self.tokens = no_weight_decay(nn.Embedding(self.num_tokens, hidden_dim))
        registers = {"num_registers": num_registers, "register_start_idx": start}
        rates = drop_path_schedule(num_blocks, drop_path_rate)
        given = [{"drop_path_rate": rate, **registers} for rate in rates]
        self.blocks = build_blocks(block_cfg, given)
        self.out_norm = no_weight_decay(build(norm_cfg))
        self.neck: nn.Module = nn.Identity()
        width = hidden_dim
        if readout == "register_concat":
            narrow = hidden_dim // neck_compression_ratio
            self.neck = RegisterCompressConcat(num_registers, hidden_dim, narrow)
            width = num_registers * narrow
        self.out_proj = nn.Linear(width, num_classes, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start the table of tokens and the way out."""
        nn.init.trunc_normal_(self.tokens.weight, std=0.02)
        nn.init.trunc_normal_(self.out_proj.weight, std=0.02)

    def forward(self, images: Images) -> Float[Tensor, "batch classes"]:
        """Return the logits of each class."""
        x = self.embed(images)
        for block in self.blocks:
            x = block(x)
        return self.out_proj(self.neck(self.out_norm(self.pool(x))))

    def embed(self, images: Images) -> Tokens:
        """Return the stream before the first block."""
        check_shape("images", images, "batch", *[self.image_size] * 2, "channels")
        patches = self.patch_embed(images).flatten(1, 2)  # (batch, patches, channels)
        others = self.num_tokens - self.num_patches
        tokens = F.pad(patches, (0, 0, 0, others)) + self.tokens.weight
        return F.pad(tokens, (0, 0, 0, self.padding))

    def pool(self, x: Tokens) -> Float[Tensor, "batch *registers channels"]:
        """Return the CLS token, the mean of the patches, or the registers."""
        if self.readout == "cls":
            return x[:, self.num_patches]
        if self.readout == "gap":
            return x[:, : self.num_patches].mean(dim=1)
        return x[:, self.register_start_idx : self.num_tokens]

    def flop_count(self, inference: bool = False) -> int:
        """Return the cost of one image; sums of tables and means are not counted."""
        conv, positions = self.patch_embed.conv, self.num_tokens + self.padding
        maps = self.num_patches * conv.weight.numel() + self.out_proj.weight.numel()
        rows = self.num_registers if self.readout == "register_concat" else 1
        readout = flop_count(self.out_norm, rows)
        readout += flop_count(self.neck, self.tokens.embedding_dim)
        blocks = [flop_count(block, positions, inference) for block in self.blocks]
        return sum(blocks, 2 * maps + readout)
