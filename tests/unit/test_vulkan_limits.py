"""Kernels that ask for more than a device has, or for what they are not given: no driver sees them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_library import Library

import openinfer as oi
from openinfer.compiler.tools.openinfer_opt import main as optimise
from openinfer.runtime.devices.description import MOST_BUFFERS, PLAIN
from openinfer.runtime.devices.vulkan.kernels import Kernels, Words
from openinfer.runtime.devices.vulkan.logical import logical_device
from openinfer.runtime.devices.vulkan.parts import part_of
from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.spirv.check_limits import (
    Interface,
    Limits,
    asked_of,
    check_limits,
    check_start,
)
from openinfer.runtime.spirv.check_words import check_words
from tests.unit.test_spirv_deserialize import complaint, words_of

LIMITS = Limits(256, (256, 256, 64), 16384, 30)
KERNEL = """
!buffer = !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
!push = !spirv.ptr<!spirv.struct<(i32 [0])>, PushConstant>
!tile = !spirv.ptr<!spirv.array<64 x f32>, Workgroup>
spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader, CAPABILITIES], [EXTENSIONS]> {
  spirv.GlobalVariable @out bind(0, 1) : !buffer
  spirv.GlobalVariable @first : !push
  spirv.GlobalVariable @tile : !tile
  spirv.GlobalVariable @more : !spirv.ptr<vector<3xf32>, Workgroup>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %out = spirv.mlir.addressof @out : !buffer
    %tile = spirv.mlir.addressof @tile : !tile
    %more = spirv.mlir.addressof @more : !spirv.ptr<vector<3xf32>, Workgroup>
    %first = spirv.mlir.addressof @first : !push
    // BODY
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 64, 2, 1
}
""".replace(", CAPABILITIES", "").replace("EXTENSIONS", "")
MATRIX = """%m = spirv.Undef : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    // BODY"""
LAYER = """
dynamic { x: f32[64, 300]; }
constant { w: f32[300, 300] @init(0.01); }
block entry {
    assign h: f32[64, 300];
    op matmul(x, w) >> h;
    op softmax(h, axis=1) >> h;
    return h;
}
"""


def refusal(call: Callable[[], object]) -> OpenInferError:
    with pytest.raises(OpenInferError) as raised:
        call()
    return raised.value


def with_matrices(text: str) -> str:
    """The kernel with a matrix of 16 x 16."""
    vce = "[Shader, CooperativeMatrixKHR, Float16, VulkanMemoryModel]"
    extensions = "[SPV_KHR_cooperative_matrix, SPV_KHR_vulkan_memory_model]"
    text = text.replace("[Shader], []", f"{vce}, {extensions}")
    return text.replace("Logical GLSL450", "Logical Vulkan").replace("// BODY", MATRIX)


def test_what_a_module_asks_for() -> None:
    words = words_of(KERNEL)
    assert not complaint(words)
    asked = asked_of(check_words(words))
    assert asked.entries == ["main"]
    assert asked.workgroup == (64, 2, 1)
    assert asked.shared_memory == 64 * 4 + 12
    assert asked.push_constants == 4
    assert asked.bindings == {1: ""}
    check_limits(check_words(words), LIMITS, "main", "a device", "")
    check_start(check_words(words), Interface("main", 2))
    check_limits(check_words(words_of(with_matrices(KERNEL))), LIMITS, "main", "a device", "")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("64, 2, 1", "64, 2, 3", "asks for 384 invocations of a workgroup; a device gives 256"),
        ("64, 2, 1", "1, 1, 128", "asks for 128 invocations of a workgroup along z; a device gives 64"),
        ("64, 2, 1", "4294967295, 1, 1", "asks for 4294967295 invocations"),
        ("<64 x f32>", "<4096 x f32>", "asks for 16396 bytes of shared memory; a device gives 16384"),
        ("<64 x f32>", "<64 x !spirv.array<64 x vector<4xf32>>>", "asks for 65548 bytes of shared"),
        ("<64 x f32>", "<8 x !spirv.struct<(f32, vector<4xf32>, !spirv.array<800 x i32>)>>", "for 25868"),
        ("<(i32 [0])>", "<(i32 [0], i32 [128])>", "asks for 132 bytes of push constants; a device gives 128"),
        ("<(i32 [0])>", "<(!spirv.array<9 x vector<4xi32>, stride=16> [0])>", "asks for 144 bytes of push"),
        ("bind(0, 1)", "bind(0, 30)", "asks for 31 buffers; a device gives 30"),
    ],
)  # fmt: skip
def test_more_than_the_device_gives(old: str, new: str, says: str) -> None:
    assert old in KERNEL
    module = check_words(words_of(KERNEL.replace(old, new)))
    error = refusal(lambda: check_limits(module, LIMITS, "softmax_0", "a device", "the fix"))
    assert error.code == "OI0773"
    assert error.message.startswith("the kernel softmax_0 asks for ")
    assert says in error.message
    assert error.hint == "the fix"


