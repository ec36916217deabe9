"""What lesson 01 and its investigation read: python notebooks/runs/01.py writes it. Peers need transformers, timm."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from residual_course.datasets import digits
from residual_course.training import accuracy, minibatches, train
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


Wiring = Callable[[Tensor, nn.Module, int], Tensor]


def norm(x: Tensor) -> Tensor:
    """Return x with mean 0 and variance 1."""
    return F.layer_norm(x, (64,))


def gated(g: float) -> Wiring:
    """Return x + g f(x)."""
    return lambda x, f, place: x + g * f(x)


WIRINGS: dict[str, Wiring] = {
    "(x + f(x))/√2": lambda x, f, place: (x + f(x)) / 2**0.5,
    "x + f(norm(x))": lambda x, f, place: x + f(norm(x)),
    "x + f(x)/√(1 + l)": lambda x, f, place: x + f(x) / (1 + place) ** 0.5,
    "norm, branch like x": lambda x, f, place: x + x.detach().std(-1, keepdim=True) * f(norm(x)),
    "x + f(x)/2": gated(1 / 2),
    "x + f(x)/4": gated(1 / 4),
    "x + f(x)/8": gated(1 / 8),
    "x + f(x)/1000": gated(1 / 1000),
}
LONG = {"(x + f(x))/√2": ((3e-4, 600), (1e-4, 60), (1e-4, 600)), "x + f(x)/1000": ((3e-4, 600),)}


class Block(nn.Module):
    """A wiring of x and f, with He's weights; f returns something about as large as what it receives."""

    def __init__(self, wiring: Wiring, place: int) -> None:
        super().__init__()
        self.wiring, self.place = wiring, place
        self.f = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        nn.init.kaiming_normal_(self.f[0].weight)
        nn.init.kaiming_normal_(self.f[2].weight, nonlinearity="linear")
        nn.init.zeros_(self.f[0].bias), nn.init.zeros_(self.f[2].bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the stream after the block."""
        return self.wiring(x, self.f, self.place)


def healthy() -> None:
    """Train the networks of the investigation, and a head alone on their untrained blocks."""
    data = digits()
    mean, std = data.train_images.mean(), data.train_images.std()
    train_x, test_x = (((x - mean) / std).flatten(1) for x in data[::2])
    train_y, test_y = data[1::2]

    def network(name: str, seed: int) -> nn.Sequential:
        torch.manual_seed(seed)
        blocks = [Block(WIRINGS[name], place) for place in range(64)]
        return nn.Sequential(*blocks, nn.LayerNorm(64), nn.Linear(64, 10))

    def fit(net: nn.Module, x: Tensor, rate: float, steps: int, seed: int) -> None:
        batches = minibatches(x, train_y, seed=seed)
        train(lambda x, y: F.cross_entropy(net(x), y), batches, torch.optim.Adam(net.parameters(), rate), steps)

    def probe(net: nn.Sequential, seed: int) -> float:
        with torch.no_grad():
            x, test = net[:-1](train_x), net[:-1](test_x)
            x, test = ((one - x.mean(0)) / x.std(0) for one in (x, test))
        torch.manual_seed(0)
        head = nn.Linear(64, 10)
        fit(head, x, 0.03, 300, seed)
        return round(accuracy(head, test, test_y), 3)

    runs = {}
    for seed in range(3):
        found = {}
        for name in WIRINGS:
            found[f"{name}, probe"] = probe(network(name, seed), seed)
            for rate, steps in ((3e-4, 60), *LONG.get(name, ())):
                net = network(name, seed)
                fit(net, train_x, rate, steps, seed)
                found[f"{name}, {rate:g}, {steps}"] = round(accuracy(net, test_x, test_y), 3)
        runs[str(seed)] = found
        print(seed, found, flush=True)
    store("01_healthy_curves", {"within": 0.2}, runs)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or ["peers", "healthy"]:
        globals()[name]()
