"""Pictures with sliders, each a function that computes, a plot, and the controls. The only room with ipywidgets."""

from residual_course.explorers.explorer import Explorer
from residual_course.explorers.prediction import Prediction

__all__ = ["Explorer", "Prediction"]
