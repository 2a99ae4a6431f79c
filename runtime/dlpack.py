"""DLPack for the float types that NumPy lacks: `bf16`, `f8` and `f8e4m3`, in and out, without a copy.

NumPy makes and reads the capsules. Only the type in their description is rewritten, between the 16 or 8
bits of an unsigned integer and the float type that they mean: whoever made a capsule goes on owning the
memory, and is told when nobody needs it any more.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.storage import AnyArray

_FLOATS = {"bf16": (4, 16), "f8": (12, 8), "f8e4m3": (10, 8)}
"""Type code and bits of DLPack, by our dtype."""
_BY_TYPE = {row: name for name, row in _FLOATS.items()}
_UNSIGNED = 1
"""Type code of unsigned integers."""
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
# A tensor begins with its address (8 bytes), device (8) and rank (4); one with a version has that (8),
# two pointers (16) and flags (8) before it.
_TYPE_OFFSETS = {_PLAIN: 20, _VERSIONED: 52}


class _Type(ctypes.Structure):
    """`DLDataType`."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p


def _type_of(capsule: object) -> _Type | None:
    """The type in a capsule's description, to be read and written; None for what is no capsule."""
    for name, offset in _TYPE_OFFSETS.items():
        if _is_valid(capsule, name):
            return _Type.from_address(_pointer(capsule, name) + offset)
    return None


def exported(dtype: DType, storage: AnyArray, options: dict[str, Any]) -> object:
    """A capsule that shows a storage array as values of `dtype`; `options` are those of `__dlpack__`.

    Raises BufferError, as the protocol wants it, for a packed dtype, and where the array is read-only but
    the consumer knows no such arrays.
    """
    if dtype.packed or dtype.block is not None:
        raise BufferError(
            f"{dtype} values share bytes, which DLPack cannot say: hand over `.storage`, the packed "
            "bytes, or `.values()`, a copy"
        )
    capsule = storage.__dlpack__(**options)
    if dtype.name in _FLOATS:
        found = _type_of(capsule)
        if found is None:
            raise BufferError(f"NumPy gave no capsule for {dtype}")
        found.code, found.bits = _FLOATS[dtype.name]
    return capsule


class _AsBits:
    """What another library exports, its narrow floats as unsigned integers."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.dtype: DType | None = None
        """What the integers mean, once they were exported."""

    def __dlpack_device__(self) -> Any:
        return self.value.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> object:
        capsule = self.value.__dlpack__(**options)
        found = _type_of(capsule)
        name = _BY_TYPE.get((found.code, found.bits)) if found is not None else None
        if found is not None and name is not None:
            self.dtype = DTYPES[name]
            found.code = _UNSIGNED
        return capsule


def imported(value: Any) -> tuple[AnyArray, DType | None]:
    """The array of an object with `__dlpack__`, sharing its memory.

    The dtype is one that NumPy lacks, whose bits the array holds, or None: then the array has its own.
    Raises what the exporter raises, and what NumPy does, for memory that is not the processor's.
    """
    bits: Any = _AsBits(value)
    array: AnyArray = np.from_dlpack(bits)
    return array, bits.dtype
