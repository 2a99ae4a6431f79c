"""`linalg.generic` against NumPy: shapes, layouts, dtypes and reductions, compiled and run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint

from openinfer.compiler.registry import make_context
from openinfer.lowering.cpu.jit import LOOPS_TO_LLVM, compile_loops
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.nest import nest_extents
from openinfer.lowering.verify_dominance import verify_dominance
from openinfer.runtime.dtypes import dtype as dtype_row
from openinfer.runtime.errors import CompileError, UnsupportedError
from openinfer.runtime.storage import to_storage

Array = np.ndarray[Any, Any]
TARGETS = ("avx512", "avx2", "generic")


def lowered(text: str, target: str) -> ModuleOp:
    """The module of a function's text after the pass, verified; nothing of linalg is left."""
    whole = f'builtin.module attributes {{openinfer.target = "{target}"}} {{\n{text}\n}}'
    context = make_context()
    module = Parser(context, whole).parse_module()
    module.verify()
    LowerKernels().apply(context, module)
    module.verify()
    verify_dominance(module)
    assert not any(op.name.startswith("linalg.") for op in module.walk())
    return module


def run(text: str, *arguments: Any, target: str = "avx512") -> None:
    compile_loops(lowered(text, target), "f", passes=LOOPS_TO_LLVM)(*arguments)


def buffer_type(shape: Sequence[int | None], element: str) -> str:
    sizes = "".join(f"{'?' if size is None else size}x" for size in shape)
    return f"memref<{sizes}{element}>"


def generic(
    maps: Sequence[str], kinds: str, types: Sequence[str], elements: Sequence[str], body: str
) -> str:
    """A function with one `linalg.generic`; the last operand is the output. Kinds: p and r."""
    arguments = [f"%a{i}" for i in range(len(types))]
    iterators = ", ".join('"parallel"' if k == "p" else '"reduction"' for k in kinds)
    inputs = f"ins({', '.join(arguments[:-1])} : {', '.join(types[:-1])})" if types[:-1] else ""
    scalars = ", ".join(f"%s{i}: {e}" for i, e in enumerate(elements))
    return f"""
    func.func @f({", ".join(f"{a}: {t}" for a, t in zip(arguments, types))}) {{
      linalg.generic {{indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps)}],
        iterator_types = [{iterators}]}} {inputs} outs({arguments[-1]} : {types[-1]}) {{
      ^bb0({scalars}):
        {body}
      }}
      func.return
    }}"""