def test_a_size_that_no_number_says() -> None:
    """What a specialization constant computes is unknown: it could be anything."""
    words = words_of(KERNEL)
    module = check_words(words)
    (length,) = (one.of("id")[1] for one in module.instructions if one.row.name == "TypeArray")
    without = [one for one in module.instructions if one.result != length]
    error = refusal(
        lambda: check_limits(replace(module, instructions=tuple(without)), LIMITS, "k", "it", "")
    )
    assert "asks for an unknown number of bytes of shared memory" in error.message


@pytest.mark.parametrize(
    ("old", "new"),
    [("16x16xf16", "8x16xf16"), ("16x16xf16", "16x32xf16"), ("Subgroup", "Workgroup")],
)
def test_matrices_that_the_device_is_not_asked_for(old: str, new: str) -> None:
    text = with_matrices(KERNEL).replace(old, new)
    error = refusal(lambda: check_limits(check_words(words_of(text)), LIMITS, "k", "it", ""))
    assert error.code == "OI0773"
    assert "16 x 16 of a subgroup" in error.message


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("@main", "@other", "has the entries other, one of its name is expected"),
        ("<(i32 [0])>", "<(i32 [0], i32 [4])>", "reads 8 bytes of push constants, the program passes 4"),
        ("bind(0, 1)", "bind(0, 2)", "uses binding 2, the program gives it 2"),
        ("bind(0, 1)", "bind(1, 1)", "has at binding 1 a buffer of set 1"),
    ],
)  # fmt: skip
def test_what_a_kernel_is_not_given(old: str, new: str, says: str) -> None:
    module = check_words(words_of(KERNEL.replace(old, new)))
    error = refusal(lambda: check_start(module, Interface("main", 2)))
    assert error.code == "OI0761"
    assert f"the kernel main {says}" in error.message


# On a device, and in programs


