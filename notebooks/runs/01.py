"""What lesson 01 and its investigation read: python notebooks/runs/01.py writes it. `peers` needs those two packages."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_edu.gradient_flow import GradientFlowRecorder

DATA = Path(__file__).parents[2] / "residual_course" / "data" / "runs"


def store(name: str, settings: dict[str, Any], runs: dict[str, Any]) -> None:
    """Write what ``stored_runs(name)`` reads."""
    text = json.dumps({"settings": settings, "runs": runs}, indent=1, ensure_ascii=False)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def sizes(model: nn.Module, blocks: nn.ModuleList, loss: Any) -> list[list[float]]:
    """Return three sizes at each block: after it of x and of the gradient, and of its weights' gradients."""
    with GradientFlowRecorder(model, blocks) as flow:
        loss().backward()
    found: list[Tensor] = [flow.activation[0, 1:], flow.stream_gradient[0, 1:], flow.weight_gradient[0]]
    return [[float(f"{number:.4g}") for number in each] for each in found]


def peers() -> None:
    """Record three networks of other libraries, as lesson 01 builds them."""
    import timm
    import transformers

    torch.manual_seed(0)
    tokens, images = torch.randint(1000, (4, 64)), torch.randn(4, 3, 224, 224)
    found = {}
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=256, n_head=4))
    found["GPT-2"] = sizes(gpt2, gpt2.transformer.h, lambda: gpt2(tokens, labels=tokens).loss)
    more = {"hidden_size": 256, "intermediate_size": 688, "num_attention_heads": 4}
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=12, **more))
    found["Llama"] = sizes(llama, llama.model.layers, lambda: llama(tokens, labels=tokens).loss)
    vit = timm.create_model("vit_tiny_patch16_224", num_classes=10)
    found["ViT"] = sizes(vit, vit.blocks, lambda: F.cross_entropy(vit(images), torch.arange(4)))
    versions = {"transformers": transformers.__version__, "timm": timm.__version__, "torch": torch.__version__}
    store("01_gradient_flow", versions, {"0": found})


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or ["peers"]:
        globals()[name]()
