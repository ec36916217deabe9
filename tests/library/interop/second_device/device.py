"""A second device without hardware: ``elsewhere``, whose memory is the computer's own and whose kernels are the CPU's.

torch keeps a place for backends from outside, PrivateUse1. Here each of its operators runs the CPU's kernel on the
same memory. A tensor of it refuses what one on a GPU refuses: a tensor of the CPU beside it, a generator of the CPU,
``.numpy()``. Its random numbers are not the CPU's, and its backward passes run in a thread of their own.

A tensor changes its device through DLPack, whose description of a tensor names the device in one number.
"""

import ctypes
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

CPU, SECOND = 1, 12  # DLPack's numbers: kDLCPU, and kDLExtDev, which torch reads as PrivateUse1
DEVICE_AT = ctypes.sizeof(ctypes.c_void_p)  # where the number stands in the description, after the memory's address
GENERATOR = torch.Generator().manual_seed(1)
BY_PLACE = {"aten::index.Tensor", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
ONE_NUMBER = {"aten::fill_.Tensor", "aten::masked_fill.Tensor", "aten::masked_fill_.Tensor"}
DIFFERENT = "expected all tensors to be on the same device, but found elsewhere:0 and cpu"
LIBRARIES = []  # what is registered is withdrawn when its library is collected

pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def install() -> torch.device:
    """Give this process the device, for good, and return it."""
    _setup_privateuseone_for_python_backend("elsewhere")
    everything, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    LIBRARIES.extend((everything, aten))
    everything.fallback(on_cpu, "PrivateUse1")
    for name, kernel in OWN.items():
        aten.impl(name, kernel, "PrivateUse1")
    torch.storage._StorageBase.clone = clone
    for marks in ("Conjugate", "Negative"):  # else torch copies before it copies, without end
        aten.impl("_copy_from", torch.library.fallthrough_kernel, marks)
    return torch.device("elsewhere")


def seen_as(x: Tensor, device: int) -> Tensor:
    """Return ``x`` on another device, in the same memory."""
    if x.is_conj() or x.is_neg():
        plain = x.conj() if x.is_conj() else x
        y = seen_as(torch._neg_view(plain) if x.is_neg() else plain, device)
        torch._C._set_conj(y, x.is_conj())
        torch._C._set_neg(y, x.is_neg())
        return y
    capsule = torch._C._to_dlpack(x)
    ctypes.c_int32.from_address(pointer_of(capsule, b"dltensor") + DEVICE_AT).value = device
    return torch._C._from_dlpack(capsule)


@cache
def facts(op: Any) -> tuple[bool, bool, bool, list[str]]:
    """Return of an operator: whether a number or places may be the CPU's, whether it draws, and its results' names."""
    arguments = op._schema.arguments
    one = torch.Tag.pointwise in op.tags or op.name() in ONE_NUMBER
    draws = any(each.name == "generator" for each in arguments)
    return one, op.name() in BY_PLACE, draws, [each.name for each in arguments if each.kwarg_only and each.is_write]


def on_cpu(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operator of the second device by the CPU's kernel on the same memory."""
    one, places, draws, results = facts(op)
    seen: dict[int, Tensor] = {}
    strangers: list[Tensor] = []
    inside = [inward(value, seen, strangers) for value in args]
    named = {name: inward(value, seen, strangers) for name, value in kwargs.items()}
    if strangers and (args[0].is_cpu if places else not one or any(x.ndim for x in strangers)):
        raise RuntimeError(f"{op.name()}: {DIFFERENT}")
    if draws:
        if named.get("generator") is not None:
            raise RuntimeError(f"{op.name()}: expected a generator of elsewhere:0, but found one of cpu")
        named["generator"] = GENERATOR
    aliases = {name: named[name] for name in results}
    named |= {name: torch.empty(0, dtype=alias.dtype) for name, alias in aliases.items()}
    numbers = [x for x, each in zip(inside, op._schema.arguments, strict=False) if is_number(x, each)]
    found = (op.overloadpacket if numbers else op)(*inside, **named)
    for name, alias in aliases.items():
        write(kwargs[name], alias, named[name])
        seen[id(named[name])] = kwargs[name]
    if torch.is_inference_mode_enabled() and is_view(op) and not args[0].is_inference():
        with torch.inference_mode(False):  # a view of a tensor with a history has one
            return outward(found, seen)
    return outward(found, seen)


@cache
def is_view(op: Any) -> bool:
    """Whether an operator returns a view of its first argument."""
    return any(each.alias_info is not None and not each.alias_info.is_write for each in op._schema.returns)


def is_number(value: Any, argument: Any) -> bool:
    """Whether a number stands where the operator takes a tensor: torch passes ``x % 10`` so."""
    return isinstance(value, int | float | complex) and argument.type.kind() == "TensorType"


def inward(value: Any, seen: dict[int, Tensor], strangers: list[Tensor]) -> Any:
    """Return an argument for the CPU's kernel; note which tensors are ``seen`` otherwise, and which are the CPU's."""
    if isinstance(value, Tensor):
        if value.is_cpu:
            strangers.append(value)
            return value
        alias = seen_as(value, CPU)
        seen[id(alias)] = value
        return alias
    if isinstance(value, list):
        return [inward(each, seen, strangers) for each in value]
    return torch.device("cpu") if isinstance(value, torch.device) else value


def outward(value: Any, seen: dict[int, Tensor]) -> Any:
    """Return a result on the second device: an argument that was written to is itself."""
    if isinstance(value, Tensor):
        return seen[id(value)] if id(value) in seen else seen_as(value, SECOND)
    return type(value)(outward(each, seen) for each in value) if isinstance(value, list | tuple) else value


def write(result: Tensor, alias: Tensor, found: Tensor) -> None:
    """Write ``found`` into ``result``, whose memory is that of ``alias``; of another shape it gets new memory."""
    if alias.shape == found.shape:
        alias.copy_(found)
    else:
        result.data = seen_as(found, SECOND)


def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """``copy_`` between devices."""
    here, there = (x if x.is_cpu else seen_as(x, CPU) for x in (source, target))
    there.copy_(here)
    return target


def resize(x: Tensor, size: list[int], memory_format: Any = None) -> Tensor:
    """``resize_``: new memory, that begins with the old numbers."""
    old, new = seen_as(x, CPU).flatten(), torch.empty(size, dtype=x.dtype)
    new.flatten()[: old.numel()] = old[: new.numel()]
    x.data = seen_as(new, SECOND)
    return x


def set_storage(x: Tensor, storage: Any, offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """``set_``: a view of a storage, which the view keeps alive."""
    memory = (ctypes.c_byte * storage.nbytes()).from_address(storage.data_ptr() or 0)
    memory.storage = storage
    whole = torch.frombuffer(memory, dtype=x.dtype) if storage.nbytes() else torch.empty(0, dtype=x.dtype)
    view = whole if size is None else whole.as_strided(size, stride or torch.empty(size).stride(), offset)
    x.data = seen_as(view, SECOND)
    return x


def set_tensor(x: Tensor, source: Tensor) -> Tensor:
    """``set_`` to another tensor."""
    x.data = source
    return x


def clone(storage: Any) -> Any:
    """``UntypedStorage.clone``, which ``copy.deepcopy`` calls: torch looks for an allocator, and there is none."""
    if storage.device.type == "cpu":
        return type(storage)(storage.nbytes()).copy_(storage)
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).clone().untyped_storage()


def convolution_backward(gradient: Tensor, x: Tensor, weight: Tensor, *how: Any) -> Any:
    """Return the gradients of a convolution."""
    channels = weight.shape[1] * how[-2] if how[3] else weight.shape[0]
    return on_cpu(torch.ops.aten.convolution_backward.default, gradient, x, weight, [channels], *how)


OWN = {
    "convolution_overrideable": partial(on_cpu, torch.ops.aten.convolution.default),
    "convolution_backward_overrideable": convolution_backward,
    "_copy_from": copy_from,
    "resize_": resize,
    "set_.source_Storage": set_storage,
    "set_.source_Storage_storage_offset": set_storage,
    "set_.source_Tensor": set_tensor,
}
