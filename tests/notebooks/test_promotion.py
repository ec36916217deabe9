"""What lessons promote: one list of it, and each promoted cell executed as it stands and compared with the package."""

from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path

import jupytext
import pytest
import torch
from torch import nn

import residual_edu
from residual_edu.course.checkout import lessons
from residual_edu.course.drafts import finished
from residual_edu.course.imports import imports_in
from residual_edu.course.lint.cells import tree
from residual_edu.course.pieces import dotted, pieces, pieces_of, targets
from residual_edu.course.promote import difference
from residual_edu.course.refresh import refresh

ROOT = Path(__file__).parents[2]
LESSONS = finished(lessons(ROOT))

# The classes that the lessons must promote, each once, and how one is built and used. The package may hold more.
CLASSES = {
    "configurable.AttentionBase": "AttentionBase(BlockConfig(**sizes)).head_dim",
    "configurable.BlockConfig": "BlockConfig(d_model=8, n_heads=2).head_dim",
    "configurable.ConfigurableBlock": "ConfigurableBlock(BlockConfig(**sizes))(x)[0]",
    "configurable.GQA": "GQA(BlockConfig(**sizes))(x)[0]",
    "configurable.MHA": "MHA(BlockConfig(**sizes))(x)[0]",
    "configurable.MLA": "MLA(BlockConfig(**sizes))(x)[0]",
    "configurable.Registry": "list(Registry('norm', {'b': 'a'}))",
    "configurable.SlidingWindowGQA": "SlidingWindowGQA(BlockConfig(**sizes))(x)[0]",
    "blocks.AdaLNZeroResidualBlock": "AdaLNZeroResidualBlock(mixer, norm, mlp, norm, off, off, 8)(x, c)",
    "blocks.ResidualBlock": "ResidualBlock(mixer, norm, off, off, mlp, norm, off)(x, None)",
    "blocks.ViT5ResidualBlock": "ViT5ResidualBlock(mixer, norm, mlp, norm, 8)(x)",
    "gradient_flow.GradientFlowRecorder": "recorded(GradientFlowRecorder)",
    "mixers.Attention": "Attention(8, 2, True, True)(x, x, x)",
    "mixers.CKConv": "CKConv(1, 8, kernel, nn.Identity, 'double', 'zero')(x)",
    "mixers.ExponentialModulation": "ExponentialModulation(1, 8)(grid, taps)",
    "mixers.GaussianModulation": "GaussianModulation(1, 8)(grid, taps)",
    "mixers.Hyena": "Hyena(conv, nn.Identity, nn.SiLU, nn.Identity, None)(x, x, x)",
    "mixers.KernelFiLMGenerator": "KernelFiLMGenerator(8, 4, 2, init_type='small_random')(c)[0][0]",
    "mixers.Mamba": "Mamba(mamba, bidirectional=True)(x)",
    "mixers.MambaLayer": "MambaLayer(8, d_state=4, headdim=4)(x)",
    "mixers.QKVConditionMixer": "QKVConditionMixer(8, heads)(x, c)",
    "mixers.QKVSequenceMixer": "QKVSequenceMixer(8, heads)(x)",
    "mixers.RegisterCompressConcat": "RegisterCompressConcat(6, 8, 2)(x)",
    "mixers.RegisterPooling": "RegisterPooling(6)(x)",
    "mixers.SIRENKernel": "SIRENKernel(8, 1, 8, 2, 8, 3.0, 6, True)([6])[0]",
    "mixers.SIRENPositionalEmbedding": "SIRENPositionalEmbedding(1, 8, 6, 3.0)([6])[0]",
    "mixers.ViT5Attention": "ViT5Attention(8, 2, 2, 1, 3)(x)",
    "mixers.ViT5HyenaAdapter": "ViT5HyenaAdapter(mixer, 3)(x)",
    "networks.ClassificationResNet": "ClassificationResNet(8, 3, 2, 8, 1, *line)(inputs)['logits']",
    "networks.Denoiser": "Denoiser(2, 4, 8, 1, 10)(digits, digits[:, 0, 0], labels)",
    "networks.ResidualNetwork": "ResidualNetwork(8, 3, 2, 8, 1, *line)(inputs)['logits']",
    "networks.SelfAttention": "SelfAttention(8)(x)",
    "networks.ViT5ClassificationNet": "ViT5ClassificationNet(1, 3, 8, 1, 4, 8, 3, vit5, norm)(digits[..., None])",
    "parts.CausalConv1D": "CausalConv1D(6, 6, 3)(x)",
    "parts.DropPath": "DropPath(0.3)(x)",
    "parts.Dropout": "Dropout(0.3)(x)",
    "parts.GlobalResponseNorm": "GlobalResponseNorm(8)(x)",
    "parts.L2Norm": "L2Norm()(x)",
    "parts.LayerNorm": "LayerNorm(8)(x)",
    "parts.LayerNormalization": "LayerNormalization(8)(x)",
    "parts.LayerScale": "LayerScale(8)(x)",
    "parts.MLP": "MLP(8, 'swiglu', nn.Identity)(x)",
    "parts.Modulation": "Modulation(x, x, x).modulate(torch.tanh)(x)",
    "parts.Patchify": "Patchify(8, 4, 1, 2)(x)",
    "parts.PerHeadRMSNorm": "PerHeadRMSNorm(2, 4)(x)",
    "parts.PositionEmbedding": "PositionEmbedding(8, 1, 6)(x)",
    "parts.RMSNorm": "RMSNorm(8)(x)",
    "parts.ResidualConnection": "ResidualConnection(8, 0.1)(x, torch.tanh)",
    "parts.SimpleFeedForward": "SimpleFeedForward(8, 16)(x)",
    "parts.Unpatchify": "Unpatchify(8, 4, 1, 2)(x)",
    "residual_edu.LazyConfig": "LazyConfig(nn.Linear)(in_features=8, out_features=2)()(x)",
}


