# %% [markdown]
# # Homework for lessons 06 and 07 · Conditions
#
# 40 minutes. It needs lessons 06 and 07, and of the library only what they finished.
#
# By the end you can
#
# - **modulate** a branch of any signal so that the block begins as the identity;
# - **write** the recipe of a block that attends to a condition, and build it as often as you like.
#
# Below each exercise are tests that you can read. It is graded with others as well, on other inputs.

# %%
from functools import partial

import torch
from torch import nn

from residual_edu import (
    MLP,
    Attention,
    LayerNorm,
    LazyConfig,
    QKVConditionMixer,
    ResidualBlock,
    SimpleFeedForward,
    build,
    modulations,
    pre_norm_residual,
    zero_projection,
)
from residual_edu.exercises import attempt
from residual_edu.exercises.properties import close
from residual_edu.exercises.unchanged import unchanged
from residual_edu.lesson import setup

device = setup()

# %% [markdown]
# ## One branch, one condition
#
# Lesson 06 had two branches, and so six pieces. Here is one branch: shift, scale and gate, each as wide as x. At the
# start all three are zero for every condition. **With a scale of zero, is the input of the layer zero?**

# %%
project = zero_projection(8, branches=1)
condition = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
pieces = project(condition)
print(tuple(pieces.shape), "all zero:", not pieces.any())

# %% [markdown]
# ### Exercise 1 · 15 minutes · ●●●○○
#
# Return the output of a block with one modulated branch. Its input x is (batch, ..., channels), with any axes between
# and any number of channels: x + gate · layer(norm(x) · (1 + scale) + shift). `projection` is a `zero_projection` of
# one branch, perhaps after training, and `condition` is (batch, channels).
#
# <details><summary>Hint 1</summary><code>modulations</code> splits the projected condition; it takes the number of axes
# of x and the number of branches (2 if left out), and returns a list.</details>
# <details><summary>Hint 2</summary>Each element of that list has two methods. One takes a norm and returns the
# modulated norm; the other can be used as a gate of <code>pre_norm_residual</code>.</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "modulated", "locked": false, "schema_version": 3, "solution": true, "task": false}
def modulated(x, condition, layer, norm, projection):
    """Return x after its one branch."""
    ### BEGIN SOLUTION
    (spoken,) = modulations(projection(condition), x.ndim, branches=1)
    return pre_norm_residual(x, layer, spoken.modulate(norm), [spoken.apply_gate])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "modulated-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("modulated"):
    layer, norm = SimpleFeedForward(8, 16), LayerNorm(8, elementwise_affine=False)
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    close(
        modulated(x, condition, layer, norm, project), x, "at the start, where every gate is zero, the output", rtol=0
    )
    cue = torch.tensor([[2.0], [1.0]], requires_grad=True)  # shift, scale and gate: 2, 4, 6 and 1, 2, 3
    for one in (torch.full((2, 1, 1), 2.0), torch.full((2, 1), 2.0)):
        with unchanged(x=one, condition=cue):
            found = modulated(one, cue, torch.square, lambda z: z + 1, lambda c: torch.cat([c, 2 * c, 3 * c], -1))
        wanted = torch.tensor([1736.0, 302.0]).view(one.shape)  # 2 + 6 (3 (1 + 4) + 2)², 2 + 3 (3 (1 + 2) + 1)²
        close(found, wanted, f"norm = z + 1, layer = z², x = 2 of {one.ndim} axes, two samples: the output")
    assert found.requires_grad, "the gradient of the condition: got none, wanted one"
    found = modulated(x, condition, layer, norm, project).sum()
    assert found.requires_grad, "the gradient of the projection: got none, wanted one"
    (slope,) = torch.autograd.grad(found, project[1].weight, allow_unused=True, materialize_grads=True)
    received = [bool(third.any()) for third in slope.chunk(3)]
    assert received == [False, False, True], (
        f"a gradient for shift, scale and gate at the start: got {received}, wanted [False, False, True]"
    )

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "modulated-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(61)
trained, plain = zero_projection(6, branches=1), LayerNorm(6, elementwise_affine=False)
for p in trained.parameters():
    nn.init.normal_(p, std=0.5)
