"""A picture that is drawn otherwise is noticed; one that rounding or another build of torch moved is not."""

import base64
from functools import cache

import numpy as np
import pytest
from matplotlib.figure import Figure

from residual_course.plots.picture import figure_png
from tools.pictures import Picture


@cache
def picture(trained=False, shift=0.0, height=2.5, colour="#0072B2", title="A walk comes back", second=False):
    """Two curves, as a lesson draws them."""
    axes = (figure := Figure(figsize=(6, height), layout="constrained")).add_subplot(xlabel="step")
    axes.set_title(title, size=14, weight="bold")
    at = np.linspace(0, 10, 200)
    axes.plot(at, np.sin(at) + shift * np.cos(3 * at), colour, linewidth=2)
    axes.set(ylim=(-2, 2))
    if second:
        axes.plot(at, np.cos(at), "#85357A", linewidth=2)
    return Picture(base64.b64encode(figure_png(figure)).decode(), trained)


CHANGED = [{"second": True}, {"colour": "#B85A00"}, {"height": 3}]
CHANGED += [{"title": "Each of these walks goes far away, and none of them returns"}]


def test_rounding_moves_no_picture_a_training_its_curve_and_nothing_else_may():
    assert picture() == picture(shift=1e-4) and picture(trained=True) != picture(trained=True, height=3)
    assert picture(trained=True) == picture(trained=True, shift=0.2)
    assert picture() != picture(shift=0.2)


@pytest.mark.parametrize("change", CHANGED, ids=lambda change: next(iter(change)))
def test_another_series_ink_size_or_title_is_noticed(change):
    assert picture() != picture(**change)
