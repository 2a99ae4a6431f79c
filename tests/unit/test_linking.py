"""Objects in memory: what links, what is refused, and what LLVM is not needed for."""

from __future__ import annotations

import ctypes
import random
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.cache import default_cache
from openinfer.runtime.devices.cpu import codegen, processor
from openinfer.runtime.devices.cpu.codegen import compile_llvm_text, host_target
from openinfer.runtime.devices.cpu.linking import load_objects
from openinfer.runtime.errors import ArtefactError

FIRST = """
declare i64 @second(i64)
declare i64 @given(i64)
declare hidden i64 @hidden_one(i64)
@counter = global i64 40
@table = private constant [2 x ptr] [ptr @twice, ptr @second]
define i64 @twice(i64 %x) {
  %r = add i64 %x, %x
  ret i64 %r
}
define i64 @count() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  ret i64 %new
}
define i64 @by_table(i64 %which, i64 %x) {
  %place = getelementptr [2 x ptr], ptr @table, i64 0, i64 %which
  %function = load ptr, ptr %place
  %r = call i64 %function(i64 %x)
  ret i64 %r
}
define i64 @both(i64 %x) {
  %a = call i64 @second(i64 %x)
  %b = call i64 @given(i64 %a)
  %c = call i64 @hidden_one(i64 %b)
  ret i64 %c
}
define i64 @choose(i64 %x) {
  switch i64 %x, label %other [ i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %e ]
a:
  ret i64 11
b:
  ret i64 7
c:
  ret i64 5
d:
  ret i64 3
e:
  ret i64 2
other:
  ret i64 0
}
"""
SECOND = """
@counter = external global i64
@zeros = internal global [4096 x i64] zeroinitializer
define i64 @second(i64 %x) {
  %c = load i64, ptr @counter
  %r = add i64 %x, %c
  %place = getelementptr [4096 x i64], ptr @zeros, i64 0, i64 %x
  %z = load i64, ptr %place
  store i64 %r, ptr %place
  %s = add i64 %r, %z
  ret i64 %s
}
define hidden i64 @hidden_one(i64 %x) {
  %r = add i64 %x, 1000
  ret i64 %r
}
define weak i64 @given(i64 %x) {
  ret i64 0
}
"""
NAMES = ("twice", "count", "by_table", "both", "choose")
NUMBER = ctypes.c_int64


@pytest.fixture(scope="module")
def objects() -> list[bytes]:
    return [compile_llvm_text(text, host_target()) for text in (FIRST, SECOND)]


def function(loaded: object, name: str, arguments: int = 1) -> ctypes._CFunctionType:  # pyright: ignore[reportPrivateUsage]
    return ctypes.CFUNCTYPE(NUMBER, *[NUMBER] * arguments)(loaded.address(name))  # pyright: ignore


def test_objects_find_each_other(objects: list[bytes]) -> None:
    loaded = load_objects(objects, NAMES)
    count, both = function(loaded, "count", 0), function(loaded, "both")
    assert function(loaded, "twice")(21) == 42
    assert [count(), count()] == [41, 42]
    # 5 + 42, which a weak function makes 0, and 1000 of a hidden one.
    assert both(5) == 1000
    table = function(loaded, "by_table", 2)
    assert (table(0, 9), table(1, 6)) == (18, 48)
    assert [function(loaded, "choose")(i) for i in range(6)] == [11, 7, 5, 3, 2, 0]


def test_memory_of_two_does_not_meet(objects: list[bytes]) -> None:
    first, second = load_objects(objects, NAMES), load_objects(objects, NAMES)
    assert [function(first, "count", 0)() for _ in range(3)] == [41, 42, 43]
    assert function(second, "count", 0)() == 41


def test_functions_of_the_host(objects: list[bytes]) -> None:
    triple = ctypes.CFUNCTYPE(NUMBER, NUMBER)(lambda x: 3 * x)
    without = SECOND.split("define weak")[0]
    given = {"given": ctypes.cast(triple, ctypes.c_void_p).value or 0}
    loaded = load_objects([objects[0], compile_llvm_text(without, host_target())], NAMES, given)
    assert function(loaded, "both")(2) == 3 * 42 + 1000
    with pytest.raises(ArtefactError, match=r"OI0840.*there is no 'given'"):
        load_objects([objects[0], compile_llvm_text(without, host_target())], NAMES)


def test_what_cannot_be_linked(objects: list[bytes]) -> None:
    with pytest.raises(ArtefactError, match=r"OI0840.*two objects define 'twice'"):
        load_objects([*objects, objects[0]], NAMES)
    with pytest.raises(ArtefactError, match=r"OI0840.*there is no 'nothing'"):
        load_objects(objects, ["nothing"])
    with pytest.raises(ArtefactError, match=r"OI0840.*there is no 'second'"):
        load_objects(objects[:1], NAMES)
    with pytest.raises(ArtefactError, match=r"OI0840.*not an ELF object"):
        load_objects([*objects, b"nothing"], NAMES)