mlp, cues = SimpleFeedForward(6, 12), torch.randn(3, 6).requires_grad_()
leaves = [cues, *trained.parameters(), *mlp.parameters()]
for axes in ((4,), (4, 2), (2, 3, 2), ()):
    signal = torch.randn(3, *axes, 6).requires_grad_()
    shift, scale, gate = (z.view(3, *[1] * len(axes), 6) for z in trained(cues).chunk(3, dim=-1))
    want = signal + gate * mlp(plain(signal) * (1 + scale) + shift)
    got, what = modulated(signal, cues, mlp, plain, trained), f"after training, with {len(axes)} axes between: "
    close(got, want, what + "the output")
    pull = torch.randn(signal.shape)
    wanted = torch.autograd.grad((pull * want).sum(), [signal, *leaves])
    assert got.requires_grad, what + "got an output without a gradient, wanted one"
    found = torch.autograd.grad((pull * got).sum(), [signal, *leaves], allow_unused=True)
    for place, (mine, right) in enumerate(zip(found, wanted, strict=True)):
        name = ("x", "the condition")[place] if place < 2 else f"parameter {place - 1} of projection and layer"
        assert mine is not None, f"{what}the gradient of {name}: got none, wanted one"
        close(mine, right, f"{what}the gradient of {name}")
fresh, quiet = zero_projection(6, branches=1), torch.randn(3, 4, 6)
modulated(quiet, cues, mlp, plain, fresh).square().sum().backward()
assert fresh[1].weight.grad is not None, "the projection: got no gradient in the first step, wanted one in the gate"
moved = (fresh[1].weight.grad.abs().sum(1).view(3, 6).sum(1) > 0).tolist()
assert moved == [False, False, True], (
    f"a gradient in shift, scale and gate in the first step: got {moved}, wanted [False, False, True]"
)
### END HIDDEN TESTS

# %% [markdown]
# ## A recipe with a condition
#
# A recipe is a call that has not happened yet, so one recipe gives as many blocks as are wanted, each with weights of
# its own. A finished module in its place would be handed to all of them:

# %%
shared, recipe = MLP(8, "gelu", nn.Identity), LazyConfig(MLP)(dim=8, activation="gelu", dropout_cfg=nn.Identity)
for spec in (shared, recipe):
    print("two blocks, one MLP:", build(spec) is build(spec))

# %% [markdown]
# ### Exercise 2 · 20 minutes · ●●●●○
#
# Return the recipe, `LazyConfig(ResidualBlock)(...)`, of a block for signals of `width` channels and any number of
# axes:
#
# - no position depends on another one: no sequence mixer;
# - each position attends to a condition by cross-attention, with `heads` heads, no norm of queries and keys and no
#   rotary embedding: the condition has no order;
# - then an MLP four times as wide, with gelu and no dropout;
# - a LayerNorm of its own before each of the two, and nothing that drops.
#
# <details><summary>Hint 1</summary>Which of the three branches is left out, and what is given for it and for its
# norm?</details>
# <details><summary>Hint 2</summary>Recipes nest: the block's recipe takes one for its condition mixer, and that takes
# one for its attention. Which keywords does the text set, and which of them differ from their default?</details>