ADD_HALF = """%h = arith.constant 0.5 : f32
        %r = arith.addf %s0, %h : f32
        linalg.yield %r : f32"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (16,), (3, 37), (2, 3, 16), (4, 0), (0, 4)])
def test_elementwise_shapes(shape: tuple[int, ...], target: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape).astype(np.float32)
    dims = ", ".join(f"d{i}" for i in range(len(shape)))
    map = f"({dims}) -> ({dims})"
    choices = [shape] if not shape else [shape, tuple(None for _ in shape), (None, *shape[1:])]
    for described in choices:
        kind = buffer_type(described, "f32")
        y = np.full(shape, 7, np.float32)
        text = generic([map, map], "p" * len(shape), [kind, kind], ["f32", "f32"], ADD_HALF)
        run(text, x, y, target=target)
        np.testing.assert_array_equal(y, x + np.float32(0.5))


BROADCASTS = {
    "row": ((3, 37), "(d0, d1) -> (d1)", (37,)),
    "column": ((3, 37), "(d0, d1) -> (d0)", (3,)),
    "unit axis": ((3, 5, 18), "(d0, d1, d2) -> (d0, 0, d2)", (3, 1, 18)),
    "middle": ((3, 5, 18), "(d0, d1, d2) -> (d1)", (5,)),
    "scalar": ((3, 5, 18), "(d0, d1, d2) -> ()", ()),
    "outer two": ((3, 5, 18), "(d0, d1, d2) -> (d0, d1)", (3, 5)),
    "transposed": ((6, 20), "(d0, d1) -> (d1, d0)", (20, 6)),
    "swapped outer": ((3, 5, 18), "(d0, d1, d2) -> (d1, d0, d2)", (5, 3, 18)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", BROADCASTS)
def test_operands_of_other_shapes(name: str, dynamic: bool) -> None:
    shape, map, small = BROADCASTS[name]
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=shape).astype(np.float32), rng.normal(size=small).astype(np.float32)
    dims = ", ".join(f"d{i}" for i in range(len(shape)))
    full = f"({dims}) -> ({dims})"
    kinds = [
        buffer_type([None if dynamic and n != 1 else n for n in s], "f32")
        for s in (shape, small, shape)
    ]
    body = "%r = arith.subf %s0, %s1 : f32\n linalg.yield %r : f32"
    text = generic([full, map, full], "p" * len(shape), kinds, ["f32"] * 3, body)
    y = np.zeros(shape, np.float32)
    run(text, x, z, y)
    axes = [int(a.strip()[1:]) for a in map.split("->")[1].strip(" ()").split(",") if "d" in a]
    source = z.reshape([n for n in small if n != 1 or len(axes) == len(small)])
    spread = np.transpose(source, np.argsort(axes))
    spread = spread.reshape([n if d in axes else 1 for d, n in enumerate(shape)])
    np.testing.assert_array_equal(y, x - spread)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 40, 35), (1, 16, 49), (3, 17, 18)])
def test_squares_that_are_turned(shape: tuple[int, ...], target: str) -> None:
    """y[n, c, p] += x[n, p, c] * gain[c] + bias[p]: one operand of four has to be turned."""
    rng = np.random.default_rng(4)
    n, c, p = shape
    x, y = (rng.normal(size=s).astype(np.float32) for s in ((n, p, c), shape))
    gain, bias = (rng.normal(size=size).astype(np.float32) for size in (c, p))
    places = ("(d0, d2, d1)", "(d1)", "(d2)", "(d0, d1, d2)")
    kinds = [buffer_type(a.shape, "f32") for a in (x, gain, bias, y)]
    body = """%a = arith.mulf %s0, %s1 : f32
        %b = arith.addf %a, %s2 : f32
        %r = arith.addf %b, %s3 : f32
        linalg.yield %r : f32"""
    text = generic([f"(d0, d1, d2) -> {q}" for q in places], "ppp", kinds, ["f32"] * 4, body)
    wanted = np.swapaxes(x, 1, 2) * gain[:, None] + bias + y
    whole = np.full(y.size + 64, 7, np.float32)
    found = whole[32:-32].reshape(shape)
    found[...] = y
    run(text, x, gain, bias, found, target=target)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert (whole[:32] == 7).all()
    assert (whole[-32:] == 7).all()


# What a sum over each choice of axes must give, with all maps of a rank 3 input.
AXES = [axes for n in (1, 2, 3) for axes in itertools.combinations(range(3), n)]


@pytest.mark.parametrize("shape", [(3, 5, 40), (2, 9, 1), (4, 1, 128), (1, 7, 5), (3, 0, 8)])
@pytest.mark.parametrize("axes", AXES)
def test_sums(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=shape).astype(np.float32)
    kept = [d for d in range(3) if d not in axes]
    maps = ["(d0, d1, d2) -> (d0, d1, d2)", f"(d0, d1, d2) -> ({', '.join(f'd{d}' for d in kept)})"]
    kinds = "".join("r" if d in axes else "p" for d in range(3))
    body = "%r = arith.addf %s0, %s1 : f32\n linalg.yield %r : f32"
    for dynamic in (False, True):
        described = [[None if dynamic else n for n in s] for s in (shape, [shape[d] for d in kept])]
        types = [buffer_type(d, "f32") for d in described]
        y = rng.normal(size=[shape[d] for d in kept]).astype(np.float32)
        expected = y + x.sum(axis=axes)
        run(generic(maps, kinds, types, ["f32", "f32"], body), x, y)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


COMBINERS = {
    "mulf": ("f32", np.multiply),
    "maximumf": ("f32", np.maximum),
    "minimumf": ("f32", np.minimum),
    "maxnumf": ("f32", np.fmax),
    "minnumf": ("f32", np.fmin),
    "addi": ("i32", np.add),
    "muli": ("i16", np.multiply),
    "maxsi": ("i8", np.maximum),
    "minsi": ("i64", np.minimum),
    "maxui": ("u8", np.maximum),
    "minui": ("u32", np.minimum),
    "andi": ("i8", np.bitwise_and),
    "ori": ("i32", np.bitwise_or),
    "xori": ("i64", np.bitwise_xor),
}


@pytest.mark.parametrize("name", COMBINERS)
def test_combiners_along_both_axes(name: str) -> None:
    dtype, function = COMBINERS[name]
    element = dtype.replace("u", "i")
    rng = np.random.default_rng(4)
    if element == "f32":
        x = rng.normal(size=(5, 70)).astype(np.float32)
        x[2, 66] = np.nan
    else:
        info = np.iinfo(dtype_row(dtype).value)
        x = rng.integers(info.min, info.max, (5, 70), endpoint=True, dtype=info.dtype)
    for kinds, kept in (("pr", "d0"), ("rp", "d1")):
        axis = kinds.index("r")
        maps = ["(d0, d1) -> (d0, d1)", f"(d0, d1) -> ({kept})"]
        types = [buffer_type((None, None), element), buffer_type((None,), element)]
        body = f"%r = arith.{name} %s1, %s0 : {element}\n linalg.yield %r : {element}"
        y = np.ascontiguousarray(np.flip(x, axis).take(3, axis))
        with np.errstate(all="ignore"):
            expected = function(y, function.reduce(x, axis=axis, dtype=x.dtype))
        run(generic(maps, kinds, types, [element, element], body), x, y)
        if element == "f32":
            np.testing.assert_allclose(y, expected, rtol=2e-5)
        else:
            np.testing.assert_array_equal(y, expected)


def test_product_of_matrices_any_layout() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(7, 19)).astype(np.float32), rng.normal(size=(19, 21))
    b = b.astype(np.float32)
    body = """%m = arith.mulf %s0, %s1 : f32
        %r = arith.addf %s2, %m : f32
        linalg.yield %r : f32"""
    left, right, out = "(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"
    turned = "(m, n, k) -> (n, k)"
    for map, matrix in ((right, b), (turned, np.ascontiguousarray(b.T))):
        types = [buffer_type(s, "f32") for s in (a.shape, matrix.shape, (7, 21))]
        c = np.zeros((7, 21), np.float32)
        run(generic([left, map, out], "ppr", types, ["f32"] * 3, body), a, matrix, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_narrow_floats_through_f32(element: str) -> None:
    rng = np.random.default_rng(6)
    x = to_storage(dtype_row(element), rng.normal(size=(3, 45)).astype(np.float32))
    y = np.zeros_like(x)
    body = f"""%w = arith.extf %s0 : {element} to f32
        %q = arith.mulf %w, %w : f32
        %r = arith.truncf %q : f32 to {element}
        linalg.yield %r : {element}"""
    map = "(d0, d1) -> (d0, d1)"
    kind = buffer_type((None, 45), element)
    run(generic([map, map], "pp", [kind, kind], [element] * 2, body), x, y)
    values = x.astype(np.float32) if element == "f16" else _widened(x)
    np.testing.assert_array_equal(y, to_storage(dtype_row(element), values * values))


def _widened(x: Array) -> Array:
    return (x.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("element", ["f64", "i64", "i32", "i16", "i8"])
def test_other_elements(element: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(-100, 100, (3, 45)).astype(dtype_row(element).value)
    y = np.zeros_like(x)
    op = "addf" if element == "f64" else "addi"
    body = f"%r = arith.{op} %s0, %s0 : {element}\n linalg.yield %r : {element}"
    map = "(d0, d1) -> (d0, d1)"
    kind = buffer_type((None, None), element)
    run(generic([map, map], "pp", [kind, kind], [element] * 2, body), x, y)
    np.testing.assert_array_equal(y, x + x)


def test_bools_and_selection() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(4, 33)).astype(np.float32)
    mask = rng.integers(0, 2, 33).astype(np.bool_)
    above = np.zeros((4, 33), np.bool_)
    body = """%z = arith.constant 0 : i8
        %zero = arith.constant 0.0 : f32
        %c = arith.cmpi ne, %s1, %z : i8
        %v = arith.select %c, %s0, %zero : f32
        %p = arith.cmpf ogt, %v, %zero : f32
        %r = arith.extui %p : i1 to i8
        linalg.yield %r : i8"""
    maps = ["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d1)", "(d0, d1) -> (d0, d1)"]
    types = [buffer_type(s, e) for s, e in (((4, 33), "f32"), ((33,), "i8"), ((4, 33), "i8"))]
    run(generic(maps, "pp", types, ["f32", "i8", "i8"], body), x, mask, above)
    np.testing.assert_array_equal(above, np.where(mask, x, 0) > 0)


def test_indices_in_the_body() -> None:
    """A causal mask: the index of both dimensions, one of them a vector."""
    x = np.random.default_rng(9).normal(size=(2, 20, 20)).astype(np.float32)
    y = np.zeros_like(x)
    body = """%i = linalg.index 1 : index
        %j = linalg.index 2 : index
        %c = arith.cmpi ule, %j, %i : index
        %low = arith.constant -1.0 : f32
        %r = arith.select %c, %s0, %low : f32
        linalg.yield %r : f32"""
    map = "(d0, d1, d2) -> (d0, d1, d2)"
    kind = buffer_type((None, None, None), "f32")
    run(generic([map, map], "ppp", [kind, kind], ["f32", "f32"], body), x, y)
    np.testing.assert_array_equal(y, np.where(np.tri(20, dtype=bool), x, -1))


def test_update_in_place_and_scalar_operand() -> None:
    y = np.arange(35, dtype=np.float32).reshape(5, 7)
    expected = y * 3 + y
    text = """
    func.func @f(%s: f32, %y: memref<5x7xf32>) {
      linalg.generic {indexing_maps = [affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]} ins(%s : f32) outs(%y : memref<5x7xf32>) {
      ^bb0(%a: f32, %o: f32):
        %m = arith.mulf %o, %a : f32
        %r = arith.addf %m, %o : f32
        linalg.yield %r : f32
      }
      func.return
    }"""
    run(text, 3.0, y)
    np.testing.assert_array_equal(y, expected)


def test_reduction_that_is_no_plain_combiner() -> None:
    """`o = a * o + 1` depends on the order: it runs one element after the other."""
    x = np.random.default_rng(10).normal(size=(3, 50)).astype(np.float32)
    y = np.ones(3, np.float32)
    expected = np.ones(3, np.float32)
    for k in range(50):
        expected = x[:, k] * expected + np.float32(1)
    body = """%one = arith.constant 1.0 : f32
        %m = arith.mulf %s0, %s1 : f32
        %r = arith.addf %m, %one : f32
        linalg.yield %r : f32"""
    maps = ["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0)"]
    types = [buffer_type((3, 50), "f32"), buffer_type((3,), "f32")]
    run(generic(maps, "pr", types, ["f32", "f32"], body), x, y)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_two_outputs() -> None:
    """Sum and largest element of each row, and both squares of all elements."""
    x = np.random.default_rng(11).normal(size=(4, 37)).astype(np.float32)
    text = """
    func.func @f(%x: memref<4x37xf32>, %s: memref<4xf32>, %m: memref<4xf32>,
                 %p: memref<4x37xf32>, %n: memref<4x37xf32>) {
      linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
        affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
        ins(%x : memref<4x37xf32>) outs(%s, %m : memref<4xf32>, memref<4xf32>) {
      ^bb0(%a: f32, %o: f32, %q: f32):
        %r = arith.addf %a, %o : f32
        %t = arith.maximumf %q, %a : f32
        linalg.yield %r, %t : f32, f32
      }
      linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%x : memref<4x37xf32>) outs(%p, %n : memref<4x37xf32>, memref<4x37xf32>) {
      ^bb0(%a: f32, %o: f32, %q: f32):
        %r = arith.mulf %a, %a : f32
        %t = arith.negf %r : f32
        linalg.yield %r, %t : f32, f32
      }
      func.return
    }"""
    total, largest = np.zeros(4, np.float32), np.full(4, -np.inf, np.float32)
    squares, negated = np.zeros_like(x), np.zeros_like(x)
    run(text, x, total, largest, squares, negated)
    np.testing.assert_allclose(total, x.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(largest, x.max(1))
    np.testing.assert_array_equal(squares, x * x)
    np.testing.assert_array_equal(negated, -squares)


def test_output_inside_a_reduction_and_shifted_index() -> None:
    """Forms that no other schedule fits: each point reads and writes the outputs."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    text = """
    func.func @f(%x: memref<3x4xf32>, %y: memref<3x5xf32>, %s: memref<3xf32>) {
      linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
        affine_map<(i, j) -> (i, j + 1)>, affine_map<(i, j) -> (i)>],
        iterator_types = ["parallel", "reduction"]}
        ins(%x : memref<3x4xf32>) outs(%y, %s : memref<3x5xf32>, memref<3xf32>) {
      ^bb0(%a: f32, %o: f32, %q: f32):
        %t = arith.addf %q, %a : f32
        linalg.yield %a, %t : f32, f32
      }
      func.return
    }"""
    y, total = np.zeros((3, 5), np.float32), np.zeros(3, np.float32)
    run(text, x, y, total)
    np.testing.assert_array_equal(y[:, 1:], x)
    np.testing.assert_array_equal(total, x.sum(1))


def test_strided_buffers() -> None:
    """A view with gaps between rows keeps its vectors, one with gaps inside them does not."""
    for layout, step in (("strided<[40, 1]>", 1), ("strided<[80, 2]>", 2)):
        base = np.random.default_rng(12).normal(size=(3, 40 * step)).astype(np.float32)
        view = base[:, : 20 * step : step]
        y = np.zeros((3, 20), np.float32)
        text = f"""
        func.func @f(%x: memref<3x20xf32, {layout}>, %y: memref<3x20xf32>) {{
          linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
            affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
            ins(%x : memref<3x20xf32, {layout}>) outs(%y : memref<3x20xf32>) {{
          ^bb0(%a: f32, %o: f32):
            %r = arith.negf %a : f32
            linalg.yield %r : f32
          }}
          func.return
        }}"""
        run(text, view, y)
        np.testing.assert_array_equal(y, -view)


def test_locations_are_kept() -> None:
    text = """builtin.module {
    func.func @f(%y: memref<8xf32>) {
      linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        outs(%y : memref<8xf32>) {
      ^bb0(%o: f32):
        linalg.yield %o : f32
      }
      func.return
    }}"""
    from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

    context = make_context()
    module = Parser(context, text).parse_module()
    place = FileLineColLoc(StringAttr("a.oi"), IntAttr(3), IntAttr(5))
    (generic_op,) = [op for op in module.walk() if op.name == "linalg.generic"]
    generic_op.location = place
    LowerKernels().apply(context, module)
    loads = [op for op in module.walk() if op.name == "vector.load"]
    assert loads
    assert all(op.location == place for op in loads)


def test_unknown_target_and_unbounded_loop_are_refused() -> None:
    kind = buffer_type((8,), "f32")
    text = generic(["(i) -> (i)"] * 2, "p", [kind, kind], ["f32", "f32"], ADD_HALF)
    with pytest.raises(UnsupportedError, match="no target 'vax'"):
        lowered(text, "vax")
    with pytest.raises(CompileError, match="how often dimension 0 runs"):
        nest_extents(LoopBuilder(InsertPoint.at_end(Block())), 1, [], "linalg.generic")
