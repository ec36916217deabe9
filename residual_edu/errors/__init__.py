"""What the library says when it is handed something it cannot use.

Every check of an argument stands here, so that every message is phrased once: the parameter, what it must be,
what came, and how to mend it.
"""

from residual_edu.errors.invalid_input import (
    InvalidInput,
)
from residual_edu.errors.modules import (
    check_blocks,
    check_conditionable,
    check_keywords,
    check_not_compiled,
)
from residual_edu.errors.numbers import (
    check_below,
    check_choice,
    check_not_negative,
    check_positive,
    check_rate,
    check_size,
    check_text,
)
from residual_edu.errors.tensors import (
    check_axes,
    check_batch,
    check_floating,
    check_given,
    check_labels,
    check_pieces,
    check_same_length,
    check_square,
    check_tensor,
    check_width,
)

__all__ = [
    "InvalidInput",
    "check_axes",
    "check_batch",
    "check_below",
    "check_blocks",
    "check_choice",
    "check_conditionable",
    "check_floating",
    "check_given",
    "check_keywords",
    "check_labels",
    "check_not_compiled",
    "check_not_negative",
    "check_pieces",
    "check_positive",
    "check_rate",
    "check_same_length",
    "check_size",
    "check_square",
    "check_tensor",
    "check_text",
    "check_width",
]