def small_device(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    """The device with other limits."""
    device = logical_device()
    small = replace(device.physical, limits=replace(device.physical.limits, **limits))
    monkeypatch.setattr(device.kernels, "physical", small)
    monkeypatch.setattr(device.kernels, "_made", {})


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"invocations": 16}, "invocations of a workgroup; "),
        ({"workgroup": (8, 1024, 1024)}, "invocations of a workgroup along x; "),
        ({"shared_memory": 64}, "bytes of shared memory; "),
        ({"buffers": 2}, "buffers; "),
    ],
)
def test_the_driver_is_not_asked(
    limits: dict[str, Any], says: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program was compiled for the device as it is described, which now has less."""
    program = oi.compile(LAYER, device="vulkan")
    small_device(monkeypatch, **limits)
    before = library.counts["vkCreateShaderModule"]
    error = refusal(program.make_executor)
    assert error.code == "OI0773"
    assert says in error.message
    assert re.match(r"the kernel (matmul|softmax)_0 asks for \d+ ", error.message)
    assert "compile the program on this machine" in str(error)
    assert library.counts["vkCreateShaderModule"] == before


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ('"LocalSize", ', '"LocalSize", 8', "OI0773", "invocations of a workgroup"),
        ("bind(0, 2)", "bind(0, 4000000000)", "OI0773", "asks for 4000000001 buffers"),
        ("bind(0, 2)", "bind(0, 20)", "OI0761", "uses binding 20, the program gives it 4"),
        ("@matmul_0", "@matmul_1", "OI0761", "has the entries matmul_1"),
    ],
)
def test_an_edited_file_is_refused(
    old: str, new: str, code: str, says: str, library: Library, tmp_path: Path
) -> None:
    from openinfer.lowering.vulkan.deserialize import deserialize
    from tests.unit.test_spirv_deserialize import printed_module

    program, path = oi.compile(LAYER, device="vulkan"), tmp_path / "layer.oip"
    part = part_of("matmul_0")
    text = printed_module(deserialize(program.parts[part]))
    assert old in text
    program.parts[part] = words_of(text.replace(old, new))
    program.save(path)
    before = library.counts["vkCreateShaderModule"]
    error = refusal(lambda: oi.load(path).make_executor())
    assert error.code == code
    assert "the kernel matmul_0 " in error.message
    assert says in error.message
    assert library.counts["vkCreateShaderModule"] == before


@pytest.mark.parametrize("target", ["spirv", "spirv-text"])
def test_an_edited_level_is_refused(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a device: the module says for which one it is."""
    path, output = tmp_path / "layer.mlir", str(tmp_path / "out")
    aliases, _, kernel = KERNEL.partition("spirv.module ")
    says = 'openinfer.target = "generic", openinfer.device = "vulkan"'
    path.write_text(
        f"{aliases}builtin.module attributes {{{says}}} {{\nspirv.module @tile_0 {kernel}}}\n"
    )
    assert optimise([str(path), "-t", target, "-o", output]) == 0
    text = path.read_text()
    path.write_text(text.replace("<64 x f32>", "<4096 x f32>"))
    assert optimise([str(path), "-t", target, "-o", output]) == 1
    said = capsys.readouterr().err
    assert "error[OI0773]" in said
    assert (
        "the kernel tile_0 asks for 16396 bytes of shared memory; the device that the program is compiled "
        f"for gives {PLAIN.shared_memory}"
    ) in said
    assert "`openinfer.shared_memory`" in said
    more = 'openinfer.device = "vulkan", openinfer.shared_memory = 32768 : i64'
    path.write_text(path.read_text().replace('openinfer.device = "vulkan"', more))
    assert optimise([str(path), "-t", target, "-o", output]) == 0


@pytest.mark.parametrize("count", [20, 70])
def test_fused_kernels_have_as_many_buffers_as_devices_give(count: int, vulkan: None) -> None:
    """A driver would write behind the end of its tables."""
    names = [f"x{number}" for number in range(count)]
    lines = "".join(f"op add(a, {name}) >> a; " for name in names[2:])
    program = oi.compile(
        f"dynamic {{ {' '.join(f'{name}: f32[N];' for name in names)} }} "
        f"block entry {{ assign a: f32[N]; op add(x0, x1) >> a; {lines} return a; }}",
        device="vulkan",
        fallback=False,
    )
    kernels = [row for row in program.manifest.calls if "elementwise" in row.kernel]
    assert max(len(row.buffers) for row in kernels) <= MOST_BUFFERS
    assert len(kernels) == (1 if count < MOST_BUFFERS else 3)
    ones = {name: np.ones(1000, np.float32) for name in names}
    assert np.array_equal(program.make_executor().run(**ones)["a"], np.full(1000, count))


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
def test_a_join_of_many_values_is_several_kernels(device: str, vulkan: None) -> None:
    """Of as many buffers as devices give, each; a value that the step joins twice is none more."""
    names = [f"x{number}" for number in range(40)]
    text = (
        f"dynamic {{ {' '.join(f'{name}: f32[N, 3];' for name in names)} }} "
        f"block entry {{ assign a: f32[41 * N, 3]; op concat({', '.join(names)}, x0, axis=0) >> a; "
        "return a; }"
    )
    given = {name: np.full((100, 3), number, np.float32) for number, name in enumerate(names)}
    program = oi.compile(text, device=device, fallback=False)
    found = program.make_executor().run(**given)["a"]
    assert np.array_equal(found, np.repeat([*range(40), 0], 100)[:, None] + np.zeros((1, 3)))
    if device == "vulkan":
        counts = [len(row.buffers) for row in program.manifest.calls if "concat" in row.kernel]
        assert sorted(counts) == [3, 14, 29]


def test_words_are_made_of_kernels_that_the_device_takes(library: Library) -> None:
    """The same module, with an entry and a number of bindings that are not its own."""
    program = oi.compile(LAYER, device="vulkan")
    words = program.part(part_of("matmul_0"))
    device = logical_device()
    kernels = Kernels(device.physical, device.handle, device.lifetime)
    for name, bindings in (("matmul_1", 4), ("matmul_0", 3)):
        wanted = [Words(words, bindings, name)]
        error = refusal(partial(kernels.make, wanted))
        assert error.code == "OI0761"
