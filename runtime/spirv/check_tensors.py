"""What SPV_NV_tensor_addressing and SPV_NV_cooperative_matrix2 ask of the types of their instructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from openinfer.runtime.spirv.check_interface import Fail
from openinfer.runtime.spirv.words import Instruction, Module, number

CALLEES: Final = {
    "FunctionCall": 0,
    "CooperativeMatrixPerElementOpEXT": 1,
    "CooperativeMatrixReduceEXT": 1,
}
"""Which of an instruction's ids is a function, which may stand further behind."""
_MADE: Final = {
    "CreateTensorLayoutNV": "TypeTensorLayoutNV",
    "CreateTensorViewNV": "TypeTensorViewNV",
}
_EACH: Final = {
    "TensorLayoutSetDimensionNV": 1,
    "TensorLayoutSetStrideNV": 1,
    "TensorLayoutSliceNV": 2,
    "TensorLayoutSetBlockSizeNV": 1,
    "TensorLayoutSetClampValueNV": 0,
}
"""How many numbers an instruction has for each axis of its layout; 0: one of all."""
_MEMORY: Final = frozenset({"CooperativeMatrixLoadTensorNV", "CooperativeMatrixStoreTensorNV"})
_MATRIX: Final = "TypeCooperativeMatrixKHR"
MOST_AXES: Final = 5
CLAMP_MODES: Final = 5

Defined = Mapping[int, Instruction]


def check_tensor(one: Instruction, defined: Defined, fail: Fail) -> None:
    """Calls `fail` for the first rule that an instruction breaks; what it uses is known to be defined."""
    name = one.row.name
    if name == "TypeTensorLayoutNV":
        rank, clamp = (_number(part, defined) for part in one.of("id"))
        if rank is None or not 1 <= rank <= MOST_AXES:
            fail(one, f"has {rank} axes, where 1 to {MOST_AXES} are known")
        if clamp is None or clamp >= CLAMP_MODES:
            fail(one, f"{clamp} is no mode of what lies outside")
    elif name == "TypeTensorViewNV":
        rank, _, *axes = (_number(part, defined) for part in one.of("id"))
        if rank is None or not 1 <= rank <= MOST_AXES or set(axes) != set(range(rank)):
            fail(one, f"does not say where each of {rank} axes stands")
    elif name in _MADE:
        if defined[one.of("type")[0]].row.name != _MADE[name]:
            fail(one, f"its type is no {_MADE[name]}")
    elif name in _EACH:
        _check_layout(one, defined, fail)
    elif name in _MEMORY:
        _check_memory(one, defined, fail)


def _check_layout(one: Instruction, defined: Defined, fail: Fail) -> None:
    type_ = defined[one.of("type")[0]]
    layout, *numbers = one.of("id")
    if type_.row.name != "TypeTensorLayoutNV" or defined[layout].type != type_.result:
        fail(one, "is no layout of the type of its operand")
    each = _EACH[one.row.name]
    wanted = each * (_number(type_.of("id")[0], defined) or 0) or 1
    if len(numbers) != wanted:
        fail(one, f"has {len(numbers)} numbers, its layout has {wanted}")
    for value in numbers:
        kind = defined.get(defined[value].type or 0)
        if kind is None or kind.row.name != "TypeInt" or kind.of("word")[0] != 32:
            fail(one, f"%{value} is no integer of 32 bits")


def _check_memory(one: Instruction, defined: Defined, fail: Fail) -> None:
    pointer, value, layout, *view = one.of("id")
    where = defined.get(defined[pointer].type or 0)
    if where is None or where.row.name != "TypePointer":
        fail(one, f"%{pointer} is no pointer")
    kind = defined.get(defined[value].type or 0)
    if kind is None or kind.row.name != _MATRIX:
        fail(one, f"%{value} is no matrix")
    if one.result is not None and one.type != kind.result:
        fail(one, f"%{value} has not the type of the result")
    of = defined.get(defined[layout].type or 0)
    if of is None or of.row.name != "TypeTensorLayoutNV":
        fail(one, f"%{layout} is no tensor layout")
    rank = _number(of.of("id")[0], defined)
    if one.of("TensorAddressingOperands")[0] & 1:
        seen = defined.get(defined[view[0]].type or 0)
        if seen is None or seen.row.name != "TypeTensorViewNV":
            fail(one, f"%{view[0]} is no tensor view")
        if _number(seen.of("id")[0], defined) != rank:
            fail(one, f"%{view[0]} has not the axes of the layout")
    elif rank is not None and rank > 2:
        fail(one, f"has no view, and {rank} axes, where a matrix has 2")


def check_calls(module: Module, defined: Defined, fail: Fail) -> None:
    """The same of instructions whose functions may stand further behind: every id is known to be defined."""
    for one in module.instructions:
        name = one.row.name
        if name not in CALLEES or name == "FunctionCall":
            continue
        matrix, callee, *others = one.of("id")
        function = defined[callee]
        if function.row.name != "Function":
            fail(one, f"%{callee} is no function")
        given, kind = (defined.get(part or 0) for part in (defined[matrix].type, one.type))
        if given is None or kind is None or {given.row.name, kind.row.name} != {_MATRIX}:
            fail(one, f"%{matrix} and the result are no matrices")
        element = given.of("id")[0]
        if kind.of("id")[0] != element:
            fail(one, "changes the type of elements")
        returned, *taken = defined[function.of("id")[0]].of("id")
        if name == "CooperativeMatrixReduceEXT":
            wanted = [element, element]
        else:
            if kind.result != given.result:
                fail(one, "changes the type of its matrix")
            wanted = [element, *(_element(other, defined) for other in others)]
            numbers, taken = taken[:2], taken[2:]
            if [_bits(part, defined) for part in numbers] != [32, 32]:
                fail(one, f"%{callee} does not begin with the numbers of a row and a column")
        if returned != element or taken != wanted:
            fail(one, f"%{callee} does not take and give what the matrix consists of")


def _element(value: int, defined: Defined) -> int | None:
    kind = defined.get(defined[value].type or 0)
    if kind is not None and kind.row.name == _MATRIX:
        return kind.of("id")[0]
    return defined[value].type


def _bits(type_: int, defined: Defined) -> int:
    """Of an integer; 0 of other types."""
    kind = defined[type_]
    return kind.of("word")[0] if kind.row.name == "TypeInt" else 0


def _number(name: int, defined: Defined) -> int | None:
    """The value of a constant."""
    one = defined[name]
    if one.row.name in {"ConstantTrue", "ConstantFalse"}:
        return int(one.row.name == "ConstantTrue")
    if one.row.name != "Constant":
        return None
    return next((number(part) for part in one.parts if part.kind == "number"), None)
