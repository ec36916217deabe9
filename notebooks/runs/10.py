"""What lesson 10 and its investigation of caches read: python notebooks/runs/10.py writes it, in half an hour."""

import json
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from residual_course.datasets import python_prose
from residual_edu import BlockConfig, LanguageModel, ModelConfig

DATA = Path(__file__).parents[2] / "residual_course" / "data" / "runs"
LENGTH, ROWS, STEPS, RATE = 128, 32, 3000, 2e-3

text = python_prose()
chars = sorted(set(text))
number = {char: i for i, char in enumerate(chars)}
data = torch.tensor([number[char] for char in text])
train, test = data[: 9 * len(data) // 10], data[9 * len(data) // 10 :]


def loss(model: LanguageModel, rows: Tensor) -> Tensor:
    """Return the mean loss of the next character."""
    return F.cross_entropy(model(rows[:, :-1])[0].mT, rows[:, 1:])


def written(model: LanguageModel) -> str:
    """Return 300 characters that continue "If the "."""
    prompt = torch.tensor([[number[char] for char in "If the "]])
    rows = model.generate(prompt, LENGTH - prompt.shape[1], temperature=0.7, seed=1)
    return "".join(chars[i] for i in rows[0].tolist())


def trained() -> dict[str, object]:
    """Train four blocks of 128 features; keep what they write where their loss on new text is lowest."""
    torch.manual_seed(0)
    block = BlockConfig(position="rope", d_model=128, n_heads=4, d_ff=512, max_seq_len=LENGTH, dropout=0.1)
    model = LanguageModel(ModelConfig(block, vocab_size=len(chars), n_layers=4))
    adam = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.1)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, STEPS, pct_start=0.1)
    generator, kept = torch.Generator().manual_seed(0), {}
    new = test[: len(test) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
    for step in range(1, STEPS + 1):
        start = torch.randint(len(train) - LENGTH, (ROWS, 1), generator=generator)
        value = loss(model, train[start + torch.arange(LENGTH + 1)])
        adam.zero_grad()
        value.backward()
        adam.step()
        plan.step()
        if step % 250 == 0:
            model.eval()
            with torch.no_grad():
                found = loss(model, new).item()
            line = {"steps": step, "loss": round(found, 3), "parameters": sum(p.numel() for p in model.parameters())}
            print(line, f"{value.item():.3f}", repr(written(model)), flush=True)
            if not kept or found < kept["loss"]:
                kept = {**line, "text": written(model)}
            model.train()
    return kept


KINDS = {  # with about as many parameters each: what the attention saves goes into the feed-forward network
    "MHA": {"attention": "mha", "d_ff": 256},
    "GQA": {"attention": "gqa", "n_kv_heads": 2, "d_ff": 288},
    "MQA": {"attention": "gqa", "n_kv_heads": 1, "d_ff": 304},
    "MLA": {"attention": "mla", "kv_lora_rank": 16, "d_ff": 296},
}


def by_cache(seed: int, steps: int) -> dict[str, float]:
    """Train two blocks with each kind of cache; return the losses on new text."""
    found = {}
    for name, kind in KINDS.items():
        torch.manual_seed(seed)
        block = BlockConfig(position="rope", d_model=64, n_heads=4, max_seq_len=64, **kind)
        model = LanguageModel(ModelConfig(block, vocab_size=len(chars), n_layers=2))
        adam = torch.optim.AdamW(model.parameters(), 6e-3, weight_decay=0)
        plan = torch.optim.lr_scheduler.OneCycleLR(adam, 6e-3, steps, pct_start=0.1)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            start = torch.randint(len(train) - 64, (16, 1), generator=generator)
            adam.zero_grad()
            loss(model, train[start + torch.arange(65)]).backward()
            adam.step()
            plan.step()
        with torch.no_grad():
            found[f"{name}, {steps} steps"] = round(loss(model, test[: len(test) // 65 * 65].view(-1, 65)).item(), 4)
        print(seed, name, steps, list(found.values())[-1], flush=True)
    return found


def write(name: str, settings: dict[str, object], runs: dict[str, dict[str, object]]) -> None:
    """Write what a notebook reads."""
    text = json.dumps({"settings": settings, "runs": runs}, indent=1, ensure_ascii=False)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    kept = {str(seed): dict(by_cache(seed, 250) | by_cache(seed, 1000)) for seed in range(3)}
    write("10_what_gqa_and_mla_keep", {"rate": 6e-3}, kept)
    write("10_configurable_block", {"length": LENGTH, "rows": ROWS, "rate": RATE}, {"0": trained()})
