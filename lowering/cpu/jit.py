"""Run one function of a module of loops with NumPy arrays: for tests and for trying kernels out.

    add = compile_loops(text, "add")
    add(x, y, out)

Arrays are passed by address, with the sizes, the offset and the strides that the memref types of
the function leave open; a `Tensor` brings dtypes that NumPy lacks. Numbers go in as they are. The
step that the compiler makes does not come here.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    Float32Type,
    Float64Type,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from openinfer.dialects.extensions import get_all_dialects
from openinfer.lowering.cpu.add_entry import ENTRY_PREFIX, AddEntry
from openinfer.lowering.cpu.convert_to_llvm import ConvertToLlvm
from openinfer.lowering.cpu.emit_llvm import emit_llvm
from openinfer.lowering.cpu.expand_f8 import ExpandF8
from openinfer.lowering.cpu.to_llvm.types import argument_parts
from openinfer.lowering.facts import TARGET
from openinfer.lowering.kernels.expand_math import ExpandMath
from openinfer.runtime.devices.cpu.codegen import compile_llvm_text, host_target
from openinfer.runtime.devices.cpu.linking import load_object
from openinfer.runtime.devices.cpu.support import check_target
from openinfer.runtime.errors import InputError
from openinfer.runtime.storage import element_count
from openinfer.runtime.target import TargetDescription
from openinfer.runtime.tensors import Tensor

LOOPS_TO_LLVM: tuple[ModulePass, ...] = (ExpandF8(), ExpandMath(), ConvertToLlvm())


def make_context() -> Context:
    """A context with the dialects of this compiler registered."""
    context = Context()
    for name, dialect in get_all_dialects().items():
        context.register_dialect(name, dialect)
    return context


def parse_module(text: str) -> ModuleOp:
    """Parse and verify IR text."""
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def compile_loops(
    module: str | ModuleOp,
    name: str,
    *,
    target: TargetDescription | None = None,
    opt_level: int = 1,
    passes: Sequence[ModulePass] = LOOPS_TO_LLVM,
) -> CompiledFunction:
    """Compile function `name` of a module of loops; a given `ModuleOp` is left as it is.

    Raises ArtefactError (OI0806) for a target whose code cannot run here.
    """
    module = parse_module(module) if isinstance(module, str) else module.clone()
    function = next(f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == name)
    type = function.function_type
    target = target or host_target()
    check_target(target.key)
    module.attributes.setdefault(TARGET, StringAttr(target.name))
    context = make_context()
    for step in (*passes, AddEntry(symbol=name)):
        step.apply(context, module)
    text = emit_llvm(module, target)
    loaded = load_object(compile_llvm_text(text, target, opt_level), [ENTRY_PREFIX + name])
    return CompiledFunction(name, type, text, loaded.address(ENTRY_PREFIX + name), loaded)


class CompiledFunction:
    """Machine code of one function, called with arrays and numbers."""

    def __init__(
        self, name: str, type: FunctionType, llvm_text: str, address: int, keep_alive: object
    ) -> None:
        self.type = type
        self.llvm_text = llvm_text
        self._keep_alive = keep_alive
        self._name = name
        self._call = cast("Callable[[Any], None]", ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address))

    def __call__(self, *arguments: Any) -> Any:
        """Run once. Returns the number that the function returns, if it does.

        Raises InputError (OI0580) for the wrong number of arguments, or an array that does not fit.
        """
        inputs = list(self.type.inputs)
        if len(arguments) != len(inputs):
            raise InputError(
                "OI0580", f"@{self._name} takes {len(inputs)} arguments, not {len(arguments)}"
            )
        slots: list[bytes] = []
        for argument, type in zip(arguments, inputs, strict=True):
            if isinstance(type, MemRefType):
                slots += [struct.pack("<q", part) for part in _array_parts(argument, type)]
            else:
                slots.append(_pack_number(argument, type))
        slots.append(bytes(8))
        frame = ctypes.create_string_buffer(b"".join(slots), 8 * len(slots))
        self._call(ctypes.addressof(frame))
        outputs = list(self.type.outputs)
        if not outputs:
            return None
        return _unpack_number(frame.raw[-8:], outputs[0])


def _array_parts(array: np.ndarray[Any, Any] | Tensor, type: MemRefType) -> list[int]:
    shape = type.get_shape()
    fits = len(shape) == len(array.shape) and all(
        want in (-1, have) or want < 0 for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError("OI0580", f"an array of shape {array.shape} is no {type}")
    parts = argument_parts(type)
    if isinstance(array, Tensor):
        address = array.storage.ctypes.data
        strides = [element_count(array.shape[i + 1 :]) for i in range(len(array.shape))]
    else:
        address = array.ctypes.data
        strides = [stride // array.itemsize for stride in array.strides]
    numbers = {"ptr": address, "offset": 0}
    for i, (size, stride) in enumerate(zip(array.shape, strides, strict=True)):
        numbers[f"size{i}"] = size
        numbers[f"stride{i}"] = stride
    return [numbers[part] for part in parts]


def _number_format(type: Attribute) -> str:
    if isinstance(type, Float32Type):
        return "f"
    if isinstance(type, Float64Type):
        return "d"
    if isinstance(type, IndexType):
        return "q"
    if isinstance(type, IntegerType):
        return {1: "?", 8: "b", 16: "h", 32: "i", 64: "q"}[type.bitwidth]
    if isinstance(type, AnyFloat):
        return "e"
    raise InputError("OI0580", f"a value of type {type} cannot be passed")


def _pack_number(number: Any, type: Attribute) -> bytes:
    return struct.pack("<" + _number_format(type), number).ljust(8, b"\0")


def _unpack_number(slot: bytes, type: Attribute) -> Any:
    spelled = "<" + _number_format(type)
    return struct.unpack(spelled, slot[: struct.calcsize(spelled)])[0]
