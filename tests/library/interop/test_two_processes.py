"""Two processes, each with half of a batch, train as one process with all of it: DDP, and FSDP2 from the meta device.

Each has a recorder: what both measured joins to what one measures.
"""

from functools import partial
from itertools import product

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import residual_edu as library
from residual_edu.gradient_flow import GradientFlowRecorder

pytestmark = pytest.mark.slow
C, PROCESSES, ROWS, STEPS = 8, 2, 4, 3
SIZES = ["activation", "added", "stream_gradient", "skip_gradient", "branch_gradient"]


def language_model():
    sizes = {"d_model": C, "n_heads": 2, "n_kv_heads": 1, "d_ff": 12, "max_seq_len": 6}
    config = library.BlockConfig(**sizes, position="rope", attention="gqa", ffn="gated", norm="rms_norm")
    return library.LanguageModel(library.ModelConfig(config, vocab_size=7, n_layers=3, tie_embeddings=False)).double()


def vision_transformer():
    norm, mixer = partial(library.RMSNorm, C), partial(library.ViT5Attention, C, 2, 3, 3, 2, True)
    block = partial(library.ViT5ResidualBlock, mixer, norm, partial(library.MLP, C, "gelu", nn.Identity), norm, C)
    return library.ViT5ClassificationNet(3, 5, C, 3, 2, 6, 2, block, norm).double()


NETWORKS = {"language model": language_model, "vision transformer": vision_transformer}
CASES = list(product(NETWORKS, ["ddp", "fsdp"], [1, 2]))  # a network, a way, and the backward passes of a step


def built(name, way="alone"):
    """The same network in each process, with every branch at work, shared out by DDP or FSDP2."""
    torch.manual_seed(0)
    model = NETWORKS[name]()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    for part in [*model.blocks, model] if way == "fsdp" else []:
        fully_shard(part)
    return model, DistributedDataParallel(model) if way == "ddp" else model


def batch(name, step):
    draw = torch.Generator().manual_seed(step)
    tokens = torch.randint(5, (PROCESSES * ROWS, 6), generator=draw)
    if name == "language model":
        return tokens[:, :-1], tokens[:, 1:]
    return torch.randn(PROCESSES * ROWS, 6, 6, 3, generator=draw, dtype=torch.float64), tokens[:, 0]


def loss_of(model, x, y):
    found = model(x)
    logits = found[0] if isinstance(found, tuple) else found
    return cross_entropy(logits.flatten(0, -2), y.flatten())


def whole(x):
    return (x.full_tensor() if hasattr(x, "full_tensor") else x).detach().clone()


def shard(x):
    return x.to_local() if hasattr(x, "to_local") else x


def trained(name, way, part, sums=1):
    """Train on a part of each batch; return losses, gradients, what the recorder measured, and the shards' sizes."""
    model, run = built(name, way)
    optimizer, losses, gradients = torch.optim.AdamW(model.parameters(), 1e-2), [], []
    with GradientFlowRecorder(run, model.blocks) as flow:
        for step in range(STEPS):
            x, y = (values[part] for values in batch(name, step))
            for micro in zip(x.chunk(sums), y.chunk(sums), strict=True):
                losses.append(loss_of(run, *micro) / sums)
                losses[-1].backward()
            gradients.append({key: whole(weight.grad) for key, weight in model.named_parameters()})
            optimizer.step()
            optimizer.zero_grad()
    sizes = {key: getattr(flow, key) for key in [*SIZES, "weight_gradient"]}
    counts = torch.tensor([sum(shard(weight).numel() for weight in block.parameters()) for block in model.blocks])
    return torch.stack(losses).detach(), gradients, sizes, counts


def started(name):
    """Build on the meta device, share by FSDP2, and only then give memory and starting values."""
    with torch.device("meta"):
        model = NETWORKS[name]()
    for part in [*model.blocks, model]:
        fully_shard(part)
    model.to_empty(device="cpu")
    for weight in model.parameters():
        nn.init.constant_(weight, torch.nan)
    torch.manual_seed(dist.get_rank())  # under one seed the shards of all processes would be the same numbers
    library.reset_parameters(model)
    return {key: whole(weight) for key, weight in model.named_parameters()}


def work(rank, out):
    """What each process does."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{out}/store", rank=rank, world_size=PROCESSES)
    part = slice(rank * ROWS, (rank + 1) * ROWS)
    found = {(name, way, sums): trained(name, way, part, sums) for name, way, sums in CASES}
    torch.save(found | {name: started(name) for name in NETWORKS}, f"{out}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What the two processes found."""
    from tests.library.interop import test_two_processes as importable  # pytest calls this file by another name

    out = tmp_path_factory.mktemp("processes")
    torch.multiprocessing.spawn(importable.work, (out,), PROCESSES)
    return [torch.load(out / f"{rank}.pt") for rank in range(PROCESSES)]


close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-12)


def joined(sizes, counts):
    """The root mean square of numbers from those of their parts, each of so many; a part without numbers has nan."""
    squares = sum(size.nan_to_num().square() * count for size, count in zip(sizes, counts, strict=True))
    return (squares / sum(counts)).sqrt()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_the_training_of_one_process(both, case):
    name, way, sums = case
    losses, gradients, sizes, _ = trained(name, "alone", slice(None))
    found = [each[case] for each in both]
    close(sum(each[0].view(STEPS, sums).sum(1) for each in found) / PROCESSES, losses)
    assert all(close(each[1], gradients) is None for each in found)
    for key in SIZES if sums == 1 else []:
        factor = PROCESSES if "gradient" in key else 1  # each loss is the mean of half the batch
        close(joined([each[2][key] for each in found], [ROWS] * PROCESSES), factor * sizes[key])
    weights = [each[2]["weight_gradient"][sums - 1 :: sums] for each in found]
    close(joined(weights, [each[3] for each in found]), sizes["weight_gradient"])


@pytest.mark.parametrize("name", NETWORKS)
def test_started_as_shards_each_weight_has_the_size_that_it_is_built_with(both, name):
    first, second = (each[name] for each in both)
    close(first, second)
    for key, weight in NETWORKS[name]().named_parameters():
        assert first[key].isfinite().all() and 0.2 < (first[key].norm() + 1e-9) / (weight.norm() + 1e-9) < 5, key
        halves = first[key].chunk(PROCESSES)
        assert not halves[0].equal(halves[-1]) or weight.std() == 0, key
