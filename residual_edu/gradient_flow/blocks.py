"""The blocks that a recorder can measure: modules of the model, whose calls run hooks."""

from collections.abc import Iterable

from torch import nn

from residual_edu.old_errors import InvalidInput, check_instance, shown


def blocks_of(model: nn.Module, blocks: Iterable[nn.Module]) -> list[nn.Module]:
    """Return ``blocks`` as a list.

    Raises:
        InvalidInput: for an empty list, or what is not a list of modules inside ``model``.
    """
    if not isinstance(blocks, Iterable):
        raise InvalidInput(
            f"blocks must be a list of modules, got {shown(blocks)}; put it into [ ]"
        )
    listed, inside = list(blocks), set(model.modules())
    if not listed:
        raise InvalidInput("blocks must hold at least 1 module, got none")
    for place, block in enumerate(listed):
        check_instance(f"blocks[{place}]", block, nn.Module)
        if block not in inside:
            kind = type(block).__name__
            raise InvalidInput(
                f"blocks[{place}], a {kind}, must be a module of model; keep blocks in an nn.ModuleList"
            )
    return listed


def check_not_compiled(model: nn.Module, blocks: Iterable[nn.Module]) -> None:
    """Raise ``InvalidInput`` where ``torch.compile`` took more of ``model`` than single ``blocks``."""
    around = {
        outer
        for outer in model.modules()
        for block in blocks
        if block in set(outer.modules()) - {outer}
    }
    if any(
        hasattr(outer, "_orig_mod") or outer._compiled_call_impl is not None
        for outer in around
    ):
        raise InvalidInput(
            "model must not be compiled, since it then runs no hooks; compile its blocks one by one"
        )
