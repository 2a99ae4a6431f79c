"""`.pt2` files, as `torch.export.save` writes them, read without running anything that they hold.

`torch.export.load` unpickles parts of such a file, evaluates texts of sizes as Python, and finds functions by
names that the file gives. Here weights are bytes with a described shape, mapped from the file; texts of sizes
and names of functions are checked before PyTorch sees them; what is pickled is refused, but for the examples,
which nothing reads.
"""

from __future__ import annotations

import ast
import json
import mmap
import re
import struct
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from openinfer.compiler.importers.torch.library import torch
from openinfer.runtime.errors import PackageError

_JSON_LIMIT = 1 << 28
"""Bytes of the graph as JSON; one of a large model has some millions."""
_PARTS_LIMIT = 1 << 17
_DEPTH_LIMIT = 64
"""Structures of arguments and results inside of each other."""
_FUNCTIONS = frozenset(
    "Symbol Integer Float Rational Add Mul Pow Mod PythonMod FloorDiv CleanDiv ModularIndexing Max Min "
    "TruncToInt FloorToInt CeilToInt ToFloat IntTrueDiv FloatTrueDiv PowByNatural Eq Ne Lt Le Gt Ge "
    "StrictLessThan LessThan StrictGreaterThan GreaterThan Equality Unequality And Or Not Where".split()
)
"""What the text of a size may call."""
_TARGETS = re.compile(
    r"torch\.ops\.aten\.(?!from_file\b)\w+\.\w+|torch\.ops\.(aten|prims)\.(?!from_file\b)\w+"
    r"|torch\.ops\.higher_order\.(cond|scan|map_impl|while_loop|wrap_with_set_grad_enabled)"
    r"|torch\.(sym_(float|int|ite|max|min|not|sqrt)|_sym_sqrt)"
    r"|_operator\.(getitem|add|sub|mul|mod|floordiv|truediv|pow|neg|and_|or_|not_|eq|ne|lt|le|gt|ge)"
    r"|math\.(ceil|floor|trunc)"
)
"""Functions that a graph may call: those of tensors and sizes."""


