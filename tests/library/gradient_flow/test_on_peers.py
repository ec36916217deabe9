"""On other libraries' networks, small and drawn at random: what is recorded is what plain autograd gives.

They are the extra ``peers`` of pyproject.toml, which ``python course.py test --all`` installs.
"""

import re
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from residual_edu.gradient_flow import GradientFlowRecorder

from .stacks import hooks, rms

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of others
TOKENS = torch.randint(0, 50, (3, 7), generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()
PAGE = Path(__file__).parents[3] / "docs/your_network.md"
SIZES = {"vocab_size": 50, "use_cache": False}


@pytest.fixture(scope="module", autouse=True)
def operators():
    """PyPI's torchvision is built for CUDA: beside a torch without, it looks in vain for two operators of detection.

    Neither library can be imported then, though no network here calls them; so they are declared.
    """
    with suppress(ImportError):
        try:
            import torchvision  # noqa: F401
        except RuntimeError:
            for name in ("nms", "qnms"):
                torch.library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float overlap) -> Tensor")


def gpt2():
    transformers = pytest.importorskip("transformers")
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = transformers.GPT2Config(n_layer=3, n_embd=16, n_head=2, n_positions=8, **SIZES, **dropouts)
    model = transformers.GPT2LMHeadModel(config)
    return model, model.transformer.h


def llama():
    transformers = pytest.importorskip("transformers")
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=3, **heads, **SIZES)
    model = transformers.LlamaForCausalLM(config)
    return model, model.model.layers


def vit():
    timm = pytest.importorskip("timm")
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 3, "num_heads": 2, "num_classes": 5}
    model = timm.models.VisionTransformer(**sizes)
    return model, model.blocks


def convnext():
    timm = pytest.importorskip("timm")
    model = timm.models.ConvNeXt(num_classes=5, depths=(1, 2, 1, 1), dims=(4, 8, 12, 16))
    return model, [block for stage in model.stages for block in stage.blocks]


def checkpointed(model, reentrant):
    if hasattr(model, "set_grad_checkpointing"):
        model.set_grad_checkpointing(True)  # timm has one way
    else:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})


def loss_of(model):
    if hasattr(model, "set_grad_checkpointing"):
        return cross_entropy(model(IMAGES), torch.arange(3))
    return model(input_ids=TOKENS, labels=TOKENS).loss


def by_autograd(model, blocks):
    """The stream's sizes and those of its gradients, by ``torch.autograd.grad``; of the weights' by ``.grad``."""
    stream, last = [], []
    seen = [block.register_forward_pre_hook(lambda block, args: stream.append(args[0])) for block in blocks]
    seen.append(
        blocks[-1].register_forward_hook(lambda block, args, y: last.append(y[0] if isinstance(y, tuple) else y))
    )
    loss = loss_of(model)
    stream += last
    gradients = torch.autograd.grad(loss, stream, retain_graph=True)
    loss.backward()
    for hook in seen:
        hook.remove()
    weights = [torch.cat([weight.grad.flatten() for weight in block.parameters()]) for block in blocks]
    sizes = {"activation": stream, "stream_gradient": gradients, "weight_gradient": weights}
    return {name: torch.stack(list(map(rms, each))) for name, each in sizes.items()}


@pytest.mark.parametrize("checkpointing", [None, False, True], ids=["plain", "checkpointed", "reentrant"])
@pytest.mark.parametrize("peer", [gpt2, llama, vit, convnext], ids=lambda peer: peer.__name__)
def test_the_sizes_are_those_of_autograd(peer, checkpointing):
    model, blocks = peer()
    model = model.double().train()
    want = by_autograd(model, blocks)
    if checkpointing is not None:
        checkpointed(model, checkpointing)
    before = hooks(model)  # Hugging Face's own
    with GradientFlowRecorder(model, blocks) as flow:
        for _ in range(2):
            model.zero_grad()
            loss_of(model).backward()
    assert flow.added.shape == (2, len(blocks)) and hooks(model) == before
    for name, each in want.items():
        torch.testing.assert_close(getattr(flow, name), each.expand(2, -1), rtol=1e-10, atol=1e-12, msg=name)


def test_the_page_on_your_own_network_runs_and_shows_what_it_says(tmp_path, monkeypatch):
    for library in ("transformers", "timm"):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        exec(block, scope)
    falls = {name: flow.stream_gradient[-1, -1] / flow.stream_gradient[-1, 0] for name, flow in scope["flows"].items()}
    assert falls.pop("no skips") > 500 and list(falls) == ["GPT-2", "Llama", "ViT"] and max(falls.values()) <= 1
    assert (tmp_path / "your_network.png").read_bytes().startswith(b"\x89PNG")
