"""Measuring signal and gradient along a residual stream, in any ``nn.Module``."""

from residual_edu.gradient_flow.mixing_matrix import mixing_matrix
from residual_edu.gradient_flow.recorder import GradientFlowRecorder

__all__ = ["GradientFlowRecorder", "mixing_matrix"]
