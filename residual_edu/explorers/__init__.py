"""Pictures with sliders, each a function that computes, a plot, and the controls. The only room with ipywidgets."""

from residual_edu.explorers.explorer import Explorer
from residual_edu.explorers.prediction import Prediction
from residual_edu.renamed import refuse_old_names

__all__ = ["Explorer", "Prediction"]

refuse_old_names(__name__)
