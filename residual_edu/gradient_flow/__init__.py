"""Measuring how the signal and its gradient change along a residual stream, in any ``nn.Module``. Needs torch alone."""

from residual_edu.gradient_flow.mixing_matrix import mixing_matrix
from residual_edu.gradient_flow.recorder import GradientFlowRecorder
from residual_edu.renamed import refuse_old_names

__all__ = ["GradientFlowRecorder", "mixing_matrix"]

refuse_old_names(__name__)
