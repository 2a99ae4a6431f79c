"""LLVM text to machine code to memory, and the descriptions of processors."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys

import pytest

from openinfer.lowering.cpu.convert_to_llvm import ConvertToLlvm
from openinfer.lowering.cpu.emit_llvm import emit_llvm
from openinfer.lowering.cpu.jit import make_context, parse_module
from openinfer.runtime.devices.cpu.codegen import (
    assembly_text,
    compile_llvm_text,
    host_target,
    optimised_llvm_text,
)
from openinfer.runtime.devices.cpu.linking import load_object
from openinfer.runtime.errors import ArtefactError, CompileError, UnsupportedError
from openinfer.runtime.target import TARGETS, describe_target, named_target

ADD = """
define double @add(double %a, double %b) {
  %r = fadd double %a, %b
  ret double %r
}
"""
TANH = """
declare double @tanh(double)
declare double @erf(double)
define double @f(double %a) {
  %t = call double @tanh(double %a)
  %r = call double @erf(double %t)
  ret double %r
}
"""

DOUBLES = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_object_to_function(level: int) -> None:
    loaded = load_object(compile_llvm_text(ADD, host_target(), level), ["add"])
    assert DOUBLES(loaded.address("add"))(1.25, 2.5) == 3.75


def test_libm_is_found() -> None:
    loaded = load_object(compile_llvm_text(TANH, host_target()), ["f"])
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.address("f"))
    assert function(0.5) == pytest.approx(math.erf(math.tanh(0.5)), rel=1e-15)


def test_equal_symbols_of_two_objects_do_not_meet() -> None:
    first = load_object(compile_llvm_text(ADD, host_target()), ["add"])
    second = load_object(compile_llvm_text(ADD.replace("fadd", "fsub"), host_target()), ["add"])
    assert DOUBLES(first.address("add"))(3.0, 1.0) == 4.0
    assert DOUBLES(second.address("add"))(3.0, 1.0) == 2.0


def test_machine_code_is_reproducible() -> None:
    assert compile_llvm_text(ADD, host_target()) == compile_llvm_text(ADD, host_target())


def test_bad_text_is_a_compiler_error() -> None:
    with pytest.raises(CompileError, match="LLVM refuses") as caught:
        compile_llvm_text("define double @f() { ret float 1.0 }", host_target())
    assert caught.value.code == "OI0982"


def test_bad_objects_are_refused() -> None:
    with pytest.raises(ArtefactError, match="not an ELF object"):
        load_object(b"nothing", ["f"])
    data = compile_llvm_text(ADD, host_target())
    with pytest.raises(ArtefactError, match="cannot be linked"):
        load_object(data, ["missing"])
    with pytest.raises(ArtefactError, match="no symbol 'other'"):
        load_object(data, ["add"]).address("other")


def test_text_to_read() -> None:
    text = ADD.replace("%r = fadd", "%q = fadd double %a, %b\n  %r = fadd")
    assert optimised_llvm_text(text, host_target()).count("fadd") == 1
    assert "vaddsd" in assembly_text(ADD, named_target("avx2"))
    assert "vaddsd" not in assembly_text(ADD, named_target("generic"))


def test_named_targets() -> None:
    assert [named_target(name).vector_bits for name in TARGETS] == [512, 256, 128]
    assert named_target("avx2").lanes(32) == 8
    with pytest.raises(UnsupportedError, match="no target 'neon'") as caught:
        named_target("neon")
    assert "avx512" in (caught.value.hint or "")


def test_target_from_features() -> None:
    best = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "fma", "f16c")
    features: dict[str, bool] = {name: True for name in (*best, "avx2", "bmi2")}
    triple = "x86_64-unknown-linux-gnu"
    assert describe_target(triple, "some", features).name == "avx512"
    features["avx512vl"] = False
    described = describe_target(triple, "some", features)
    assert described.name == "avx2"
    assert "-avx512vl" in described.features
    features["fma"] = False
    assert describe_target(triple, "some", features).name == "generic"
    assert describe_target(triple, "some", features).key != described.key


def test_host_is_one_of_the_kinds() -> None:
    host = host_target()
    assert host.name in TARGETS
    assert host.vector_bits == TARGETS[host.name].vector_bits
    assert host is host_target()


def test_llvmlite_is_imported_late() -> None:
    code = (
        "import sys, openinfer.runtime.devices.cpu.codegen, openinfer.runtime.target\n"
        "assert 'llvmlite' not in sys.modules and 'xdsl' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


MODULE = """
func.func private @twice(%x: vector<16xf32>) -> vector<16xf32> {
  %y = arith.addf %x, %x : vector<16xf32>
  func.return %y : vector<16xf32>
}
func.func @f(%x: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %n step %c16 {
    %v = vector.load %x[%i] : memref<?xf32>, vector<16xf32>
    %w = func.call @twice(%v) : (vector<16xf32>) -> vector<16xf32>
    %e = math.sqrt %w : vector<16xf32>
    vector.store %e, %x[%i] : memref<?xf32>, vector<16xf32>
  }
  func.return
}"""


def emitted(target: str) -> str:
    module = parse_module(MODULE)
    ConvertToLlvm().apply(make_context(), module)
    return emit_llvm(module, named_target(target))


def test_emitted_text_is_reproducible() -> None:
    assert emitted("avx512") == emitted("avx512")


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_compiles(target: str) -> None:
    text = emitted(target)
    register = {"avx512": "zmm", "avx2": "ymm", "generic": "xmm"}[target]
    code = assembly_text(text, named_target(target))
    assert f"%{register}" in code
    assert "sqrtps" in code
    # One small private function with one caller: it is gone after inlining.
    assert "twice" not in code


def test_the_dialect_text_continues_to_the_same_llvm_text() -> None:
    """A dumped `llvm` phase, read again, gives the same LLVM IR, byte for byte."""
    module = parse_module(MODULE)
    ConvertToLlvm().apply(make_context(), module)
    again = parse_module(str(module))
    target = named_target("avx512")
    assert emit_llvm(again, target) == emit_llvm(module, target)


def test_unknown_ops_cannot_be_written() -> None:
    module = parse_module('llvm.func @f() { "test.op"() : () -> ()\n llvm.return }')
    with pytest.raises(CompileError, match=r"'test\.op' cannot be written"):
        emit_llvm(module, named_target("avx2"))
    module = parse_module("func.func @f() { func.return }")
    with pytest.raises(CompileError, match=r"'func\.func' cannot stand at the top"):
        emit_llvm(module, named_target("avx2"))
