"""One call of each op that type-checks, for `docs/ops.md` and for editors.

`_OWN` has the calls that show an op better than what is found for it; an op without a row gets the first
call that its type rule accepts, so that a new op needs none. A test reads and simulates all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

from openinfer.dialects import opset
from openinfer.dialects.opset import NameRef, OpError, OpSpec, Setting, TensorSpec

_RESULTS = ("y", "z", "r", "s")


@dataclass(frozen=True)
class Own:
    """A call that somebody chose: types of the operands in order, settings, results."""

    types: tuple[str, ...] = ()
    settings: str = ""
    outputs: int = 1
    out: str = ""
    """The type of the result, for an op that takes its shape from there."""


def _f32(*shapes: str, settings: str = "", outputs: int = 1) -> Own:
    return Own(tuple(f"f32[{shape}]" for shape in shapes), settings, outputs)


_CELLS = ("6, 2, 4", "2, 5", "2, 5")
_OWN: dict[str, Own] = {
    "adaptive_avg_pool1d": _f32("1, 3, 8", settings="output_size=2"),
    "adaptive_avg_pool2d": _f32("1, 3, 8, 8", settings="output_size=[2, 4]"),
    "adaptive_avg_pool3d": _f32("1, 3, 8, 8, 8", settings="output_size=2"),
    "adaptive_max_pool1d": _f32("1, 3, 8", settings="output_size=2"),
    "adaptive_max_pool2d": _f32("1, 3, 8, 8", settings="output_size=[2, 4]"),
    "adaptive_max_pool3d": _f32("1, 3, 8, 8, 8", settings="output_size=2"),
    "attention": _f32("1, 4, 6, 8", "1, 4, 6, 8", "1, 4, 6, 8", settings="causal=true"),
    "avg_pool1d": _f32("1, 3, 8", settings="kernel_size=2"),
    "avg_pool2d": _f32("1, 3, 8, 8", settings="kernel_size=2"),
    "avg_pool3d": _f32("1, 3, 8, 8, 8", settings="kernel_size=2"),
    "batch_norm": _f32("2, 3, 8", "3", "3", "3", "3"),
    "bit_cast": Own(("f32[2, 3]",), "to=u32"),
    "cast": Own(("f32[2, 3]",), 'to=i8, rounding_mode="nearest"'),
    "clamp": _f32("2, 3", settings="min=-1.0, max=1.0"),
    "concat": _f32("2, 3", "4, 3", settings="axis=0"),
    "conv1d": _f32("1, 3, 16", "4, 3, 5", "4", settings="padding=2"),
    "conv2d": _f32("1, 3, 8, 8", "4, 3, 3, 3", "4", settings="padding=1"),
    "conv3d": _f32("1, 3, 8, 8, 8", "4, 3, 3, 3, 3", "4", settings="padding=1"),
    "conv_transpose2d": _f32("1, 3, 4, 4", "3, 2, 2, 2", settings="stride=2"),
    "dequantize": Own(("i8[2, 3]",), "scale=0.1, zero_point=0"),
    "dequantize_blocks": Own(("u8[2, 68]",)),
    "einsum": _f32("2, 3, 4", "2, 4, 5", settings='equation="bij,bjk->bik"'),
    "expert_linear": Own(("f32[3, 8]", "f32[4, 6, 8]", "i32[3, 2]")),
    "expand": _f32("1, 3", settings="shape=[2, 3]"),
    "fill": _f32("2, 3", settings="value=0.5"),
    "filter": Own(("f32[2, 3]", "f32[2, 3]", "bool[2, 3]")),
    "flip": _f32("2, 3", settings="axes=[1]"),
    "fma": _f32("2, 3", "2, 3", "2, 3"),
    "gather": Own(("f32[10, 4]", "i64[3]")),
    "gather_elements": Own(("f32[4, 3]", "i64[2, 3]"), "axis=0"),
    "group_norm": _f32("2, 6, 8", "6", "6", settings="groups=3"),
    "grid_sample": _f32("1, 3, 4, 4", "1, 2, 5, 2"),
    "gru": _f32("6, 2, 4", "2, 5", "15, 4", "15, 5", outputs=2),
    "instance_norm": _f32("2, 3, 8", "3", "3"),
    "iota": Own(settings="shape=[4], dtype=i32"),
    "irfft": _f32("2, 5, 2"),
    "layer_norm": _f32("2, 8", "8", "8", settings="eps=1e-5"),
    "lp_pool1d": _f32("1, 3, 8", settings="kernel_size=2"),
    "lp_pool2d": _f32("1, 3, 8, 8", settings="kernel_size=2"),
    "lp_pool3d": _f32("1, 3, 8, 8, 8", settings="kernel_size=2"),
    "lstm": _f32(*_CELLS, "20, 4", "20, 5", outputs=3),
    "matmul": _f32("2, 3", "3, 4"),
    "max_pool1d": _f32("1, 3, 8", settings="kernel_size=2"),
    "max_pool2d": _f32("1, 3, 8, 8", settings="kernel_size=3, stride=2, padding=1"),
    "max_pool3d": _f32("1, 3, 8, 8, 8", settings="kernel_size=2"),
    "one_hot": Own(("i64[3]",), "depth=10"),
    "pad": _f32("2, 3", settings="pads=[0, 0, 1, 2]"),
    "permute": _f32("2, 3, 4", settings="perm=[2, 0, 1]"),
    "prelu": _f32("2, 3, 8", "3"),
    "quantize_blocks": _f32("2, 64"),
    "quantize": _f32("2, 3", settings="dtype=i8, scale=0.1"),
    "random_uniform": Own(settings="seed=7", out="f32[2, 3]"),
    "reshape": _f32("2, 6", settings="shape=[2, 3, -1]"),
    "rfft": _f32("2, 8"),
    "rms_norm": _f32("2, 8", "8"),
    "rope": Own(("f32[1, 4, 6, 8]", "i64[6]")),
    "scatter": Own(("f32[10, 4]", "i64[3]", "f32[3, 4]"), 'mode="add"'),
    "scatter_elements": Own(("f32[4, 3]", "i64[2, 3]", "f32[2, 3]"), "axis=0"),
    "slice": _f32("2, 8", settings="axis=1, start=2, stop=6"),
    "sort": _f32("2, 3", settings="descending=true", outputs=2),
    "split": _f32("6, 2", settings="axis=0, sizes=[2, 4]", outputs=2),
    "squeeze": _f32("2, 1, 3", settings="axes=[1]"),
    "tile": _f32("2, 3", settings="repeats=[2, 1]"),
    "topk": _f32("2, 10", settings="k=3", outputs=2),
    "unsqueeze": _f32("2, 3", settings="axes=[0]"),
    "upsample2d": _f32("1, 3, 4, 4", settings='scale=2.0, mode="bilinear"'),
    "where": Own(("bool[2, 3]", "f32[2, 3]", "f32[2, 3]")),
}


@dataclass(frozen=True)
class Example:
    """A call of one op."""

    op: str
    operands: tuple[tuple[str, str], ...]
    """Name and type of each."""
    settings: str = ""
    outputs: int = 1
    out: str = ""

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the results."""
        taken = {name for name, _ in self.operands}
        return tuple(name for name in _RESULTS if name not in taken)[: self.outputs]

    @property
    def defines(self) -> bool:
        """Whether it is written `y = op …`: no type is declared, no setting is called like an operand."""
        spec = opset.find(self.op)
        operands = {*spec.operands, *spec.optional} if spec is not None else set[str]()
        given = set(re.findall(r"(\w+)=", self.settings))
        return not self.out and not given & operands

    @property
    def call(self) -> str:
        """The statement."""
        names = ", ".join(name for name, _ in self.operands)
        arguments = ", ".join(part for part in (names, self.settings) if part)
        results = ", ".join(self.results)
        if self.defines:
            return f"{results} = op {self.op}({arguments});"
        return f"op {self.op}({arguments}) >> {results};"

    @property
    def program(self) -> str:
        """A whole program that makes the call, and returns its results."""
        inputs = " ".join(f"{name}: {type_};" for name, type_ in self.operands)
        assigns = (
            ""
            if self.defines
            else "".join(f"assign {n}: {self.out or '_'}; " for n in self.results)
        )
        head = f"dynamic {{ {inputs} }}\n" if inputs else ""
        return f"{head}block entry {{ {assigns}{self.call} return {', '.join(self.results)}; }}\n"

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of the results. Raises ProgramError for a call that is wrong."""
        from openinfer.compiler.frontend import parse_program
        from openinfer.dialects.graph import AssignOp

        module = parse_program(self.program, f"<example of {self.op}>")
        found = {
            op.variable.data: f"{op.dtype.data}[{', '.join(str(dim) for dim in op.sizes)}]"
            for op in module.walk()
            if isinstance(op, AssignOp)
        }
        return tuple(found[name] for name in self.results)


@cache
def example_of(name: str) -> Example | None:
    """The example of an op; None where no call was found, which a row of `_OWN` mends."""
    spec = opset.find(name)
    assert spec is not None
    own = _OWN.get(spec.name)
    if own is not None:
        names = _names(spec, len(own.types))
        return Example(spec.name, tuple(zip(names, own.types)), own.settings, own.outputs, own.out)
    return next(_accepted(spec), None)


def _names(spec: OpSpec, count: int) -> list[str]:
    """Names of so many operands: as the registry calls them, repeated ones numbered."""
    names = [*spec.operands, *spec.optional]
    if len(names) >= count:
        return names[:count]
    last = names[-1] if names else "x"
    return [*names[:-1], *(f"{last}{number}" for number in range(1, count - len(names) + 2))]


# What the type rule of an op accepts

_SHAPES = (
    (2, 3),
    (2, 3, 4),
    (1, 3, 8, 8),
    (1, 3, 8),
    (1, 3, 8, 8, 8),
    (3, 3),
    (3,),
    (4,),
    (3, 4),
    (),
)
_VALUES: dict[str, tuple[object, ...]] = {
    "int": (1, 0, 2),
    "size": (2, 1),
    "ints": ((1,), (2,), (1, 0), (2, 2), (3, 2), (0, 0, 1, 1), (2, 2, 2), 2),
    "padding": (1, (1, 1)),
    "float": (0.5,),
    "number": (0.5, 1),
    "numbers": (2.0, (2.0, 2.0)),
    "dtype": (NameRef("f16"), NameRef("i8")),
    "dtypes": (NameRef("f32"),),
    "bool": (True,),
}


def _accepted(spec: OpSpec) -> Iterator[Example]:
    """Calls with the required operands and settings alone."""
    required = [setting for setting in spec.settings if setting.required]
    outputs = (1, 2, 3) if spec.outputs is None else (spec.outputs,)
    values = list(product(*(_values(setting) for setting in required)))
    names = _names(spec, len(spec.operands) + spec.variadic)
    for types in _types(spec):
        for chosen, count in product(values, outputs):
            given = {s.name: value for s, value in zip(required, chosen)}
            try:
                opset.infer_outputs(spec, types, given, count)
            except OpError:
                continue
            settings = ", ".join(f"{name}={_written(value)}" for name, value in given.items())
            operands = tuple((name, str(type_)) for name, type_ in zip(names, types))
            yield Example(spec.name, operands, settings, count)


def _types(spec: OpSpec) -> Iterator[list[TensorSpec]]:
    """Types of the required operands, two where one may be repeated; likely ones first."""
    count = len(spec.operands) + spec.variadic
    first = next((name for name in ("f32", "i32") if name in spec.dtypes), spec.dtypes[0])
    dtypes = dict.fromkeys([(first,) * count, *product((first, "i64", "bool"), repeat=count)])
    shapes: Sequence[tuple[tuple[int, ...], ...]] = [(shape,) * count for shape in _SHAPES]
    if count in (2, 3):
        shapes = [*shapes, *product(_SHAPES, repeat=count)]
    for kinds in [kinds for kinds in dtypes if not kinds or kinds[0] in spec.dtypes]:
        for chosen in shapes:
            yield [TensorSpec.of(kind, shape) for kind, shape in zip(kinds, chosen)]


def _values(setting: Setting) -> Sequence[object]:
    return setting.choices or _VALUES.get(setting.kind, ())


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)
