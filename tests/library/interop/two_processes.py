"""What each of two processes does, started by torchrun: ``torchrun --nproc_per_node 2 two_processes.py ddp OUT``.

Both train the same network, each on its half of every batch; what they found is written to a file each.
"""

import sys
from functools import partial
from itertools import product
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from residual_edu import (
    MLP,
    BlockConfig,
    LanguageModel,
    ModelConfig,
    RMSNorm,
    ViT5Attention,
    ViT5ClassificationNet,
    ViT5ResidualBlock,
    reset_parameters,
)
from residual_edu.gradient_flow import GradientFlowRecorder

C, PROCESSES, ROWS, STEPS = 8, 2, 4, 3
QUANTITIES = ["activation", "added", "stream_gradient", "skip_gradient", "branch_gradient", "weight_gradient"]


def language_model() -> nn.Module:
    """A language model with rotary positions and a head of its own."""
    sizes = {"d_model": C, "n_heads": 2, "n_kv_heads": 1, "d_ff": 12, "max_seq_len": 6, "kv_lora_rank": 3}
    config = BlockConfig(**sizes, position="rope", attention="gqa", ffn="gated", norm="rms_norm")
    return LanguageModel(ModelConfig(config, vocab_size=7, n_layers=3, tie_embeddings=False))


def vision_transformer() -> nn.Module:
    """ViT-5 for pictures of 6 x 6 pixels, with a CLS token and registers."""
    norm, mixer = partial(RMSNorm, C), partial(ViT5Attention, C, 2, 3, 3, 2, True)
    block = partial(ViT5ResidualBlock, mixer, norm, partial(MLP, C, "gelu", nn.Identity), norm, C)
    sizes = {"in_channels": 3, "num_classes": 5, "hidden_dim": C, "num_blocks": 3, "patch_size": 2, "image_size": 6}
    return ViT5ClassificationNet(**sizes, num_registers=2, block_cfg=block, norm_cfg=norm, readout="cls")


NETWORKS = {"language model": language_model, "vision transformer": vision_transformer}
CASES = [*product(NETWORKS, ["ddp", "fsdp"], [1, 2]), *product(NETWORKS, ["meta"], [1])]


def built(name: str) -> nn.Module:
    """Build a network in float64, the same in each process, with every branch at work."""
    torch.manual_seed(0)
    model = NETWORKS[name]().double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def from_meta(name: str) -> nn.Module:
    """Build a network without memory for its parameters."""
    with torch.device("meta"):
        return NETWORKS[name]().double()


def batch(name: str, step: int) -> tuple[Tensor, Tensor]:
    """Return the inputs and targets of a step, those of all processes."""
    draw = torch.Generator().manual_seed(step)
    if name != "vision transformer":
        tokens = torch.randint(7, (PROCESSES * ROWS, 6), generator=draw)
        return tokens[:, :-1], tokens[:, 1:]
    images = torch.randn(PROCESSES * ROWS, 6, 6, 3, generator=draw, dtype=torch.float64)
    return images, torch.randint(5, (PROCESSES * ROWS,), generator=draw)


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross-entropy."""
    found = model(x)
    logits = found[0] if isinstance(found, tuple) else found
    return cross_entropy(logits.flatten(0, -2), y.flatten())


def spread(model: nn.Module, way: str) -> nn.Module:
    """Return ``model`` as the two processes share it: by DDP, by FSDP2 (also from the meta device), or alone."""
    if way == "ddp":
        return DistributedDataParallel(model)
    if way != "alone":
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    return model


def whole(x: Tensor) -> Tensor:
    """Return all of a sharded tensor, and any other as it is."""
    return (x.full_tensor() if hasattr(x, "full_tensor") else x).detach().clone()


def trained(name: str, way: str, part: slice, sums: int = 1) -> dict[str, object]:
    """Train on a part of each batch, ``sums`` backward passes for a step; return what is to be compared."""
    model = from_meta(name) if way == "meta" else built(name)
    run = spread(model, way)
    if way == "meta":
        model.to_empty(device="cpu")
        every = StateDictOptions(full_state_dict=True)
        set_model_state_dict(model, built(name).state_dict(), options=every)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses, gradients = [], []
    with GradientFlowRecorder(run, model.blocks) as flow:
        for step in range(STEPS):
            x, y = (values[part] for values in batch(name, step))
            for micro in zip(x.chunk(sums), y.chunk(sums), strict=True):
                loss = loss_of(run, *micro) / sums
                loss.backward()
                losses.append(loss.item())
            gradients.append({key: whole(p.grad) for key, p in model.named_parameters()})
            optimizer.step()
            optimizer.zero_grad()
    shards = [sum(shard(p).numel() for p in block.parameters()) for block in model.blocks]
    sizes = {quantity: getattr(flow, quantity) for quantity in QUANTITIES}
    return {
        "losses": torch.tensor(losses, dtype=torch.float64),
        "gradients": gradients,
        "sizes": sizes,
        "shards": shards,
    }


def shard(x: Tensor) -> Tensor:
    """Return what this process has of a tensor."""
    return x.to_local() if hasattr(x, "to_local") else x


def started(name: str) -> dict[str, Tensor]:
    """Build a network on the meta device, share it by FSDP2, give it memory and only then starting values."""
    model = from_meta(name)
    spread(model, "fsdp")
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        nn.init.constant_(parameter, torch.nan)
    torch.manual_seed(dist.get_rank())  # under one seed the shards of all processes would be the same numbers
    reset_parameters(model)
    return {key: whole(parameter) for key, parameter in model.named_parameters()}


def main(out: str) -> None:
    """Train each network in each way, and write what was found."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    part = slice(rank * ROWS, (rank + 1) * ROWS)
    found = {(name, way, sums): trained(name, way, part, sums) for name, way, sums in CASES}
    found |= {name: started(name) for name in NETWORKS}
    torch.save(found, Path(out) / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
