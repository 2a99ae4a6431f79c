"""What a shader declares: extensions, buffers, shared memory, functions. The body is written elsewhere.

    binding 0       words of 32 bits, those of a launch from `first` on (a push constant)
    binding 1 …     the buffers of the kernel in the order of its arguments

This is the interface of the kernels that `convert-to-spirv` makes of the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, VectorType, i1
from xdsl.ir import Attribute

from openinfer.lowering.emit.expressions import Expression, name, number
from openinfer.lowering.emit.helpers import BEFORE, helper_text, needs_nan
from openinfer.lowering.emit.names import Names
from openinfer.lowering.emit.types import (
    extensions_of,
    is_float,
    storage_extensions,
    type_of,
    vector_type,
    width_of,
)
from openinfer.runtime.errors import UnsupportedError


def no_text(what: str, place: object = None) -> UnsupportedError:
    """The error for something that no shader is written for."""
    where = f"{place}: " if place else ""
    return UnsupportedError("OI0765", f"{where}{what} has no text in GLSL")


@dataclass
class Buffer:
    """A buffer of a kernel, or a view of one; of shared memory where it has no binding."""

    array: str
    element: Attribute
    dims: tuple[Expression, ...]
    word: int | None = None
    """The word that says where its first element lies, if it is not that of the binding."""
    binding: int = 0
    """The number by which the host binds it; 0 for shared memory, as parameters have that one."""

    @property
    def is_shared(self) -> bool:
        return not self.binding


@dataclass
class _Block:
    """A way to see a binding: its elements as scalars, or some of them as a vector."""

    array: str
    kind: str
    buffer: Buffer
    read: bool = False
    written: bool = False

    def text(self, *, told: bool) -> str:
        """`told`: workgroups read what others have written."""
        told = told and self.written
        access = (
            "coherent "
            if told
            else ""
            if self.read and self.written
            else "readonly "
            if self.read
            else "writeonly "
        )
        precise = "precise " if self.written and is_float(self.buffer.element) else ""
        title = self.array[:1].upper() + self.array[1:] + "Buffer"
        return (
            f"layout(std430, binding = {self.buffer.binding}) {access}buffer {title} {{ "
            f"{precise}{self.kind} {self.array}[]; }};"
        )


@dataclass
class Shader:
    """The declarations of one shader, which grow while its body is written."""

    size: Sequence[int]
    names: Names = field(default_factory=Names)
    extensions: set[str] = field(default_factory=set[str])
    told: bool = False
    """Whether workgroups tell each other what they have written."""
    functions: list[str] = field(default_factory=list[str])
    """Of the program's own: what elements of a matrix become."""
    _blocks: dict[tuple[int, str], _Block] = field(default_factory=dict[tuple[int, str], _Block])
    _shared: list[str] = field(default_factory=list[str])
    _helpers: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    _constants: set[str] = field(default_factory=set[str])
    _words: dict[int, str] = field(default_factory=dict[int, str])
    _names_of_words: list[str] = field(default_factory=list[str])

    # Types and functions

    def type(self, kind: Attribute) -> str:
        """The name of a type, which is declared. Raises UnsupportedError OI0765."""
        found = type_of(kind)
        if found is None:
            raise no_text(f"the type {kind}")
        self.extensions.update(extensions_of(found))
        return found

    def helper(self, function: str, scalar: str) -> str:
        """A function for a type, which the shader then has."""
        if function in BEFORE:
            self.helper(BEFORE[function], scalar)
        self._helpers[function, scalar] = None
        if needs_nan(function):
            self._constants.add("NAN")
        return function

    def constant(self, expression: Expression) -> Expression:
        """A number, with the names in it declared."""
        self._constants |= {one for one in ("NAN", "INFINITY") if one in expression.text}
        return expression

    # What the host passes

    def next_word(self, wanted: str) -> int:
        """The number of the next word that the host passes."""
        self._names_of_words.append(wanted)
        return len(self._names_of_words) - 1

    def word(self, place: int) -> Expression:
        """A word by its number; only those that a kernel uses are read."""
        if place not in self._words:
            self._words[place] = self.names.new(self._names_of_words[place])
        return name(self._words[place])

    def buffer(self, binding: int, kind: MemRefType, wanted: str, *, exact: bool) -> Buffer:
        """A buffer that the host binds; `exact`: at its first element."""
        if kind.element_type == i1:
            # A bool of GLSL is none of the bits that packed elements are.
            raise no_text(f"memory of {i1}")
        array = self.names.new(wanted)
        first = None if exact else self.next_word(f"{array}_first")
        # The names of extents are given when they are used, by their numbers.
        dims = tuple(
            Expression(f"#{self.next_word(f'{array}_dim{axis}')}")
            if extent == DYNAMIC_INDEX
            else number(extent)
            for axis, extent in enumerate(kind.get_shape())
        )
        return Buffer(array, kind.element_type, dims, first, binding)

    def dim(self, buffer: Buffer, axis: int) -> Expression:
        """The extent of a buffer along an axis."""
        found = buffer.dims[axis]
        if found.text.startswith("#"):
            return name(self.word(int(found.text[1:])).text, non_negative=True)
        return found

    def first(self, buffer: Buffer) -> Expression:
        """Where the first element of a buffer lies in its binding."""
        if buffer.word is None:
            return number(0)
        return name(self.word(buffer.word).text, non_negative=True)

    # Memory

    def array(self, buffer: Buffer, kind: str, *, read: bool) -> str:
        """The array of a buffer that has elements of a type: its own, or vectors of them."""
        if buffer.is_shared:
            return buffer.array
        key = buffer.binding, kind
        if key not in self._blocks:
            own = type_of(buffer.element) == kind
            array = buffer.array if own else self.names.new(f"{buffer.array}_{kind}")
            self._blocks[key] = _Block(array, kind, buffer)
            self.extensions.update(storage_extensions(buffer.element))
        block = self._blocks[key]
        block.read, block.written = block.read or read, block.written or not read
        return block.array

    def shared(self, kind: MemRefType, wanted: str) -> Buffer:
        """Memory that the invocations of a workgroup share."""
        array, element = self.names.new(wanted), kind.element_type
        if isinstance(element, VectorType):
            text = self.wide_type(element.element_type, element.element_count())
        else:
            text = self.type(element)
        precise = "precise " if is_float(element) else ""
        self._shared.append(f"shared {precise}{text} {array}[{prod(kind.get_shape())}];")
        return Buffer(array, element, tuple(number(extent) for extent in kind.get_shape()))

    def wide_type(self, element: Attribute, count: int) -> str:
        """The type of neighbours in one access: a vector of them, or of words of 32 bits."""
        scalar = self.type(element)
        if count <= 4:
            return vector_type(scalar, count)
        words = count * width_of(element) // 32
        return vector_type("uint" if is_float(element) else "int", words)

    # Text

    def text(self, title: Sequence[str], body: Sequence[str]) -> str:
        """The whole shader."""
        parts = [
            [
                *title,
                "#version 450",
                *(f"#extension {extension} : require" for extension in sorted(self.extensions)),
            ],
            [f"layout({self._size()}) in;"],
            self._interface(),
            self._shared,
            [f"const float {one} = {_VALUES[one]};" for one in sorted(self._constants)],
            *([helper_text(*key)] for key in self._helpers),
            *([text] for text in self.functions),
            ["void main() {", *self._parameters(), *body, "}"],
        ]
        return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"

    def _size(self) -> str:
        axes = [f"local_size_{axis} = {size}" for axis, size in zip("xyz", self.size)]
        return ", ".join(one for one in axes if axes.index(one) == 0 or not one.endswith("= 1"))

    def _interface(self) -> list[str]:
        blocks = [block.text(told=self.told) for _, block in sorted(self._blocks.items())]
        if not self._words:
            return blocks
        return [
            "layout(push_constant) uniform Launch { int first; };",
            "layout(std430, binding = 0) readonly buffer Parameters { int parameters[]; };",
            *blocks,
        ]

    def _parameters(self) -> list[str]:
        return [
            f"    int {text} = parameters[first{f' + {place}' if place else ''}];"
            for place, text in sorted(self._words.items())
        ]


_VALUES = {"INFINITY": "1.0 / 0.0", "NAN": "0.0 / 0.0"}