def recorded(Recorder):
    """The gradients that a recorder sees in two blocks."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    with Recorder(model, model) as flow:
        model(torch.ones(2, 8)).sum().backward()
    return flow.stream_gradient


def tools():
    """What the expressions of ``CLASSES`` take besides the class: the package's parts, and tensors."""
    heads, norm = partial(residual_edu.Attention, 8, 2, False, False), partial(residual_edu.LayerNorm, 8)
    mixer, mlp = partial(residual_edu.QKVSequenceMixer, 8, heads), partial(residual_edu.SimpleFeedForward, 8, 16)
    kernel = partial(residual_edu.SIRENKernel, 8, 1, 8, 2, 8, 3.0, 6, True)
    conv = partial(residual_edu.CKConv, 1, 8, kernel, nn.Identity, "double", "zero")
    block = partial(residual_edu.ResidualBlock, mixer, norm, nn.Identity, nn.Identity, mlp, norm, nn.Identity)
    tokens = partial(residual_edu.ViT5Attention, 8, 2, 2, 2, 3)
    vit5 = partial(residual_edu.ViT5ResidualBlock, tokens, norm, mlp, norm, 8)
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 16, "max_seq_len": 9, "window_size": 3, "kv_lora_rank": 4}
    mamba = partial(residual_edu.MambaLayer, 8, d_state=4, headdim=4)
    line = [nn.Linear, nn.Linear, norm, block, nn.Identity]
    x, c, digits = torch.randn(2, 6, 8), torch.randn(2, 8), torch.rand(2, 8, 8)
    grid, taps, labels = torch.rand(1, 11, 1), torch.randn(1, 11, 8), torch.tensor([3, 10])
    inputs, off = {"input": x, "condition": None}, nn.Identity
    return {"torch": torch, "nn": nn, "recorded": recorded} | locals()


def names_left_by(lesson):
    """The namespace that a lesson's promoted cells leave behind, executed in order, one after the other.

    A lesson whose promoted cells import nothing is not converted yet: there they see the lesson's imports.
    """
    cells = jupytext.read(lesson, fmt="py:percent").cells
    shown = [cell for cell in cells if targets(cell)]
    space = {"__name__": "a_lesson"}
    if not any(list(imports_in(tree(cell).body)) for cell in shown):
        for each in (each for cell in cells if cell.cell_type == "code" for each in imports_in(tree(cell).body)):
            exec(str(each), space)
    for cell in shown:
        exec(compile(cell.source, f"{lesson.name}, {targets(cell)[0]}", "exec"), space)
    return space


def outcome(expression, names):
    torch.manual_seed(0)
    return eval(expression, names | tools())


@pytest.fixture(scope="module")
def promoted():
    return pieces(ROOT)


def room_and_name(piece):
    return f"{piece.module.parent.name}.{piece.definition.name}"


def test_every_class_of_the_list_is_promoted_by_one_lesson(promoted):
    count = Counter(map(room_and_name, promoted))
    assert {name: count[name] for name in CLASSES if count[name] != 1} == {}


def test_every_class_that_a_lesson_promotes_is_in_the_list(promoted):
    classes = {room_and_name(piece) for piece in promoted if isinstance(package_own(piece), type)}
    assert classes - set(CLASSES) == set(), "give each a line in CLASSES"


def package_own(piece):
    return getattr(import_module(dotted(piece.module)), piece.definition.name)


@pytest.fixture(params=["as it stands", pytest.param("refreshed", marks=pytest.mark.slow)])
def copy(request, lesson, tmp_path):
    """A lesson, or what ``promote --refresh`` makes of it, which a second time changes nothing."""
    if request.param == "as it stands":
        return lesson
    package, path = ROOT / "residual_edu", tmp_path / lesson.name
    path.write_text(refresh(lesson, package).text)
    again = refresh(path, package)
    assert (again.text, again.lost) == (path.read_text(), ())
    return path


def too_long(path):
    """The lines of promoted cells of more than 88 columns, but for strings, which nobody but their author can cut."""
    cells = [cell for cell in jupytext.read(path, fmt="py:percent").cells if targets(cell)]
    lines = [line for cell in cells for line in cell.source.split("\n")]
    return [line for line in lines if len(line) > 88 and not line.lstrip(" rf").startswith('"')]


@pytest.mark.usefixtures("as_installed")  # a lesson's own BlockConfig is not the one that the package's signatures name
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_promoted_cells_run_as_they_stand_and_their_classes_do_what_the_packages_do(lesson, copy, promoted):
    ours, theirs = names_left_by(copy), {piece.definition.name: package_own(piece) for piece in promoted}
    for piece in [piece for piece in promoted if piece.lesson == lesson and room_and_name(piece) in CLASSES]:
        expression = CLASSES[room_and_name(piece)]
        assert ours[piece.definition.name] is not package_own(piece)
        both = outcome(expression, ours), outcome(expression, theirs)
        torch.testing.assert_close(*both, rtol=0, atol=0, equal_nan=True, msg=lambda said, at=piece: f"{at}: {said}")
    assert [line for piece in pieces_of(copy, ROOT / "residual_edu") for line in difference(piece)] == []
    assert copy == lesson or too_long(copy) == []
