"""Names that version 0.2.0 changed: whoever uses an old one is told the new one. To be removed in version 0.3.0.

``refuse_old_names`` stands once at the end of a package or a module, ``refuse_old_keywords`` on a function.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial, partialmethod, wraps
from opcode import opmap
from typing import NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

OF_EXERCISES = "residual_edu.exercises:check"  # its table holds names of exercises

RENAMED: dict[str, dict[str, str]] = {  # a module, class (after a colon) or function: its old names and the new ones
    "residual_edu.config": {"described": "from_mapping", "named": "import_target"},
    "residual_edu.configurable.registry": {"LATER": "MISSING"},
    "residual_edu.course.execute": {"steady": "normalise_output"},
    "residual_edu.explorers.explorer": {"few": "choice_buttons"},
    "residual_edu.gradient_flow.recorder:GradientFlowRecorder": {
        "delta": "stream_gradient",
        "skip_share": "skip_gradient",
        "branch_share": "branch_gradient",
    },
    "residual_edu.mixers.long_convolution": {
        "circle_size": "fft_size",
        "fast_length": "next_fast_len",
        "laid_on_circle": "pad_and_roll",
    },
    "residual_edu.mixers.selective_scan": {"decay_between": "segsum", "states_before": "initial_states"},
    "residual_edu.parts.adaln_zero:Modulation": {"after": "modulate", "open": "apply_gate"},
    "residual_edu.parts.dropout": {"flip_coins": "bernoulli_mask"},
    "residual_edu.parts.position": {"rotary_waves": "rotary_cos_sin"},
    "residual_edu.parts.residual": {"through": "apply_gates"},
    "residual_edu.plotting.attention:plot_scores_by_distance": {"ink": "color"},
    "residual_edu.plotting.residual_block:plot_branch_shares": {"ink": "color"},
    "residual_edu.plotting.three_curves": {"INKS": "COLORS"},
    "residual_edu.plotting.vit5": {"inks": "text_color"},
    OF_EXERCISES: {
        "both_ways": "bidirectional_scan",
        "branch_share": "branch_gradient",
        "recipe": "lazy_config",
        "which_wiring": "which_placement",
    },
}


def refuse_old_names(package: str) -> None:
    """Let ``package``, those of its modules that are imported by now, and their classes refuse their old names.

    A missing attribute stays an ``AttributeError``, so ``hasattr``, ``getattr`` with a default, ``pickle`` and
    completion work as ever. Only ``from module import old`` is an ``ImportError``, as it always was.
    """
    for place, table in RENAMED.items():
        module, _, owner = place.partition(":")
        if not f"{module}.".startswith(f"{package}.") or module not in sys.modules:
            continue
        target = getattr(sys.modules[module], owner) if owner else None
        if isinstance(target, type):
            setattr(target, "__getattr__", partialmethod(refuse_attribute, table))  # noqa: B010
        while not owner and f"{module}.".startswith(f"{package}."):  # the module, and the packages around it
            # Set from here: an assignment in the module would make mypy believe that every name exists in it.
            vars(sys.modules[module])["__getattr__"] = partial(refuse_in_module, module)
            module = module.rpartition(".")[0]


def refuse_attribute(instance: object, table: Mapping[str, str], name: str) -> NoReturn:
    """Raise ``AttributeError`` with the new name of an attribute, or in Python's own words where it has none."""
    kind = type(instance).__name__
    new = renamed_to(f"{kind}.{name}", table[name]) if name in table else ""
    raise AttributeError(new or f"{kind!r} object has no attribute {name!r}", name=name, obj=instance)


def refuse_in_module(module: str, name: str) -> NoReturn:
    """Raise what the caller's statement lets through: ``import`` gives an ``AttributeError`` words of its own."""
    table = {
        old: new if home == module else f"{home}.{new}"
        for home, names in RENAMED.items()
        for old, new in names.items()
        if ":" not in home and f"{home}.".startswith(f"{module}.")
    }
    new = renamed_to(f"{module}.{name}", table[name]) if name in table else ""
    caller = sys._getframe(1)
    if new and caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]:
        raise ImportError(new, name=module)
    raise AttributeError(new or f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])


def renamed_to(old: str, new: str) -> str:
    """Return the sentence for whoever uses an old name."""
    return f"{old} is called {new} since version 0.2.0"


def refuse_old_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse the old keywords of ``function`` with the new ones."""
    table = RENAMED[f"{function.__module__}:{function.__qualname__}"]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for old in table.keys() & kwargs.keys():
            raise TypeError(renamed_to(f"the argument {old} of {function.__qualname__}", table[old]))
        return function(*args, **kwargs)

    return call