def rights() -> Mapping[int, str]:
    """The rights of each page of this process that has a mapping, by the first address."""
    found: dict[int, str] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, may, *_ = line.split()
        first, last = (int(end, 16) for end in span.split("-"))
        if last - first < 1 << 24:
            found.update(dict.fromkeys(range(first, last, 4096), may))
    return found


def test_code_cannot_be_written_nor_data_executed(objects: list[bytes]) -> None:
    loaded = load_objects(objects, [*NAMES, "counter"])
    code, data = loaded.address("twice") & -4096, loaded.address("counter") & -4096
    now = rights()
    assert (now[code], now[data]) == ("r-xp", "rw-p")
    del loaded
    assert rights().get(code) != "r-xp"


def test_damaged_objects(objects: list[bytes]) -> None:
    """Cut off anywhere, and with a word of a table changed: an error, or something that lies in memory."""
    draw, refused = random.Random(11), 0
    (start,) = struct.unpack_from("<Q", objects[0], 0x28)
    for number in range(1500):
        data = bytearray(objects[0])
        if number % 3 == 0:
            del data[draw.randrange(len(data)) :]
        else:
            # Words of the header and of the table of sections, then of everything.
            first, last = (0, len(data) - 8) if number % 3 == 1 else (start, len(data) - 8)
            word = draw.choice([0, 1, 7, 255, 4096, 1 << 31, 1 << 62, (1 << 64) - 1])
            width = draw.choice([1, 2, 4, 8])
            place = draw.randrange(first, last)
            data[place : place + width] = (word % (1 << 8 * width)).to_bytes(width, "little")
        try:
            load_objects([bytes(data), objects[1]], NAMES)
        except ArtefactError as error:
            assert error.code in ("OI0840", "OI0813")  # noqa: PT017
            refused += 1
    assert refused > 600


TEXT = """
dynamic { x: f32[B, 64]; }
constant { W: f32[64, 64] @init(0.5); }
block entry { h = op tanh(matmul(x, W)); return h; }
"""
START = f"""
import sys, numpy as np, openinfer as oi
program = oi.compile({TEXT!r})
h = program.make_executor(1).run(x=np.full((2, 64), 1 / 64, "f4"))["h"]
assert np.allclose(h, np.tanh(0.5)), h
print("llvmlite.binding" in sys.modules, "xdsl" in sys.modules)
"""


def test_a_second_start_does_without_llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))
    command = [sys.executable, "-c", START]
    starts = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(2)]
    assert [start.stdout.split() for start in starts] == [["True", "True"], ["False", "False"]]


def test_what_is_kept_of_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))
    asked = codegen._processor.__wrapped__  # pyright: ignore[reportPrivateUsage]
    assert processor.known_processor() is None
    found = asked()
    assert processor.known_processor() == found == asked()
    assert found.features["sse2"]
    # Of another version of the library it says nothing.
    with monkeypatch.context() as patch:
        patch.setattr(processor, "llvmlite_version", lambda: "0.0")
        assert processor.known_processor() is None
    store = default_cache().kernels()
    (key,) = store.keys("")
    for text in (b"", b"[]", b'{"triple": "x"}', b'{"triple":1,"cpu":"","features":{},"llvm":""}'):
        store.put(key, text)
        assert processor.known_processor() is None
    assert asked() == found


def test_a_program_that_is_loaded_links_as_before(tmp_path: Path) -> None:
    program = oi.compile(TEXT)
    program.save(tmp_path / "p.oip")
    x = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32)
    again = oi.load(tmp_path / "p.oip").make_executor(1).run(x=x)["h"]
    np.testing.assert_array_equal(again, program.make_executor(1).run(x=x)["h"])


ELSEWHERE = """
import mmap, sys
from types import SimpleNamespace

import openinfer as oi
from openinfer.runtime.devices.cpu.device import CpuDevice

# As on Windows.
for name in [name for name in vars(mmap) if name.startswith(("PROT_", "MAP_"))]:
    delattr(mmap, name)
sys.platform = "win32"
program = SimpleNamespace(manifest=SimpleNamespace(target="avx2;x86_64-unknown-linux-gnu;;"), objects=[])
try:
    CpuDevice().load(program)
except oi.UnsupportedError as error:
    print(error.code)
"""


def test_other_systems_say_that_code_cannot_run() -> None:
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("OI0781\n", "")
