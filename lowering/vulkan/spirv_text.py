"""The text of a module of SPIR-V, as `spirv-dis` prints it and `spirv-as` reads it."""

from __future__ import annotations

import struct

from openinfer.runtime.spirv.instructions import ENUMERATIONS, MASKS, ROWS
from openinfer.runtime.spirv.words import Instruction, Module, Part

_FLOATS = {16: ("<H", "<e", 6), 32: ("<I", "<f", 9), 64: ("<Q", "<d", 17)}


def print_text(module: Module) -> str:
    """The text of a module; ids are numbers."""
    types: dict[int | None, Instruction] = {
        one.result: one for one in module.instructions if one.result is not None
    }
    head = (
        "; SPIR-V",
        f"; Version: {module.version >> 16}.{module.version >> 8 & 255}",
        f"; Bound: {module.bound}",
    )
    lines = (_line(one, types) for one in module.instructions)
    return "\n".join([*head, *lines]) + "\n"


def _line(one: Instruction, types: dict[int | None, Instruction]) -> str:
    words = [
        _operand(part, types.get(one.type), one.row.name)
        for part in one.parts
        if part.kind != "result"
    ]
    front = "" if one.result is None else f"%{one.result} = "
    return " ".join([f"{front}Op{one.row.name}", *words])


def _operand(part: Part, type_: Instruction | None, instruction: str) -> str:
    kind, value = part.kind, part.value
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if kind in {"number", "wide"}:
        return _number(value, type_, wide=kind == "wide")
    if kind == "opcode":
        return ROWS[value].name if value in ROWS else f"!{value}"
    if kind == "word":
        # The number of an extended instruction is written raw, since the text knows it by name.
        return f"!{value}" if instruction == "ExtInst" else str(value)
    if kind not in ENUMERATIONS:
        return f"%{value}"
    rows = ENUMERATIONS[kind].items()
    if kind in MASKS:
        return "|".join(name for name, (bit, _) in rows if bit & value) or "None"
    return next(name for name, (code, _) in rows if code == value)


def _number(value: int, type_: Instruction | None, *, wide: bool) -> str:
    """A constant in decimal where that gives the same bits, else its words."""
    raw = f"!{value & 0xFFFFFFFF:#x}" + (f" !{value >> 32:#x}" if wide else "")
    if type_ is None:
        return raw
    width = type_.of("word")[0]
    if type_.row.name == "TypeInt":
        signed = type_.of("word")[1]
        bits = 64 if wide else 32
        return str(value - (1 << bits) if signed and value >> (bits - 1) else value)
    if type_.row.name != "TypeFloat" or width not in _FLOATS or value >> width:
        return raw
    integer, real, digits = _FLOATS[width]
    if type_.first("FPEncoding") is not None:
        return raw
    exponent = value >> {16: 10, 32: 23, 64: 52}[width] & {16: 31, 32: 255, 64: 2047}[width]
    normal = 0 < exponent < {16: 31, 32: 255, 64: 2047}[width] or not value
    if not normal:
        return raw
    return f"{struct.unpack(real, struct.pack(integer, value))[0]:.{digits}g}"
