"""Kernels as modules of their own: the same objects whoever makes them, all of them or none."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import llvm
from xdsl.parser import Parser

import openinfer as oi
from openinfer.compiler import pipeline, registry
from openinfer.lowering.cpu import emit_llvm
from openinfer.lowering.cpu.emit_llvm import OWN_MODULE, emit_modules, passes_for
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.cache import Cache
from openinfer.runtime.devices.cpu import codegen, compilation
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.devices.cpu.compilation import Compilation
from openinfer.runtime.devices.cpu.linking import load_objects
from openinfer.runtime.devices.cpu.llvm_module import LlvmModule, Passes
from openinfer.runtime.devices.cpu.object_symbols import PROVIDED, undefined_symbols
from openinfer.runtime.errors import CompileError
from openinfer.runtime.program import HOST, OBJECT

LAYERS = """
dynamic {{ {x}: f32[B, 96]; }}
constant {{ V: f32[96, 64] @init(0.5); W: f32[64, {n}] @init(0.25); }}
block entry {{
  assign h: f32[B, 64];
  assign y: f32[B, {n}];
  op matmul({x}, V) >> h;
  op relu(h) >> h;
  op matmul(h, W) >> y;
  return y;
}}
"""


def modules_of(text: str, target: str = "avx2") -> list[LlvmModule]:
    module, context = oi.graph(text).module.clone(), registry.make_context()
    options = PipelineOptions(target_name=target)
    pipeline.run(module, context, "cpu", options=options)
    from openinfer.lowering.facts import Facts

    return list(emit_modules(module, Facts.of(module).target))


def objects_of(modules: list[LlvmModule], workers: int) -> dict[str, bytes]:
    with Compilation(host_target(), workers) as work:
        for module in modules:
            work.add(module)
        return work.objects()


def adds(name: str, number: int) -> LlvmModule:
    text = f"define i64 @{name}(i64 %a) {{\n  %r = add i64 %a, {number}\n  ret i64 %r\n}}\n"
    return LlvmModule(name + OBJECT, name, text, Passes.ALL)


def test_large_kernels_are_modules_of_their_own() -> None:
    team, *kernels, host = modules_of(LAYERS.format(x="x", n=80))
    assert team.what == "team"
    assert host.name == HOST
    assert host.passes is Passes.NONE
    assert {kernel.what.partition("_")[0] for kernel in kernels} >= {"matmul"}
    for kernel in kernels:
        symbol = kernel.name.removesuffix(OBJECT)
        assert f"define hidden i64 @{symbol}(" in kernel.text or "prepare" in symbol
        assert f"@{symbol}(" in host.text
        assert kernel.text.count("\n") >= OWN_MODULE
        assert kernel.passes is Passes.NONE


def test_kernels_that_unpack_bytes_go_through_the_passes_of_llvm() -> None:
    def passes(name: str, body: str) -> Passes:
        text = f"llvm.func @{name}(%p: !llvm.ptr) {{ {body} llvm.return }}"
        module = Parser(registry.make_context(), text).parse_module()
        return passes_for(f for f in module.ops if isinstance(f, llvm.FuncOp))

    bytes_ = "%v = llvm.load %p : !llvm.ptr -> vector<16xi8>"
    words = f"{bytes_} %w = llvm.bitcast %v : vector<16xi8> to vector<4xi32>"
    mask = f"{bytes_} %z = llvm.add %v, %v : vector<16xi8>"
    widened = f"{bytes_} %w = llvm.sitofp %v : vector<16xi8> to vector<16xf32>"
    halves = "%v = llvm.load %p : !llvm.ptr -> vector<4xi32>"
    halves += " %w = llvm.sext %v : vector<4xi32> to vector<4xi64>"
    assert passes("matmul_0", words) is Passes.ALL
    assert passes("matvec_0", widened) is Passes.ALL
    assert passes("prepare_0", words) is Passes.NONE
    assert passes("attention_0", mask) is Passes.NONE
    assert passes("attention_0", halves) is Passes.NONE


def test_many_small_kernels_are_made_beside_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
dynamic { x: f32[B, 40]; n: i64[R]; }
block entry {
  y = op relu(x); z = op softmax(y); w = op cumsum(x, axis=1);
  u = op add(z, w); r = op gather(u, n);
  return u, r;
}
"""
    whole = modules_of(text)[-1]
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    monkeypatch.setattr(emit_llvm, "SMALL_KERNELS", 60)
    *others, host = modules_of(text)
    groups = [module for module in others if module.what == "kernels"]
    assert len(groups) > 1
    assert host.name == HOST
    assert len(host.text) < len(whole.text)
    assert "define hidden i64 @" in groups[0].text
    program = oi.compile(text)
    assert sum(name.startswith("kernels.") for name in program.parts) > 1
    given = {"x": np.linspace(-1, 1, 120, dtype=np.float32).reshape(3, 40), "n": np.array([2, 0])}
    want = oi.Simulator(text).make_executor().run(**given)
    for threads in (1, 2):
        with program.make_executor(threads) as executor:
            found = executor.run(**given)
            for name in ("u", "r"):
                np.testing.assert_allclose(found[name], want[name], rtol=1e-5, atol=1e-6)


