"""Damaged ONNX models: ONNX's own tests of operators with attributes, inputs and shapes that contradict them.

Each is refused with an error of ours, or read, made readable and run on the simulator with the test's inputs.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi
from openinfer.compiler.importers.readable import readable

sys.path.append(str(Path(__file__).resolve().parents[2] / "onnx_suite"))

INTEGERS = (-1, 0, 1, 2, 3, -2, 7, 100, 65536, 2**31 - 1, 2**31, -(2**31), 1 << 40, 2**62)
WIDE = (*INTEGERS, 2**63 - 1, -(2**63))
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e30, 1e-40, 2.5)
TEXTS = (b"", b"x", b"\xff\xfe", b"SAME_UPPER", b"linear", b"cubic", b"reflect", b"a" * 5000)
DIMS = ("N", "a b", "", "1", "x" * 300, "N*2", "_")
NAMES = """axis axes keepdims pads strides kernel_shape group mode perm to alpha dilations auto_pad ceil_mode
p num_outputs split hidden_size direction activations layout k num_heads kv_num_heads scale softcap is_causal
block_size start end batch_dims exclude_outside""".split()
_FLOAT, _INT, _STRING, _FLOATS, _INTS, _STRINGS = 1, 2, 3, 6, 7, 8
"""Types of attributes."""


def prepare() -> None:
    """Makes what all cases share: the tests, and their names."""
    _cases()


def _suite() -> Any:
    """The module of ONNX's tests, which is in another folder."""
    return import_module("node_cases")


@cache
def _cases() -> list[Any]:
    return list(_suite().all_cases().values())


@cache
def _operators() -> list[str]:
    return sorted({node.op_type for case in _cases() for node in case.proto.graph.node})


def check(seed: int, _: Path) -> bool:
    """Whether a damaged model ran; False where it was refused."""
    chance = random.Random(f"onnx {seed}")
    case = chance.choice(_cases())
    model = case.proto
    feeds = dict(zip([one.name for one in model.graph.input], case.data[0][0]))
    for _change in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(CHANGES)(model, chance)
    try:
        data = model.SerializeToString()
    except Exception:
        # A number that a protocol buffer does not hold.
        return False
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            program = _suite().imported(data, feeds)
            graph, tensors, _report = readable(program.imported)
            given = {inner: feeds[name] for name, inner in program.inputs.items() if name in feeds}
            with oi.Simulator(graph, tensors).make_executor() as executor:
                executor.run(**given)
        except oi.CompileError:
            raise
        except oi.OpenInferError:
            return False
    return True


# Changes


def _attribute(model: Any, chance: random.Random) -> None:
    """Another number, text or length."""
    node = chance.choice(model.graph.node)
    if not node.attribute:
        return
    one = chance.choice(node.attribute)
    match one.type:
        case 2:
            one.i = chance.choice(WIDE)
        case 1:
            one.f = chance.choice(FLOATS)
        case 3:
            one.s = chance.choice(TEXTS)
        case 7 if one.ints and chance.random() < 0.5:
            one.ints[chance.randrange(len(one.ints))] = chance.choice(WIDE)
        case 7:
            del one.ints[chance.randrange(len(one.ints) + 1) :]
        case 6 if one.floats:
            one.floats[chance.randrange(len(one.floats))] = chance.choice(FLOATS)
        case 8 if one.strings:
            one.strings[0] = chance.choice(TEXTS)
        case _:
            node.attribute.remove(one)


def _lost_attribute(model: Any, chance: random.Random) -> None:
    node = chance.choice(model.graph.node)
    if node.attribute:
        node.attribute.remove(chance.choice(node.attribute))


def _new_attribute(model: Any, chance: random.Random) -> None:
    one = chance.choice(model.graph.node).attribute.add()
    one.name = chance.choice(NAMES)
    one.type = chance.choice((_FLOAT, _INT, _STRING, _INTS, _FLOATS, _STRINGS))
    count = chance.randrange(5)
    match one.type:
        case 1:
            one.f = chance.choice(FLOATS)
        case 2:
            one.i = chance.choice(WIDE)
        case 3:
            one.s = chance.choice(TEXTS)
        case 6:
            one.floats.extend(chance.choices(FLOATS, k=count))
        case 7:
            one.ints.extend(chance.choices(WIDE, k=count))
        case _:
            one.strings.extend(chance.choices(TEXTS, k=count))


def _inputs(model: Any, chance: random.Random) -> None:
    """An input gone, doubled, or another one."""
    node = chance.choice(model.graph.node)
    names = ["", *(one.name for one in model.graph.input), *node.input]
    match chance.randrange(3):
        case 0 if node.input:
            node.input[chance.randrange(len(node.input))] = chance.choice(names)
        case 1 if node.input:
            del node.input[chance.randrange(len(node.input))]
        case _:
            node.input.append(chance.choice(names))


def _operator(model: Any, chance: random.Random) -> None:
    chance.choice(model.graph.node).op_type = chance.choice(_operators())


def _shape(model: Any, chance: random.Random) -> None:
    """Another dimension of an input, more of them, or fewer; or another element type."""
    if not model.graph.input:
        return
    kind = chance.choice(model.graph.input).type.tensor_type
    dims = kind.shape.dim
    match chance.randrange(4):
        case 0 if dims:
            chance.choice(dims).dim_param = chance.choice(DIMS)
        case 1 if dims:
            chance.choice(dims).dim_value = chance.choice((0, 1, 2, 3, 5, -1, 2**31, 2**62))
        case 2 if dims and chance.random() < 0.5:
            del dims[chance.randrange(len(dims))]
        case 2:
            dims.add().dim_value = chance.choice((1, 2, 3))
        case _:
            kind.elem_type = chance.choice((0, 1, 2, 3, 6, 7, 9, 10, 11, 16, 21, 22, 23, 99, -5))


def _version(model: Any, chance: random.Random) -> None:
    model.opset_import[0].version = chance.choice((1, 6, 7, 9, 11, 13, 18, 23, 28, 29, 2**40, -1))


def _weight(model: Any, chance: random.Random) -> None:
    """A tensor of another size."""
    if model.graph.initializer:
        one = chance.choice(model.graph.initializer)
        if one.dims:
            one.dims[chance.randrange(len(one.dims))] = chance.choice((0, 1, 2, -1, 2**40))


def _constant(model: Any, chance: random.Random) -> None:
    """An input becomes a constant of strange numbers."""
    import onnx

    if not model.graph.input:
        return
    one = chance.choice(model.graph.input)
    kind = one.type.tensor_type
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except KeyError:
        return
    shape = [max(0, min(dim.dim_value, 6)) for dim in kind.shape.dim]
    if dtype.kind not in "fiub" or len(shape) > 6:
        return
    drawn = np.array(chance.choices(FLOATS if dtype.kind == "f" else INTEGERS, k=64))
    with np.errstate(all="ignore"):
        array = np.resize(drawn, shape).astype(dtype)
    model.graph.initializer.append(onnx.numpy_helper.from_array(array, one.name))


CHANGES: tuple[Callable[[Any, random.Random], None], ...] = (
    *(_attribute, _attribute, _lost_attribute, _new_attribute, _inputs, _inputs, _operator),
    *(_shape, _shape, _version, _weight, _constant),
)
