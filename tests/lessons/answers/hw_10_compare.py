"""Right and wrong answers to `compare` of the homework of lesson 10."""

from dataclasses import replace

import torch

from residual_edu import BlockConfig, ConfigurableBlock


def size(config):
    return sum(parameter.numel() for parameter in ConfigurableBlock(config).parameters())


def fair(ours, base, whole=round):
    one, two = (size(replace(ours, d_ff=d_ff)) for d_ff in (1, 2))
    return replace(ours, d_ff=max(1, 1 + whole((size(base) - one) / (two - one))))


def told(mine, theirs):
    if max(mine) < min(theirs):
        return "lower"
    return "higher" if min(mine) > max(theirs) else "cannot tell"


def runs(train_loss, ours, base, seeds):
    return [[train_loss(config, seed) for seed in seeds] for config in (ours, base)]


def unequal(train_loss, ours, base, seeds):
    return told(*runs(train_loss, ours, base, seeds))


def base_changed(train_loss, ours, base, seeds):
    return told(*runs(train_loss, ours, fair(base, ours), seeds))


def rounded_down(train_loss, ours, base, seeds):
    return told(*runs(train_loss, fair(ours, base, whole=int), base, seeds))


def as_if_two_matrices(train_loss, ours, base, seeds):
    """Right for a network of two matrices without a bias alone."""
    spare = size(base) - size(ours)
    return told(*runs(train_loss, replace(ours, d_ff=ours.d_ff + round(spare / (2 * ours.d_model))), base, seeds))


def attention_alone(train_loss, ours, base, seeds):
    """Makes up for the attention alone, as if all else were equal."""
    counts = [sum(p.numel() for p in ConfigurableBlock(config).attention.parameters()) for config in (base, ours)]
    each = size(replace(ours, d_ff=2)) - size(replace(ours, d_ff=1))
    d_ff = max(1, base.d_ff + round((counts[0] - counts[1]) / each))
    return told(*runs(train_loss, replace(ours, d_ff=d_ff), base, seeds))


def built_anew(train_loss, ours, base, seeds):
    """Fields of ours are lost."""
    kept = ("attention", "n_kv_heads", "kv_lora_rank", "ffn", "d_model", "n_heads", "max_seq_len", "position", "bias")
    bare = BlockConfig(**{name: getattr(ours, name) for name in kept})
    return told(*runs(train_loss, replace(bare, d_ff=fair(ours, base).d_ff), base, seeds))


def of_means(train_loss, ours, base, seeds):
    mine, theirs = (sum(numbers) for numbers in runs(train_loss, fair(ours, base), base, seeds))
    return "lower" if mine < theirs else "higher" if mine > theirs else "cannot tell"


def seed_by_seed(train_loss, ours, base, seeds):
    gaps = [a - b for a, b in zip(*runs(train_loss, fair(ours, base), base, seeds), strict=True)]
    return "lower" if max(gaps) < 0 else "higher" if min(gaps) > 0 else "cannot tell"


def one_seed(train_loss, ours, base, seeds):
    return told(*runs(train_loss, fair(ours, base), base, seeds[:1]))


def first_seeds(train_loss, ours, base, seeds):
    return told(*runs(train_loss, fair(ours, base), base, range(len(seeds))))


def best_of_each(train_loss, ours, base, seeds):
    mine, theirs = (min(numbers) for numbers in runs(train_loss, fair(ours, base), base, seeds))
    return "lower" if mine < theirs else "higher" if mine > theirs else "cannot tell"


def words_swapped(train_loss, ours, base, seeds):
    return {"lower": "higher", "higher": "lower"}.get(
        word := told(*runs(train_loss, fair(ours, base), base, seeds)), word
    )


def never_tells_higher(train_loss, ours, base, seeds):
    mine, theirs = runs(train_loss, fair(ours, base), base, seeds)
    return "lower" if max(mine) < min(theirs) else "cannot tell"


def equal_is_lower(train_loss, ours, base, seeds):
    mine, theirs = runs(train_loss, fair(ours, base), base, seeds)
    return "lower" if max(mine) <= min(theirs) else told(mine, theirs)


def trains_twice(train_loss, ours, base, seeds):
    matched = fair(ours, base)
    runs(train_loss, matched, base, seeds)
    return told(*runs(train_loss, matched, base, seeds))


def one_by_one(train_loss, ours, base, seeds):
    """Right, with hundreds of blocks."""
    wanted, d_ff = size(base), 1
    while size(replace(ours, d_ff=d_ff)) < wanted:
        d_ff += 1
    nearest = min((d_ff, max(1, d_ff - 1)), key=lambda n: abs(size(replace(ours, d_ff=n)) - wanted))
    return told(*runs(train_loss, replace(ours, d_ff=nearest), base, seeds))


def by_bisection(train_loss, ours, base, seeds):
    wanted, low, high = size(base), 1, 1
    while size(replace(ours, d_ff=high)) < wanted:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(replace(ours, d_ff=middle)) < wanted else (low, middle)
    nearest = min((low, high), key=lambda n: abs(size(replace(ours, d_ff=n)) - wanted))
    return told(*runs(train_loss, replace(ours, d_ff=nearest), base, seeds))


def without_memory(train_loss, ours, base, seeds):
    """Counts on the meta device, trains seed by seed, and compares tensors."""
    with torch.device("meta"):
        matched = fair(ours, base)
    rows = torch.tensor([[train_loss(base, seed), train_loss(matched, seed)] for seed in reversed(seeds)])
    gaps = rows[:, None, 1] - rows[None, :, 0]  # each of ours beside each of base
    return "lower" if (gaps < 0).all() else "higher" if (gaps > 0).all() else "cannot tell"


def by_sorting(train_loss, ours, base, seeds):
    mine, theirs = runs(train_loss, fair(ours, base), base, list(seeds))
    order = sorted([(loss, 0) for loss in mine] + [(loss, 1) for loss in theirs])
    apart = not set(mine) & set(theirs)
    sides = "".join(str(side) for _, side in order)
    n = len(seeds)
    return {"0" * n + "1" * n: "lower", "1" * n + "0" * n: "higher"}.get(sides if apart else "", "cannot tell")


WRONG = {
    "compare": [
        unequal,
        base_changed,
        rounded_down,
        as_if_two_matrices,
        attention_alone,
        built_anew,
        of_means,
        seed_by_seed,
        one_seed,
        first_seeds,
        best_of_each,
        words_swapped,
        never_tells_higher,
        equal_is_lower,
        trains_twice,
        one_by_one,
        lambda train_loss, ours, base, seeds: "cannot tell",
    ],
}


RIGHT = {
    "compare": [by_bisection, without_memory, by_sorting],
}