def load_exported(path: str | Path) -> Any:
    """The `ExportedProgram` in a file; its tensors are views of the file.

    Raises PackageError OI1507 for a file that is missing, damaged or hostile, OI1508 for one with parts that
    only unpickling would read.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened, zipfile.ZipFile(opened) as archive:
            return _Archive(file, opened, archive).program()
    except PackageError:
        raise
    # A directory of parts that contradicts itself: `zipfile` raises whatever it meets.
    except Exception as error:
        raise _damaged(file, str(error)) from error


def _damaged(file: Path, reason: str) -> PackageError:
    return PackageError(
        "OI1507", f"{file}: {reason}", hint="write the file again with torch.export.save"
    )


class _Archive:
    def __init__(self, file: Path, opened: BinaryIO, archive: zipfile.ZipFile) -> None:
        self._file = file
        self._archive = archive
        infos = archive.infolist()
        if len(infos) > _PARTS_LIMIT:
            raise _damaged(file, f"{len(infos)} parts")
        self._parts: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            # All parts lie in one folder, called like the file when it was written.
            name = info.filename.partition("/")[2]
            if name in self._parts:
                raise _damaged(file, f"two parts are called {name!r}")
            self._parts[name] = info
        self._bytes = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)

    def program(self) -> Any:
        from torch._export.serde import schema, serialize  # pyright: ignore

        described = self._json("models/model.json")
        for part in _objects(described):
            if "expr_str" in part:
                self._check_expression(str(part["expr_str"]))
            for key in ("in_spec", "out_spec"):
                if isinstance(part.get(key), str):
                    part[key] = self._plain_structure(part[key])
            if "target" in part and "inputs" in part:
                self._check_target(str(part["target"]))
        try:
            read: Any = getattr(serialize, "_dict_to_dataclass")  # noqa: B009
            graph = read(schema.ExportedProgram, described)
            made = serialize.ExportedProgramDeserializer().deserialize(
                graph, self._tensors("weights", "model_weights_config"), self._constants(), b""
            )
        except PackageError:
            raise
        except Exception as error:
            raise _damaged(self._file, f"PyTorch refuses its graph: {error}") from error
        return made

    def _constants(self) -> dict[str, Any]:
        return self._tensors("constants", "model_constants_config")

    def _check_expression(self, text: str) -> None:
        """Raises PackageError for a text that is more than arithmetic: PyTorch evaluates it."""
        try:
            tree = ast.parse(text, mode="eval") if len(text) < 1 << 16 else None
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            tree = None
        if tree is None or not all(map(_is_arithmetic, ast.walk(tree))):
            raise _damaged(self._file, f"{text[:60]!r} is no size")

    def _check_target(self, text: str) -> None:
        """Raises PackageError for a function that is none of tensors: PyTorch finds and calls it."""
        if not _TARGETS.fullmatch(text):
            raise _damaged(self._file, f"its graph calls {text[:60]!r}")

    def _plain_structure(self, text: str) -> str:
        """How arguments or results are put together, of lists, tuples and dictionaries alone: for other types
        PyTorch would import modules that the file names, or need those of whoever wrote it."""
        try:
            protocol, described = json.loads(text)
            return json.dumps([protocol, _plain(described, 0)])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _damaged(self._file, f"a structure of arguments or results: {error}") from None

    # Parts

    def _info(self, name: str) -> zipfile.ZipInfo:
        if name not in self._parts:
            raise _damaged(self._file, f"it has no part {name!r}")
        return self._parts[name]

    def _json(self, name: str) -> dict[str, Any]:
        info = self._info(name)
        if info.file_size > _JSON_LIMIT:
            raise _damaged(self._file, f"{name} has {info.file_size} bytes")
        with self._archive.open(info) as part:
            data = part.read(_JSON_LIMIT + 1)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _damaged(self._file, f"{name} is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise _damaged(self._file, f"{name} is no JSON object")
        return found  # pyright: ignore[reportUnknownVariableType]

    def _content(self, name: str) -> memoryview:
        """The bytes of a part, where the file has them. Raises PackageError for a compressed one."""
        info = self._info(name)
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise _damaged(self._file, f"{name} is compressed or encrypted")
        head = self._bytes[info.header_offset : info.header_offset + 30]
        if len(head) < 30 or head[:4] != b"PK\x03\x04":
            raise _damaged(self._file, f"{name} lies outside of the file")
        name_length, extra_length = struct.unpack("<HH", head[26:30])
        begin = info.header_offset + 30 + name_length + extra_length
        if begin + info.file_size > len(self._bytes):
            raise _damaged(self._file, f"{name} reaches over the end of the file")
        return memoryview(self._bytes)[begin : begin + info.file_size]

    # Tensors

    def _tensors(self, folder: str, index: str) -> dict[str, Any]:
        """The tensors that an index describes; tied ones share a part."""
        rows = self._json(f"data/{folder}/{index}.json").get("config")
        if not isinstance(rows, dict):
            raise _damaged(self._file, f"{index} describes no tensors")
        found: dict[str, Any] = {}
        for name, row in rows.items():  # pyright: ignore[reportUnknownVariableType]
            tensor = self._tensor(folder, str(name), row)
            is_parameter = folder == "weights" and row.get("is_param")
            found[str(name)] = (
                torch().nn.Parameter(tensor, requires_grad=False) if is_parameter else tensor
            )
        return found

    def _tensor(self, folder: str, name: str, row: Any) -> Any:
        try:
            part, meta = str(row["path_name"]), row["tensor_meta"]
            if row["use_pickle"] or meta is None or not re.fullmatch(r"(weight|tensor)_\d+", part):
                raise PackageError(
                    "OI1508",
                    f"{self._file}: {name} is pickled, and reading it could run code",
                    hint="load the file with torch.export.load if you trust it, and give what it returns",
                )
            sizes, strides = ([_number(one) for one in meta[key]] for key in ("sizes", "strides"))
            offset, dtype = _number(meta["storage_offset"]), _dtype(meta["dtype"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self._file, f"the description of {name}: {error}") from None
        content = self._content(f"data/{folder}/{part}")
        if len(sizes) != len(strides) or min([offset, *sizes, *strides], default=0) < 0:
            raise _damaged(self._file, f"the shape of {name}")
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        itemsize = dtype.itemsize
        if prod(sizes) and (last + 1) * itemsize > len(content):
            raise _damaged(self._file, f"{name} is larger than its {len(content)} bytes")
        if not len(content) or not prod(sizes):
            return torch().empty(sizes, dtype=dtype)
        whole = len(content) // itemsize * itemsize
        with warnings.catch_warnings():
            # PyTorch warns of memory that nobody may write; nobody does.
            warnings.simplefilter("ignore")
            flat = torch().from_numpy(_aligned(content[:whole])).view(dtype)
        return flat.as_strided(sizes, strides, offset)


def _plain(described: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """A node of a structure. A class with names for its parts is a dictionary, any other one a tuple.

    Raises ValueError, TypeError or KeyError for what is no structure.
    """
    if depth > _DEPTH_LIMIT:
        raise ValueError(f"it is more than {_DEPTH_LIMIT} deep")
    kind, context, parts = (described[key] for key in ("type", "context", "children_spec"))
    children = [_plain(one, depth + 1) for one in parts]
    if kind is None:
        return {"type": None, "context": None, "children_spec": children}
    names = json.loads(context) if isinstance(context, str) else context
    if kind == "builtins.list" and names is None:
        return {"type": kind, "context": "null", "children_spec": children}
    if (
        isinstance(names, list)
        and len(names) == len(children)
        and all(isinstance(one, str | int) for one in names)  # pyright: ignore[reportUnknownVariableType]
    ):
        return {"type": "builtins.dict", "context": json.dumps(names), "children_spec": children}
    return {"type": "builtins.tuple", "context": "null", "children_spec": children}


def _aligned(content: memoryview) -> Any:
    """The bytes as an array that PyTorch takes; it never writes into it."""
    array = np.frombuffer(content, np.uint8)
    return array.copy() if array.ctypes.data % 16 else array


def _number(described: Mapping[str, Any]) -> int:
    value = described["as_int"]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no number")
    return value


def _dtype(number: Any) -> Any:
    from torch._export.serde import schema, serialize  # pyright: ignore

    return serialize.deserialize_scalar_type(schema.ScalarType(number))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a JSON value; without recursion."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one  # pyright: ignore[reportUnknownVariableType]
            left += one.values()  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(one, list):
            left += one  # pyright: ignore[reportUnknownVariableType]


_NODES = (
    *(ast.Expression, ast.Load, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop),
    *(ast.cmpop, ast.keyword),
)


def _is_arithmetic(node: ast.AST) -> bool:
    """Whether a part of a text is a number, a symbol, or a function of them."""
    match node:
        case ast.Call(ast.Name(name), arguments):
            small = "Pow" not in name or _is_small(arguments[-1])
            return name in _FUNCTIONS and small
        case ast.BinOp(op=ast.Pow(), right=right):
            return _is_small(right)
        case ast.Constant(int(value)):
            return abs(value) < 1 << 63
        case ast.Name():
            return node.id in _FUNCTIONS or re.fullmatch(r"[a-z]+\d*", node.id) is not None
        case ast.Constant():
            return (
                isinstance(node.value, float)
                or re.fullmatch(r"[A-Za-z_]\w*|-?[\d.]+(e-?\d+)?", str(node.value)) is not None
            )
        case _:
            return isinstance(node, _NODES)


def _is_small(node: ast.AST) -> bool:
    """Whether an exponent is a small number: of others a power may never end."""
    match node:
        case ast.Call(ast.Name("Integer"), [ast.Constant(int(value))]) | ast.Constant(int(value)):
            return 0 <= value <= 8
        case _:
            return False