def test_small_kernels_stay_with_the_step() -> None:
    text = "dynamic { x: f32[4]; }\nblock entry { assign y: f32[4];\nop relu(x) >> y; return y; }"
    team, host = modules_of(text)
    assert host.name == HOST
    # What lets threads run a step is the same text in all programs.
    assert team in modules_of(LAYERS.format(x="x", n=80))
    assert "define void @openinfer_lead(" in team.text
    assert "define void @openinfer_lead(" not in host.text


def test_equal_kernels_of_two_programs_have_one_name_and_text() -> None:
    one = {m.name: m.text for m in modules_of(LAYERS.format(x="x", n=80))}
    other = {m.name: m.text for m in modules_of(LAYERS.format(x="tokens", n=48))}
    same = set(one) & set(other) - {HOST}
    assert any(name.startswith("matmul.") for name in same)
    assert set(one) - set(other)
    assert set(other) - set(one)
    assert all(one[name] == other[name] for name in same)


def test_one_worker_and_several_make_the_same_objects() -> None:
    modules = modules_of(LAYERS.format(x="x", n=80))
    alone = objects_of(modules, 1)
    assert list(alone) == [module.name for module in modules]
    for _ in range(3):
        assert objects_of(modules, 4) == alone


def test_objects_are_linked_together() -> None:
    callee = adds("kernel.1", 5)
    text = (
        "declare hidden i64 @kernel.1(i64)\n"
        "define i64 @twice(i64 %a) {\n  %b = call i64 @kernel.1(i64 %a)\n"
        "  %c = call i64 @kernel.1(i64 %b)\n  ret i64 %c\n}\n"
    )
    objects = objects_of([callee, LlvmModule(HOST, HOST, text, Passes.ALL)], 2)
    assert set(undefined_symbols(objects[HOST])) - PROVIDED == {"kernel.1"}
    assert set(undefined_symbols(*objects.values())) <= PROVIDED
    import ctypes

    loaded = load_objects(list(objects.values()), ["twice"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address("twice"))(1) == 11


def test_the_parts_of_a_program_are_its_objects(tmp_path: Any) -> None:
    text = LAYERS.format(x="x", n=80)
    program = oi.compile(text)
    assert next(iter(program.objects)) == program.parts[HOST]
    assert len(program.objects) > 1
    assert set(undefined_symbols(*program.objects)) <= PROVIDED
    program.save(tmp_path / "p.oip")
    x = np.linspace(0, 1, 3 * 96, dtype=np.float32).reshape(3, 96)
    want = oi.Simulator(text).make_executor().run(x=x)["y"]
    for one in (program, oi.load(tmp_path / "p.oip")):
        np.testing.assert_allclose(one.make_executor(2).run(x=x)["y"], want, rtol=1e-5)


def test_a_refused_text_is_an_error_and_no_thread_stays() -> None:
    wrong = LlvmModule("wrong.o", "wrong", "define i64 @f() { ret float 1.0 }", Passes.NONE)
    before = set(threading.enumerate())
    with Compilation(host_target(), 3) as work:
        for module in (adds("a", 1), wrong, adds("b", 2)):
            work.add(module)
        with pytest.raises(CompileError, match="LLVM refuses") as refused:
            work.objects()
    assert refused.value.code == "OI0982"
    assert set(threading.enumerate()) <= before


def test_what_comes_behind_a_refused_text_is_not_waited_for() -> None:
    """With one worker, which has ended by then."""
    wrong = LlvmModule("wrong.o", "wrong", "define i64 @f() { ret float 1.0 }", Passes.NONE)
    with Compilation(host_target(), 1) as work:
        work.add(wrong)
        for thread in threading.enumerate():
            if thread.name == "openinfer-llvm":
                thread.join()
        work.add(adds("a", 1))
        with pytest.raises(CompileError, match="LLVM refuses"):
            work.objects(lambda: None)


def test_an_interrupt_leaves_no_thread_inside_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = compilation.compiled
    done: list[str] = []

    def slowly(module: LlvmModule, *rest: Any, **more: Any) -> Any:
        time.sleep(0.2)
        done.append(module.what)
        return slow(module, *rest, **more)

    monkeypatch.setattr(compilation, "compiled", slowly)
    before = set(threading.enumerate())

    def interrupt() -> None:
        raise KeyboardInterrupt

    work = Compilation(host_target(), 2)
    for number in range(20):
        work.add(adds(f"f{number}", number))
    monkeypatch.setattr(work, "_wait_for_begin", interrupt)
    with pytest.raises(KeyboardInterrupt), work:
        work.objects(interrupt)
    assert set(threading.enumerate()) <= before
    assert len(done) < 20


def test_a_failing_pass_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op that has no spelling, in the host's part: kernels have been begun by then."""
    from openinfer.compiler.backends import cpu

    def broken(texts: Any, module: Any) -> Any:
        yield adds("a", 1)
        raise CompileError("OI0981", "an op that cannot be written")

    monkeypatch.setattr("openinfer.lowering.cpu.emit_llvm.Texts.rest", broken)
    before = set(threading.enumerate())
    module = oi.graph(LAYERS.format(x="x", n=80)).module.clone()
    pipeline.run(module, registry.make_context(), "cpu", options=PipelineOptions())
    with pytest.raises(CompileError, match="OI0981"):
        cpu.CPU.emit(module, lambda phase, name: nullcontext())
    assert set(threading.enumerate()) <= before


def test_llvm_begins_before_all_kernels_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same objects as when it gets all of them at the end, and no thread is left by a failure."""
    from openinfer.lowering.cpu.add_entry import AddEntry

    monkeypatch.setenv("OPENINFER_CACHE", "off")
    text, began = LAYERS.format(x="x", n=80), list[list[str]]()
    plain, add = AddEntry.apply, Compilation.add

    def apply(*arguments: Any) -> None:
        began.append(list(added))
        plain(*arguments)

    def noted(work: Compilation, module: LlvmModule) -> None:
        added.append(module.name)
        add(work, module)

    monkeypatch.setattr(Compilation, "add", noted)
    monkeypatch.setattr(AddEntry, "apply", apply)
    added: list[str] = []
    early = oi.compile(text).parts
    kernels = began.pop()
    assert {name.partition(".")[0] for name in kernels} >= {"matmul"}
    assert added[: len(kernels)] == kernels
    assert {name.partition(".")[0] for name in added[len(kernels) :]} == {"team", HOST}
    with monkeypatch.context() as patched:
        patched.setattr("openinfer.lowering.cpu.convert_to_llvm.taker", lambda: None)
        added = []
        assert oi.compile(text).parts == early
        assert began.pop() == []
        assert set(added) > {*kernels, HOST}

    def fails(*arguments: Any) -> None:
        raise CompileError("OI0980", "fails behind the kernels")

    monkeypatch.setattr(AddEntry, "apply", fails)
    before = set(threading.enumerate())
    with pytest.raises(CompileError, match="behind the kernels"):
        oi.compile(text)
    assert set(threading.enumerate()) <= before


def test_a_fork_waits_for_calls_outside_of_the_lock() -> None:
    codegen.prepared()
    begun, left = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        time.sleep(0.3)
        left.set()

    thread = threading.Thread(target=codegen._outside.call, args=(call,))
    thread.start()
    assert begun.wait(60)
    child = os.fork()
    if not child:
        # Calls of the parent are over, and new ones go through.
        os._exit(0 if left.is_set() and codegen._outside.call(lambda: 3) == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()


def test_programs_compiled_at_once_are_those_compiled_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    texts = [LAYERS.format(x="x", n=16 * n) for n in (3, 4, 5)]
    alone = [oi.compile(text).parts for text in texts]
    found: dict[int, dict[str, bytes]] = {}

    def one(number: int) -> None:
        found[number] = oi.compile(texts[number]).parts

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(3)] == alone


def test_a_second_program_compiles_only_its_own_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))
    made: list[str] = []
    plain = compilation.compiled

    def noted(module: LlvmModule, *rest: Any, **more: Any) -> Any:
        made.append(module.name)
        return plain(module, *rest, **more)

    monkeypatch.setattr(compilation, "compiled", noted)
    first = oi.compile(LAYERS.format(x="x", n=80))
    once = list(made)
    second = oi.compile(LAYERS.format(x="tokens", n=48))
    shared = {name for name in first.parts if name in second.parts} - {HOST}
    assert shared
    assert not shared & set(made[len(once) :])
    assert all(first.parts[name] == second.parts[name] for name in shared)
    # Without what was kept the program is the same, byte for byte.
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    assert oi.compile(LAYERS.format(x="tokens", n=48)).parts == second.parts


def test_a_damaged_kernel_is_refused_and_made_again(tmp_path: Path) -> None:
    store = Cache(tmp_path / "kernels", 1 << 24)
    module = adds("f", 1)

    def objects() -> dict[str, bytes]:
        with Compilation(host_target(), 1, store) as work:
            work.add(module)
            return work.objects()

    want = objects()
    (file,) = (tmp_path / "kernels").iterdir()
    whole = file.read_bytes()
    assert objects() == want
    assert store.statistics.hits == 1
    for damaged in (whole[:-1], whole[:40], b"", whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]):
        file.write_bytes(damaged)
        assert objects() == want
        assert file.read_bytes() == whole
    assert store.statistics.damaged == 4


def test_clearing_the_cache_clears_kernels(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 1 << 24)
    assert cache.put("0" * 64, b"program")
    assert cache.kernels().put("1" * 64, b"kernel")
    assert [entry.key for entry in cache.entries()] == ["0" * 64]
    count, freed = cache.clear()
    assert count == 1
    assert freed > len(b"programkernel")
    assert cache.kernels().get("1" * 64) is None
