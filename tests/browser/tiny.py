"""A tiny lesson that a learner gets through."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

START = """\
import ipywidgets as widgets
import numpy as np
from matplotlib.figure import Figure
from residual_course.explorers import Explorer
from residual_course.lesson import predict, setup, show
device = setup()

t = np.linspace(0, 6, 300)
figure = Figure()
axes = figure.add_subplot(ylim=(-2, 2))
(curve,) = axes.plot(t, np.sin(t))
title = axes.set_title("A wave")
"""
FIGURE = 'show(figure, alt="A wave.")'
PREDICT = """\
with predict("Is 1 below 2?", ["yes", "no"]) as guess:
    guess.truth = "yes"
"""
MOVE = """\
def draw(speed, size):
    curve.set_ydata(size * np.sin(speed * t))
    title.set_text(f"A wave of speed {speed:.1f}")
    return f"The wave has speed {speed:.1f} and size {size:.1f}."

controls = {
    "speed": widgets.FloatSlider(value=3, min=1, max=3, step=0.1),
    "size": widgets.FloatSlider(value=0.2, min=0.2, max=1, step=0.1),
}
Explorer(figure, draw, controls, alt="A wave of speed 3.", animated=[curve, title])
"""
FOLD = "Why? <details><summary>Hint 1</summary>Look closely.</details>"


def sound() -> nbformat.NotebookNode:
    """Return a lesson that a learner gets through."""
    hidden = {"jupyter": {"source_hidden": True}}
    folded = [new_code_cell(source, metadata=hidden) for source in ("print('a solution')", FIGURE)]
    return lesson(START, FOLD, PREDICT, *folded, MOVE)


def lesson(*cells: str | nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a notebook of code cells, the fold as text."""
    made = [c if not isinstance(c, str) else (new_markdown_cell if c is FOLD else new_code_cell)(c) for c in cells]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=made, metadata={"kernelspec": kernel})
