"""`arith` to machine code: every op on numbers and on vectors against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openinfer.lowering.cpu.jit import compile_loops

LANES = 8
INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
FLOATS = {"f32": np.float32, "f64": np.float64}

Reference = Callable[..., Any]


def elementwise(ops: list[str], inputs: list[str], output: str) -> str:
    """A module whose function applies each op to vectors, and to numbers in a loop.

    An op is text in which `{t}` stands for the input type, `{r}` for the result type and `{b}` for
    the type of a comparison, and which uses %a, %b, %c and defines %r.
    """
    count = len(ops)
    arguments = ", ".join(f"%in{i}: memref<{LANES}x{t}>" for i, t in enumerate(inputs))
    lines = [
        f"func.func @f({arguments}, %outs: memref<{count}x{LANES}x{output}>,"
        f" %outv: memref<{count}x{LANES}x{output}>) {{",
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        f"%n = arith.constant {LANES} : index",
    ]
    names = "abc"
    for i, t in enumerate(inputs):
        lines.append(f"%v{i} = vector.load %in{i}[%c0] : memref<{LANES}x{t}>, vector<{LANES}x{t}>")
    for k, op in enumerate(ops):
        lines.append(f"%k{k} = arith.constant {k} : index")
        text = op
        for i in range(len(inputs)):
            text = text.replace(f"%{names[i]}", f"%v{i}")
        text = text.replace("%r", f"%rv{k}").replace("%m", f"%mv{k}")
        vector_type = f"vector<{LANES}x{inputs[0]}>"
        result_type = f"vector<{LANES}x{output}>"
        text = text.replace("{t}", vector_type).replace("{r}", result_type)
        lines.append(text.replace("{b}", f"vector<{LANES}xi1>, "))
        memref = f"memref<{count}x{LANES}x{output}>"
        lines.append(f"vector.store %rv{k}, %outv[%k{k}, %c0] : {memref}, {result_type}")
    lines.append("scf.for %i = %c0 to %n step %c1 {")
    for i, t in enumerate(inputs):
        lines.append(f"%s{i} = memref.load %in{i}[%i] : memref<{LANES}x{t}>")
    for k, op in enumerate(ops):
        text = op
        for i in range(len(inputs)):
            text = text.replace(f"%{names[i]}", f"%s{i}")
        text = text.replace("%r", f"%rs{k}").replace("%m", f"%ms{k}")
        text = text.replace("{t}", inputs[0]).replace("{r}", output).replace("{b}", "")
        lines.append(text)
        lines.append(f"memref.store %rs{k}, %outs[%k{k}, %i] : memref<{count}x{LANES}x{output}>")
    lines += ["}", "func.return", "}"]
    return "\n".join(lines)


def check(
    cases: dict[str, Reference], inputs: list[str], output: str, arrays: list[np.ndarray[Any, Any]]
) -> None:
    ops = list(cases)
    run = compile_loops(elementwise(ops, inputs, output), "f")
    kind = {**INTEGERS, **FLOATS}[output]
    numbers = np.zeros((len(ops), LANES), kind)
    vectors = np.zeros((len(ops), LANES), kind)
    run(*arrays, numbers, vectors)
    for k, op in enumerate(ops):
        with np.errstate(all="ignore"):
            expected = np.asarray(cases[op](*arrays)).astype(kind)
        np.testing.assert_array_equal(numbers[k], expected, err_msg=f"numbers: {op}")
        np.testing.assert_array_equal(vectors[k], expected, err_msg=f"vectors: {op}")


def integers(dtype: str) -> list[np.ndarray[Any, Any]]:
    kind = INTEGERS[dtype]
    limits = np.iinfo(kind)
    a = np.array([0, 7, -7, 100, -100, limits.max, limits.min, -1], kind)
    b = np.array([1, 3, 3, -9, 9, 2, 5, -4], kind)
    return [a, b]


def unsigned(function: Reference) -> Reference:
    """The function on the same bits read as unsigned."""

    def apply(*arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        views = [x.view(f"u{x.itemsize}") for x in arrays]
        return np.asarray(function(*views)).astype(views[0].dtype).view(arrays[0].dtype)

    return apply


def truncated(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.trunc(a.astype(np.longdouble) / b.astype(np.longdouble))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic(dtype: str) -> None:
    bits = np.dtype(INTEGERS[dtype]).itemsize * 8
    cases: dict[str, Reference] = {
        "%r = arith.addi %a, %b : {t}": np.add,
        "%r = arith.subi %a, %b : {t}": np.subtract,
        "%r = arith.muli %a, %b : {t}": np.multiply,
        "%r = arith.divsi %a, %b : {t}": truncated,
        "%r = arith.divui %a, %b : {t}": unsigned(np.floor_divide),
        "%r = arith.floordivsi %a, %b : {t}": np.floor_divide,
        "%r = arith.ceildivsi %a, %b : {t}": lambda a, b: -(-(a.astype(object)) // b),
        "%r = arith.ceildivui %a, %b : {t}": unsigned(
            lambda a, b: -(-(a.astype(object)) // b.astype(object))
        ),
        "%r = arith.remsi %a, %b : {t}": np.fmod,
        "%r = arith.remui %a, %b : {t}": unsigned(np.remainder),
        "%r = arith.andi %a, %b : {t}": np.bitwise_and,
        "%r = arith.ori %a, %b : {t}": np.bitwise_or,
        "%r = arith.xori %a, %b : {t}": np.bitwise_xor,
        "%r = arith.minsi %a, %b : {t}": np.minimum,
        "%r = arith.maxsi %a, %b : {t}": np.maximum,
        "%r = arith.minui %a, %b : {t}": unsigned(np.minimum),
        "%r = arith.maxui %a, %b : {t}": unsigned(np.maximum),
        "%r, %m = arith.mulsi_extended %a, %b : {t}": np.multiply,
        "%m, %r = arith.mulsi_extended %a, %b : {t}": lambda a, b: (
            (a.astype(object) * b.astype(object)) >> bits
        ),
    }
    check(cases, [dtype, dtype], dtype, integers(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype: str) -> None:
    a, _ = integers(dtype)
    counts = np.array([0, 1, 2, 3, 4, 5, 6, 7], a.dtype)
    cases: dict[str, Reference] = {
        "%r = arith.shli %a, %b : {t}": np.left_shift,
        "%r = arith.shrsi %a, %b : {t}": np.right_shift,
        "%r = arith.shrui %a, %b : {t}": unsigned(np.right_shift),
    }
    check(cases, [dtype, dtype], dtype, [a, counts])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_comparison_and_select(dtype: str) -> None:
    a, b = integers(dtype)
    b[0] = a[0]
    signed = {
        "eq": np.equal,
        "ne": np.not_equal,
        "slt": np.less,
        "sle": np.less_equal,
        "sgt": np.greater,
        "sge": np.greater_equal,
    }
    others = {"ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal}

    def choose(compare: Reference, is_unsigned: bool) -> Reference:
        def apply(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            x, y = (v.view(f"u{v.itemsize}") if is_unsigned else v for v in (a, b))
            return np.where(compare(x, y), a, b)

        return apply

    select = "%r = arith.select %m, %a, %b : {b}{t}"
    cases: dict[str, Reference] = {
        f"%m = arith.cmpi {name}, %a, %b : {{t}}\n{select}": choose(compare, name in others)
        for name, compare in {**signed, **others}.items()
    }
    check(cases, [dtype, dtype], dtype, [a, b])


def floats(dtype: str) -> list[np.ndarray[Any, Any]]:
    kind = FLOATS[dtype]
    a = np.array([0.5, -1.25, 3e10, -0.0, np.inf, np.nan, 7.5, -7.5], kind)
    b = np.array([2.0, 4.5, -1e-3, 0.0, 1.0, 2.0, np.nan, 2.0], kind)
    return [a, b]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("flags", ["", " fastmath<contract>"])
def test_float_arithmetic(dtype: str, flags: str) -> None:
    cases: dict[str, Reference] = {
        f"%r = arith.addf %a, %b{flags} : {{t}}": np.add,
        f"%r = arith.subf %a, %b{flags} : {{t}}": np.subtract,
        f"%r = arith.mulf %a, %b{flags} : {{t}}": np.multiply,
        f"%r = arith.divf %a, %b{flags} : {{t}}": np.divide,
        f"%r = arith.remf %a, %b{flags} : {{t}}": np.fmod,
        f"%r = arith.maximumf %a, %b{flags} : {{t}}": np.maximum,
        f"%r = arith.minimumf %a, %b{flags} : {{t}}": np.minimum,
        f"%r = arith.maxnumf %a, %b{flags} : {{t}}": np.fmax,
        f"%r = arith.minnumf %a, %b{flags} : {{t}}": np.fmin,
        f"%r = arith.negf %a{flags} : {{t}}": lambda a, b: -a,
    }
    check(cases, [dtype, dtype], dtype, floats(dtype))


def test_maximumf_orders_signed_zeros() -> None:
    text = elementwise(["%r = arith.maximumf %a, %b : {t}"], ["f32", "f32"], "f32")
    a = np.full(LANES, -0.0, np.float32)
    b = np.zeros(LANES, np.float32)
    numbers, vectors = np.empty((1, LANES), np.float32), np.empty((1, LANES), np.float32)
    compile_loops(text, "f")(a, b, numbers, vectors)
    assert not np.signbit(numbers).any()
    assert not np.signbit(vectors).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_comparison_and_select(dtype: str) -> None:
    a, b = floats(dtype)
    b[0] = a[0]
    ordered = {
        "oeq": np.equal,
        "ogt": np.greater,
        "oge": np.greater_equal,
        "olt": np.less,
        "ole": np.less_equal,
        "one": lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b),
        "ord": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
        "false": lambda a, b: np.zeros(a.shape, bool),
    }
    unordered = {
        "ueq": lambda a, b: ~ordered["one"](a, b),
        "ugt": lambda a, b: ~np.less_equal(a, b),
        "uge": lambda a, b: ~np.less(a, b),
        "ult": lambda a, b: ~np.greater_equal(a, b),
        "ule": lambda a, b: ~np.greater(a, b),
        "une": np.not_equal,
        "uno": lambda a, b: np.isnan(a) | np.isnan(b),
        "true": lambda a, b: np.ones(a.shape, bool),
    }

    def choose(compare: Reference) -> Reference:
        return lambda a, b: np.where(compare(a, b), a, b)

    select = "%r = arith.select %m, %a, %b : {b}{t}"
    cases = {
        f"%m = arith.cmpf {name}, %a, %b : {{t}}\n{select}": choose(compare)
        for name, compare in {**ordered, **unordered}.items()
    }
    check(cases, [dtype, dtype], dtype, [a, b])


INTEGER_CASTS = [
    *(("extsi", a, b) for a, b in (("i8", "i16"), ("i8", "i32"), ("i16", "i64"), ("i32", "i64"))),
    *(("extui", a, b) for a, b in (("i8", "i32"), ("i16", "i32"), ("i32", "i64"))),
    *(("trunci", a, b) for a, b in (("i64", "i8"), ("i32", "i16"), ("i16", "i8"))),
]


@pytest.mark.parametrize(("op", "source", "target"), INTEGER_CASTS)
def test_integer_casts(op: str, source: str, target: str) -> None:
    a, _ = integers(source)

    def cast(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (a.view(f"u{a.itemsize}") if op == "extui" else a).astype(INTEGERS[target])

    check({f"%r = arith.{op} %a : {{t}} to {{r}}": cast}, [source], target, [a])


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("real", FLOATS)
def test_casts_between_integers_and_floats(integer: str, real: str) -> None:
    a, _ = integers(integer)
    to_float: dict[str, Reference] = {
        "%r = arith.sitofp %a : {t} to {r}": lambda a: a.astype(FLOATS[real]),
        "%r = arith.uitofp %a : {t} to {r}": lambda a: a.view(f"u{a.itemsize}").astype(
            FLOATS[real]
        ),
    }
    check(to_float, [integer], real, [a])
    x = np.array([0.0, 1.9, -1.9, 100.5, -100.5, 3.0, 2.5, 0.1], FLOATS[real])
    signed = {"%r = arith.fptosi %a : {t} to {r}": lambda a: a.astype(INTEGERS[integer])}
    check(signed, [real], integer, [x])
    positive = {"%r = arith.fptoui %a : {t} to {r}": lambda a: a.astype(INTEGERS[integer])}
    check(positive, [real], integer, [abs(x)])


def test_width_casts_and_bitcasts() -> None:
    x = np.array([0.1, -1e30, 1e-40, np.inf, 5, 6, -0.0, 1], np.float32)
    check({"%r = arith.extf %a : {t} to {r}": lambda a: a}, ["f32"], "f64", [x])
    check({"%r = arith.truncf %a : {t} to {r}": lambda a: a}, ["f64"], "f32", [x.astype(float) / 3])
    check({"%r = arith.bitcast %a : {t} to {r}": lambda a: a.view(np.int32)}, ["f32"], "i32", [x])


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_half_floats(kind: str) -> None:
    """Loaded as half, widened by one instruction, computed in f32, rounded to nearest even."""
    text = f"""
    func.func @f(%x: memref<16x{kind}>, %y: memref<16x{kind}>, %z: memref<1x{kind}>) {{
      %c0 = arith.constant 0 : index
      %three = arith.constant dense<3.0> : vector<16xf32>
      %v = vector.load %x[%c0] : memref<16x{kind}>, vector<16x{kind}>
      %w = arith.extf %v : vector<16x{kind}> to vector<16xf32>
      %q = arith.divf %w, %three : vector<16xf32>
      %r = arith.truncf %q : vector<16xf32> to vector<16x{kind}>
      vector.store %r, %y[%c0] : memref<16x{kind}>, vector<16x{kind}>
      %s = memref.load %x[%c0] : memref<16x{kind}>
      %half = arith.constant 0.5 : {kind}
      %t = arith.mulf %s, %half : {kind}
      memref.store %t, %z[%c0] : memref<1x{kind}>
      func.return
    }}"""
    values = np.linspace(-3, 40, 16).astype(np.float32)

    def narrow(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if kind == "f16":
            return a.astype(np.float16).view(np.uint16)
        bits = a.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    def widen(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if kind == "f16":
            return a.view(np.float16).astype(np.float32)
        return (a.astype(np.uint32) << 16).view(np.float32)

    x, y, z = narrow(values), np.zeros(16, np.uint16), np.zeros(1, np.uint16)
    compile_loops(text, "f")(x, y, z)
    np.testing.assert_array_equal(y, narrow(widen(x) / np.float32(3)))
    np.testing.assert_array_equal(z, narrow(widen(x[:1]) / np.float32(2)))


def test_numbers_in_and_out() -> None:
    text = """
    func.func @f(%a: f32, %b: f64, %n: index, %flag: i1, %k: i32) -> f64 {
      %wide = arith.extf %a : f32 to f64
      %sum = arith.addf %wide, %b : f64
      %m = arith.index_cast %n : index to i32
      %t = arith.muli %m, %k : i32
      %u = arith.sitofp %t : i32 to f64
      %v = arith.addf %sum, %u : f64
      %r = arith.select %flag, %v, %b : f64
      func.return %r : f64
    }"""
    run = compile_loops(text, "f")
    assert run(0.5, 2.0, 5, True, -3) == 0.5 + 2.0 - 15
    assert run(0.5, 2.0, 5, False, -3) == 2.0


@pytest.mark.parametrize("name", ["divsi", "floordivsi", "ceildivsi"])
def test_the_quotient_that_no_word_holds_wraps_like_every_other_number(name: str) -> None:
    text = f"""
    func.func @f() -> i64 {{
      %a = arith.constant {-(2**63)} : index
      %b = arith.constant -1 : index
      %q = arith.{name} %a, %b : index
      %c2 = arith.constant 2 : index
      %h = arith.{name} %q, %c2 : index
      %r = arith.index_cast %h : index to i64
      func.return %r : i64
    }}"""
    assert compile_loops(text, "f")() == -(2**62)


def test_known_indices_leave_no_arithmetic() -> None:
    text = """
    func.func @f(%x: memref<?xi64>) {
      %c7 = arith.constant 7 : index
      %c3 = arith.constant 3 : index
      %cm2 = arith.constant -2 : index
      %a = arith.floordivsi %c7, %cm2 : index
      %b = arith.ceildivsi %c7, %cm2 : index
      %c = arith.divsi %c7, %cm2 : index
      %d = arith.remsi %c7, %c3 : index
      %e = arith.maxsi %c7, %c3 : index
      %f = arith.minsi %c7, %c3 : index
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      %ai = arith.index_cast %a : index to i64
      %bi = arith.index_cast %b : index to i64
      %ci = arith.index_cast %c : index to i64
      %di = arith.index_cast %d : index to i64
      %ei = arith.index_cast %e : index to i64
      %fi = arith.index_cast %f : index to i64
      memref.store %ai, %x[%c0] : memref<?xi64>
      memref.store %bi, %x[%c1] : memref<?xi64>
      memref.store %ci, %x[%c2] : memref<?xi64>
      memref.store %di, %x[%c3] : memref<?xi64>
      memref.store %ei, %x[%c4] : memref<?xi64>
      memref.store %fi, %x[%c5] : memref<?xi64>
      func.return
    }"""
    run = compile_loops(text, "f")
    x = np.zeros(6, np.int64)
    run(x)
    assert x.tolist() == [-4, -3, -3, 1, 7, 3]
    assert "div" not in run.llvm_text
    assert "srem" not in run.llvm_text