# %% tags=["exercise", "homework"] nbgrader={"grade": false, "grade_id": "listening-recipe", "locked": false, "schema_version": 3, "solution": true, "task": false}
def listening_recipe(width, heads):
    """Return the recipe of a ResidualBlock with cross-attention and an MLP."""
    ### BEGIN SOLUTION
    before = LazyConfig(LayerNorm)(dim=width)
    asking = LazyConfig(Attention)(hidden_dim=width, num_heads=heads, apply_qk_norm=False, use_rope=False)
    return LazyConfig(ResidualBlock)(
        sequence_mixer_cfg=nn.Identity,
        sequence_mixer_norm_cfg=nn.Identity,
        condition_mixer_cfg=LazyConfig(QKVConditionMixer)(hidden_dim=width, mixer_cfg=asking),
        condition_mixer_norm_cfg=before,
        mlp_cfg=LazyConfig(MLP)(dim=width, activation="gelu", dropout_cfg=nn.Identity, expansion_factor=4),
        mlp_norm_cfg=before,
        dropout_cfg=nn.Identity,
    )
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "listening-recipe-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
with attempt("listening_recipe"):
    recipe = listening_recipe(8, 2)
    assert isinstance(recipe, partial), f"got {type(recipe).__name__}, wanted a recipe: LazyConfig(ResidualBlock)(...)"
    assert recipe.func is ResidualBlock, f"got a recipe of {recipe.func.__name__}, wanted one of ResidualBlock"
    one, two = build(recipe), build(recipe)
    shared = len({id(p) for p in one.parameters()} & {id(p) for p in two.parameters()})
    assert shared == 0, f"parameters that two blocks share: got {shared}, wanted 0"
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in one.named_children()}
    found = {name: size for name, size in sizes.items() if size}
    wanted = {"condition_mixer": 4 * 64, "condition_mixer_norm": 16, "mlp": 8 * 64, "mlp_norm": 16}
    assert found == wanted, f"the numbers of parameters: got {found}, wanted {wanted}"
    signal, words = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    close(one(signal, words.flip(1)), one(signal, words), "the output for the condition in another order", rtol=1e-3)
    hidden = nn.functional.gelu(signal @ one.mlp.layer1.weight.T)
    close(one.mlp(signal), hidden @ one.mlp.layer2.weight.T, "the output of the MLP", rtol=1e-5)

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "listening-recipe-hidden", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
made = listening_recipe(12, 3)
one, two = made(), made()
shared = len({id(p) for p in one.parameters()} & {id(p) for p in two.parameters()})
assert shared == 0, f"parameters that two blocks share: got {shared}, wanted 0"
total = sum(p.numel() for p in one.parameters())
assert total == 12 * 12 * (4 + 8) + 4 * 12, (
    f"the number of parameters: got {total}, wanted {12 * 12 * (4 + 8) + 4 * 12}"
)
torch.manual_seed(62)
picture, notes = 3 * torch.randn(2, 4, 3, 12), 3 * torch.randn(2, 5, 12)
output = one.train()(picture, notes)
close(one(picture, notes), output, "nothing drops: the output in training mode, a second time", rtol=1e-6)
close(one(picture, notes.flip(1)), output, "the output for the condition in another order", rtol=1e-3)
other = notes.clone()
other[:, 2] += 3
reached = int(((one(picture, other) - output).abs().amax(-1) > 1e-4).sum())
assert reached == 24, f"positions that depend on the condition: got {reached} of 24, wanted all"
poked = picture.clone()
poked[:, 1, 1] += torch.arange(12.0)
moved = ((one(poked, notes) - output).abs().amax(-1) > 1e-6).nonzero().tolist()
assert moved == [[0, 1, 1], [1, 1, 1]], f"position [1, 1] changed: got another output at {moved}, wanted it there alone"
cross, normed = one.condition_mixer, one.condition_mixer_norm(picture)
query, key, value = cross.q_proj(normed), *cross.kv_proj(notes).chunk(2, -1)
query, key, value = (z.reshape(2, -1, 3, 4).transpose(1, 2) for z in (query, key, value))
heads = ((query @ key.mT) / 2).softmax(-1) @ value
close(
    cross(normed, notes), cross.out_proj(heads.transpose(1, 2).reshape(2, 4, 3, 12)), "the cross-attention", rtol=1e-3
)
middle = picture + cross(normed, notes)
close(output, middle + one.mlp(one.mlp_norm(middle)), "the output after the two branches", rtol=1e-3)
hidden = nn.functional.gelu(picture @ one.mlp.layer1.weight.T)
close(one.mlp(picture), hidden @ one.mlp.layer2.weight.T, "the output of the MLP", rtol=1e-5)
norms = [type(norm).__name__ for norm in (one.condition_mixer_norm, one.mlp_norm)]
assert norms == ["LayerNorm", "LayerNorm"], f"the norms: got {norms}, wanted two of LayerNorm"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | with a gate of zero the block is the identity, bit for bit, and the gate still receives a gradient | branches whose output is not zero |
# | a recipe builds new weights each time, a module is shared | whatever `build` takes |
# | cross-attention does not depend on the order of its condition | without rotary embedding, any number of heads |
