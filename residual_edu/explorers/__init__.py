"""Moving: pictures with sliders. The one room with ipywidgets; each is a compute function, a plot, a thin wiring."""

from residual_edu.explorers.explorer import Explorer
from residual_edu.explorers.prediction import Prediction

__all__ = ["Explorer", "Prediction"]
