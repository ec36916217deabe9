"""Every notebook starts with one seed, one thread, the device asked for, and figures that say what they show.

And its laws are held to bands: what fails is a sentence for a learner, and an error for a build.
"""

import base64
import io

import matplotlib
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from residual_course import lesson
from residual_course.plots.style import STYLE_FILE
from residual_edu.errors import InvalidInput


@pytest.fixture(autouse=True)
def as_before():
    with matplotlib.rc_context():
        yield
    torch.set_printoptions(profile="default")


@pytest.fixture
def shown(monkeypatch):
    """What ``display`` was handed: (object, metadata)."""
    calls = []
    monkeypatch.setattr(lesson, "display", lambda thing, metadata=None, raw=False: calls.append((thing, metadata)))
    return calls


def machine(monkeypatch, name=None, cuda=False, mps=False):
    """Ask for a device on a machine that has these."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.delenv("RESIDUAL_EDU_DEVICE", raising=False)
    if name:
        monkeypatch.setenv("RESIDUAL_EDU_DEVICE", name)


def test_setup_seeds_takes_one_thread_and_sets_the_style():
    lesson.setup(seed=3)
    drawn = torch.rand(4)
    assert drawn.equal(torch.rand(4, generator=torch.Generator().manual_seed(3)))
    assert torch.get_num_threads() == 1
    assert str(torch.tensor([1e-3, 1e3])) == "tensor([   0.0010, 1000.0000])"
    style = matplotlib.rc_params_from_file(STYLE_FILE, use_default_template=False)
    assert all(matplotlib.rcParams[name] == value for name, value in style.items())


@pytest.mark.parametrize(
    ("asked", "there", "given"),
    [
        (None, {"cuda": True}, "cpu"),
        ("cuda", {"cuda": True}, "cuda"),
        ("mps", {"mps": True}, "mps"),
        ("auto", {"cuda": True, "mps": True}, "cuda"),
        ("auto", {"mps": True}, "mps"),
        ("auto", {}, "cpu"),
    ],
)
def test_the_device_is_the_one_that_was_asked_for(monkeypatch, asked, there, given):
    machine(monkeypatch, asked, **there)
    assert lesson.setup() == torch.device(given)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cuda", "is 'cuda', but torch finds none here; set it to 'cpu' or 'auto'$"),
        ("gpu", "must be one of 'cuda', 'mps', 'cpu', 'auto', got 'gpu'"),
    ],
)
def test_a_device_that_is_not_there_is_an_error_not_a_fall_back(monkeypatch, name, said):
    machine(monkeypatch, name)
    with pytest.raises(InvalidInput, match=f"^RESIDUAL_EDU_DEVICE {said}"):
        lesson.setup()


def figure():
    drawing = Figure(figsize=(3, 2))
    drawing.add_subplot(title="A line rises").plot([0, 1], [0, 1])
    return drawing


def test_a_figure_is_shown_as_png_with_its_alternative_text(shown):
    lesson.setup()
    for _ in range(2):
        lesson.show(figure(), alt="A line that rises: more gives more.")
    (data, metadata), again = shown
    assert again == (data, metadata)  # the same bytes on each run
    assert metadata == {"image/png": {"alt": "A line that rises: more gives more.", "width": 300}}
    assert data["text/plain"] == "A line that rises: more gives more."
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert picture.format == "PNG" and picture.size == (600, 400), "twice the pixels that it is shown with"
    assert picture.convert("RGBA").getpixel((0, 0)) == (255,) * 4, "white, to be read in a dark JupyterLab too"


def test_stored_runs_are_read_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sorted(lesson.stored_runs("02_learning_rates")["runs"]) == [0, 1, 2]
    with pytest.raises(InvalidInput, match="^lesson must be one of '00_signal_or_gradient', .*, got '02'"):
        lesson.stored_runs("02")
