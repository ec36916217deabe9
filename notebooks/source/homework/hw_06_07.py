# %% [markdown]
# # Homework for lessons 06 and 07 · Conditions
#
# 40 minutes. It needs lessons 06 and 07, and of the library only what they finished.
#
# By the end you can
#
# - **modulate** a branch of any signal so that the block begins as the identity;
# - **write** the recipe of a block that listens to a condition, and build it as often as you like.
#
# Below each exercise stand tests that you can read. It is graded with others as well, on other inputs.

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
from residual_edu.lesson import setup

device = setup()

# %% [markdown]
# ## One branch, one condition
#
# Lesson 06 had two branches, and so six pieces. Here is one branch: shift, scale and gate, each as wide as x. At the
# start all three are zero, whatever the condition says. **Is a scale of zero a branch that hears nothing?**

# %%
project = zero_projection(8, branches=1)
condition = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
pieces = project(condition)
print(tuple(pieces.shape), "all zero:", not pieces.any())

# %% [markdown]
# ### Exercise 1 · 15 minutes · ●●●○○
#
# Return what a block with one modulated branch makes of x, (batch, ..., 8 channels or another number) with any axes
# between: x + gate · layer(norm(x) · (1 + scale) + shift). `projection` is a `zero_projection` of one branch, perhaps
# after training, and `condition` is (batch, channels).
#
# <details><summary>Hint 1</summary><code>modulations</code> cuts what was projected, and wants to know how many axes x
# has and how many branches there are. It returns a list.</details>
# <details><summary>Hint 2</summary><code>(piece,) = modulations(projection(condition), x.ndim, branches=1)</code>, and then
# <code>pre_norm_residual</code> with <code>piece.modulate(norm)</code> as the norm and <code>piece.apply_gate</code> among the
# gates.</details>


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
    assert torch.equal(modulated(x, condition, layer, norm, project), x), "at the start the block is the identity"

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "modulated-hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
torch.manual_seed(61)
trained, plain = zero_projection(6, branches=1), LayerNorm(6, elementwise_affine=False)
for p in trained.parameters():
    nn.init.normal_(p, std=0.5)
mlp, cues = SimpleFeedForward(6, 12), torch.randn(3, 6)
with torch.no_grad():
    for axes in ((4,), (4, 2), (2, 3, 2), ()):
        signal = torch.randn(3, *axes, 6)
        shift, scale, gate = (z.view(3, *[1] * len(axes), 6) for z in trained(cues).chunk(3, dim=-1))
        wanted = signal + gate * mlp(plain(signal) * (1 + scale) + shift)
        error = (modulated(signal, cues, mlp, plain, trained) - wanted).abs().max()
        assert float(error) < 1e-5, f"after training, with {len(axes)} axes between"
fresh, quiet = zero_projection(6, branches=1), torch.randn(3, 4, 6)
modulated(quiet, cues, mlp, plain, fresh).square().sum().backward()
heard = fresh[1].weight.grad.abs().sum(1).view(3, 6).sum(1)
assert float(heard[0]) == float(heard[1]) == 0 and float(heard[2]) > 0, (
    "in the first step the gate alone hears something"
)
### END HIDDEN TESTS

# %% [markdown]
# ## A recipe that listens
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
# Return the recipe, `LazyConfig(ResidualBlock)(...)`, of a block for signals of `width` channels and any number of axes:
#
# - positions do not hear each other: no sequence mixer;
# - each position hears a condition by cross-attention, with `heads` heads, no norm of queries and keys and no rotary
#   embedding: the condition has no order;
# - then an MLP four times as wide, with gelu and no dropout;
# - a LayerNorm of its own before each of the two, and nothing that drops.
#
# <details><summary>Hint 1</summary>Which of the three branches is left out, and what is said in its place and in the
# place of its norm?</details>
# <details><summary>Hint 2</summary><code>condition_mixer_cfg</code> is a recipe of <code>QKVConditionMixer</code>, whose
# <code>mixer_cfg</code> is a recipe of <code>Attention</code>. The MLP's <code>expansion_factor</code> is 4.</details>


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
    assert isinstance(recipe, partial) and recipe.func is ResidualBlock, "a recipe of a ResidualBlock"
    signal, words = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    assert build(recipe)(signal, words).shape == signal.shape

# %% tags=["hidden-test"] nbgrader={"grade": true, "grade_id": "listening-recipe-hidden", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
made = listening_recipe(12, 3)
one, two = made(), made()
assert not {id(p) for p in one.parameters()} & {id(p) for p in two.parameters()}, "two blocks share weights"
assert sum(p.numel() for p in one.parameters()) == 12 * 12 * (4 + 8) + 4 * 12, "the number of parameters"
assert one.condition_mixer.mixer.num_heads == 3, "the number of heads"
torch.manual_seed(62)
picture, notes = torch.randn(2, 4, 3, 12), torch.randn(2, 5, 12)
with torch.no_grad():
    said = one(picture, notes)
    assert float((one(picture, notes.flip(1)) - said).abs().max()) < 1e-5, "the condition has no order"
    other = notes.clone()
    other[:, 2] += 3
    assert bool(((one(picture, other) - said).abs().amax(-1) > 1e-4).all()), "every position hears the condition"
    poked = picture.clone()
    poked[:, 1, 1] += torch.arange(12.0)
    moved = (one(poked, notes) - said).abs().amax(-1) > 1e-6
    assert bool(moved[:, 1, 1].all()) and int(moved.sum()) == 2, "no position hears another"
    asked = picture + one.condition_mixer(one.condition_mixer_norm(picture), notes)
    assert float((asked + one.mlp(one.mlp_norm(asked)) - said).abs().max()) < 1e-5, "the two branches in order"
    gelu = nn.functional.gelu(picture @ one.mlp.layer1.weight.T) @ one.mlp.layer2.weight.T
    assert float((one.mlp(picture) - gelu).abs().max()) < 1e-5, "gelu"
### END HIDDEN TESTS

# %% [markdown]
# | what you used | where it holds |
# |---|---|
# | a gate of zero makes the block the identity, bit for bit, and hears a gradient itself | branches that are not silent themselves |
# | a recipe builds new weights each time, a module is shared | whatever `build` takes |
# | cross-attention does not hear the order of its condition | without rotary embedding, and any number of heads |
