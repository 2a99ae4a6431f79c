"""Kernels as GLSL: they compile, and on the device they compute what their own words compute."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pytest
from matrix_forms import FORMS, OF_WORKGROUPS, lowered
from slangpy_library import compiled as compiled_newer
from slangpy_library import complaints, require_library
from test_vulkan_kernels import MATRICES, PROGRAMS

import openinfer as oi
from openinfer.compiler.tools.openinfer_opt import main as optimise
from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.vulkan import checked_words
from openinfer.runtime.spirv.check_limits import asked_of
from openinfer.runtime.spirv.words import read_words

EXAMPLES = Path(__file__).parents[2] / "examples"
SCHEDULES = Path(__file__).parents[1] / "filecheck/lowering"
needs_glslc = pytest.mark.skipif(shutil.which("glslc") is None, reason="no glslc")


def shaders(text: str) -> dict[str, str]:
    """The shaders of a text by the names of their kernels."""
    found = re.split(r"^(?=// \w+\n(?:// .*\n)*#version)", text, flags=re.MULTILINE)
    return {one.split()[1]: one for one in found if one}


def glsl_of(path: Path, folder: Path) -> dict[str, str]:
    target = folder / "kernels.comp"
    assert optimise([str(path), "--pipeline", "vulkan", "-t", "glsl", "-o", str(target)]) == 0
    return shaders(target.read_text())


def compiled(shader: str) -> bytes:
    command = ["glslc", "--target-env=vulkan1.1", "-fshader-stage=compute", "-", "-o", "-"]
    made = subprocess.run(command, input=shader.encode(), capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode() + shader
    return made.stdout


def all_compile(texts: Collection[str], folder: Path) -> None:
    """One process for all shaders: what they become is not looked at."""
    if not texts:
        return
    names = [f"shader{number}.comp" for number in range(len(texts))]
    for name, text in zip(names, texts):
        (folder / name).write_text(text)
    command = ["glslc", "--target-env=vulkan1.1", "-c", *names]
    made = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode()


def with_entry(module: bytes, name: str) -> bytes:
    """The same module with another name for `main`."""
    given = list(struct.unpack(f"<{len(module) // 4}I", module))
    place = 5
    while given[place] & 0xFFFF != 15:
        place += given[place] >> 16
    text = name.encode()
    text += b"\0" * (4 - len(text) % 4)
    entry = struct.unpack(f"<{len(text) // 4}I", text)
    # Opcode, model, function, "main" and its end.
    old = given[place : place + 5]
    count = (old[0] >> 16) - 2 + len(entry)
    new = [count << 16 | 15, *old[1:3], *entry]
    changed = [*given[:place], *new, *given[place + 5 :]]
    return struct.pack(f"<{len(changed)}I", *changed)


@needs_glslc
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.oi")), ids=lambda path: path.stem)
def test_kernels_of_examples_compile(path: Path, vulkan: None, tmp_path: Path) -> None:
    found = glsl_of(path, tmp_path)
    assert found
    all_compile(found.values(), tmp_path)


@needs_glslc
@pytest.mark.parametrize("tier", ["scalar", "subgroup"])
@pytest.mark.parametrize("form", PROGRAMS)
def test_kernels_of_forms_compile(
    form: str,
    tier: str,
    everything_on_vulkan: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    path = tmp_path / "form.oi"
    path.write_text(PROGRAMS[form])
    all_compile(glsl_of(path, tmp_path).values(), tmp_path)


@needs_glslc
@pytest.mark.parametrize(
    "path",
    [
        one
        for one in sorted(SCHEDULES.glob("lower-device-kernels*.mlir"))
        if "invalid" not in one.stem
    ],
    ids=lambda path: path.stem,
)
def test_kernels_of_schedules_compile(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those of devices that tests have not; glslc of 2023 does not know matrices, what slangpy holds
    does."""
    target = tmp_path / "kernels.comp"
    given = [str(path), "--split-input-file", "-p", PASSES, "-t", "glsl"]
    optimise([*given, "-o", str(target)])
    # Some parts of the files have no kernel of the device, and GLSL has no text for a function of elements
    # that reads a buffer which begins anywhere (docs/glsl.md): nothing else may be wrong with them.
    errors = re.findall(r"error\[(OI\d+)\]: (.*)", capsys.readouterr().err)
    assert {code for code, text in errors if "which begins anywhere" not in text} <= {"OI0764"}
    found = [
        one for text in target.read_text().split("// -----\n") for one in shaders(text).values()
    ]
    assert found
    of_matrices = [shader for shader in found if "coopmat" in shader]
    all_compile([shader for shader in found if shader not in of_matrices], tmp_path)
    if of_matrices:
        require_library()
        assert [said for _, said in compiled_newer(of_matrices, tmp_path)] == [""] * len(
            of_matrices
        )


@pytest.mark.parametrize(
    ("form", "tier"),
    [*((form, "matrix") for form in FORMS), *((form, "matrix2") for form in OF_WORKGROUPS)],
)
def test_kernels_with_matrices_compile(form: str, tier: str, tmp_path: Path) -> None:
    """As for an H200: a valid module, with the workgroup, the bindings and the shared memory of our words."""
    require_library()
    made_of = lowered(form, tier)
    found, ours = shaders(made_of.shaders), made_of.kernels
    assert {f"{name}.spv" for name in found} == set(ours)
    made = compiled_newer(list(found.values()), tmp_path)
    assert [said for _, said in made] == [""] * len(found)
    assert complaints([module for module, _ in made], tmp_path) == [""] * len(found)
    assert any("coopMatMulAdd(" in shader for shader in found.values())
    of_matrix2 = any("GL_NV_cooperative_matrix2" in shader for shader in found.values())
    assert of_matrix2 == (tier == "matrix2")
    for name, (module, _) in zip(found, made):
        theirs, mine = (asked_of(read_words(one)) for one in (module, ours[f"{name}.spv"]))
        assert theirs.workgroup == mine.workgroup
        assert theirs.shared_memory == mine.shared_memory
        assert not theirs.matrices
        assert set(mine.bindings) <= set(theirs.bindings)


def test_matrices_are_those_of_the_extension(tmp_path: Path) -> None:
    text, target = tmp_path / "product.mlir", tmp_path / "product.comp"
    text.write_text(MATRICES)
    given = [str(text), "-p", "lower-device-kernels", "-t", "glsl{kernel=product_0}"]
    assert optimise([*given, "-o", str(target)]) == 0
    found = target.read_text()
    assert "#extension GL_KHR_cooperative_matrix : require" in found
    assert "coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0)" in found
    assert re.search(r"coopMatLoad\(\w+, left, .*, 9, gl_CooperativeMatrixLayoutRowMajor\);", found)
    assert "coopMatMulAdd(" in found


EXACT = {
    "conversions": (
        "dynamic { x: f32[B, 7]; i: i8[B, 7]; h: f16[B, 7]; }",
        "a: f16[B, 7]; b: f32[B, 7]; c: f32[B, 7]; d: i32[B, 7];",
        "op cast(x, to=f16) >> a; op cast(i, to=f32) >> b; op cast(h, to=f32) >> c; op cast(i, to=i32) >> d;",
    ),
    "integers": (
        "dynamic { i: i32[B, 7]; j: i32[B, 7]; }",
        "a: i32[B, 7]; b: i32[B, 7]; c: i32[B, 7]; d: i32[B, 7]; e: i32[B, 7];",
        "op div(i, j) >> a; op rem(i, j) >> b; op max(i, j) >> c; op mul(i, j) >> d; "
        "op xor(i, j) >> e; op shl(e, bits=3) >> e; op shr(d, bits=2) >> d;",
    ),
    "narrow integers": (
        "dynamic { i: i8[B, 16]; j: i8[B, 16]; k: u8[B, 16]; l: u8[B, 16]; }",
        "a: i8[B, 16]; b: u8[B, 16]; c: i8[B, 16];",
        "op add(i, j) >> a; op div(k, l) >> b; op rem(i, j) >> c;",
    ),
    "truths": (
        "dynamic { x: f32[B, 7]; y: f32[B, 7]; }",
        "t: bool[B, 7]; u: bool[B, 7]; a: bool[B, 7]; b: f32[B, 7];",
        "op lt(x, y) >> t; op eq(x, x) >> u; op and(t, u) >> a; op where(t, x, y) >> b;",
    ),
    "clamps": (
        "dynamic { x: f32[B, 8]; y: f32[B, 8]; h: f16[B, 8]; }",
        "a: f32[B, 8]; b: f32[B, 8]; c: f16[B, 8];",
        "op clamp(x, min=-0.5, max=0.5) >> a; op relu(x) >> a; op max(x, y) >> b; op add(h, h) >> c;",
    ),
    "sums and products": (
        "dynamic { x: f32[B, 8]; y: f32[B, 8]; z: f32[B, 8]; }",
        "a: f32[B, 8];",
        "op mul(x, y) >> a; op add(a, z) >> a; op mul(a, x) >> a; op sub(a, y) >> a;",
    ),
    "doubles": (
        "dynamic { x: f64[B, 7]; y: f64[B, 7]; }",
        "a: f64[B, 7]; b: f64[B, 7]; c: f64[B, 7]; d: f32[B, 7]; e: f16[B, 7];",
        "op mul(x, y) >> a; op add(a, x) >> a; op abs(y) >> b; op sqrt(b) >> c; op cast(x, to=f32) >> d; "
        "op cast(y, to=f16) >> e;",
    ),
    "stored floats": (
        "dynamic { x: f32[B, 8]; y: f32[B, 8]; }",
        "a: bf16[B, 8]; b: f8[B, 8]; c: f8e4m3[B, 8]; d: bf16[B, 8]; e: f32[B, 8];",
        "op cast(x, to=bf16) >> a; op cast(x, to=f8) >> b; op cast(y, to=f8e4m3) >> c; op add(a, a) >> d; "
        "op cast(c, to=f32) >> e;",
    ),
    "packed integers": (
        "dynamic { i: i8[B, 7]; j: i8[B, 7]; }",
        "a: i4[B, 7]; b: i4[B, 7]; c: u2[B, 7]; d: i1[B, 7]; e: i4[B, 7]; f: i32[B, 7]; g: i4[7, B];",
        "op cast(i, to=i4, saturate=false) >> a; op cast(j, to=i4) >> b; op cast(i, to=u2) >> c; "
        "op cast(j, to=i1) >> d; op add(a, b) >> e; op cast(e, to=i32) >> f; op transpose(e) >> g;",
    ),
    "moves": (
        "dynamic { x: f32[B, 5, 6]; }",
        "a: f32[6, B, 5]; b: f32[B, 3, 6]; c: f32[B, 10, 6];",
        "op transpose(x, perm=[2, 0, 1]) >> a; op slice(x, axis=1, start=1, end=4) >> b; "
        "op concat(x, x, axis=1) >> c;",
    ),
}
NEAR = {
    "functions": (
        "dynamic { x: f32[B, 9]; h: f16[B, 8]; }",
        "a: f32[B, 9]; b: f32[B, 9]; c: f32[B, 9]; d: f32[B, 9]; e: f32[B, 9]; f: f16[B, 8]; g: f32[B, 9];",
        "op exp(x) >> a; op tanh(x) >> b; op gelu(x) >> c; op sigmoid(x) >> d; op erf(x) >> e; "
        "op exp(h) >> f; op sin(x) >> g;",
    ),
    "lines": (
        "dynamic { x: f32[B, 40]; z: f16[B, 40]; }",
        "a: f32[B, 40]; b: f16[B, 40]; c: f32[B]; d: f32[40]; e: f32[B, 40];",
        "op softmax(x, axis=1) >> a; op softmax(z, axis=1) >> b; op sum_axis(x, axes=[1]) >> c; "
        "op max_axis(x, axes=[0]) >> d; op layer_norm(x, eps=1e-5) >> e;",
    ),
    "products": (
        "dynamic { x: f32[B, 64]; w: f32[64, 48]; v: f32[48]; h: f16[B, 64]; g: f16[40, 64]; }",
        "a: f32[B, 48]; b: f16[B, 40];",
        "op matmul(x, w) >> a; op add(a, v) >> a; op relu(a) >> a; op matmul(h, g, transpose_b=true) >> b;",
    ),
    "attention": (
        "dynamic { q: f32[1, 2, B, 32]; k: f32[1, 2, 24, 32]; }",
        "a: f32[1, 2, B, 32];",
        "op attention(q, k, k) >> a;",
    ),
    "parts": (
        "dynamic { q: f32[1, 2, 1, 32]; k: f32[1, 2, 4096, 32]; }",
        "a: f32[1, 2, 1, 32];",
        "op attention(q, k, k) >> a;",
    ),
}
PASSES = "lower-device-kernels,expand-packed,expand-narrow-floats,cse,dce"
KINDS = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i8": np.int8,
    "u8": np.uint8,
    "i32": np.int32,
}


def program_of(parts: tuple[str, str, str]) -> str:
    inputs, outputs, ops = parts
    assigned = " ".join(f"assign {one};" for one in outputs.rstrip(";").split("; "))
    names = ", ".join(re.findall(r"(\w+): ", outputs))
    return f"{inputs} block entry {{ {assigned} {ops} return {names}; }}"


def inputs_of(text: str) -> dict[str, np.ndarray]:
    """Numbers of both signs, none of them 0."""
    rng = np.random.default_rng(3)
    found: dict[str, np.ndarray] = {}
    given = text[: text.index("}")]
    for name, kind, shape in re.findall(r"(\w+): (\w+)\[([^\]]*)\]", given):
        extents = [6 if size == "B" else int(size) for size in shape.split(", ")]
        if kind.startswith("f"):
            found[name] = rng.uniform(-2, 2, extents).astype(KINDS[kind])
        else:
            low = 1 if kind == "u8" else -100
            values = rng.integers(low, 100, extents)
            found[name] = np.where(values == 0, 7, values).astype(KINDS[kind])
    return found


@pytest.fixture
def by_both(
    everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """What a program computes by its own words, and by those that glslc makes of its shaders."""

    def run(text: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        path = tmp_path / "program.oi"
        path.write_text(text)
        kernels = glsl_of(path, tmp_path)
        given = inputs_of(text)

        def results() -> dict[str, np.ndarray]:
            found = oi.compile(text, device="vulkan").make_executor().run(**given)
            return {name: np.asarray(value) for name, value in found.items()}

        own = results()
        used: list[str] = []

        def shader_words(module: SpirvModuleOp) -> bytes:
            assert module.sym_name is not None
            name = module.sym_name.data
            used.append(name)
            return with_entry(compiled(kernels[name]), name)

        monkeypatch.setattr(checked_words, "serialize", shader_words)
        theirs = results()
        assert sorted(used) == sorted(kernels)
        return own, theirs

    return run


@needs_glslc
@pytest.mark.parametrize("name", EXACT)
def test_shaders_compute_the_same_bits(
    name: str, by_both: Callable[[str], tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]
) -> None:
    own, theirs = by_both(program_of(EXACT[name]))
    for result, value in own.items():
        assert value.tobytes() == theirs[result].tobytes(), result


@needs_glslc
@pytest.mark.parametrize("name", NEAR)
def test_shaders_compute_the_same_numbers(
    name: str, by_both: Callable[[str], tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]
) -> None:
    own, theirs = by_both(program_of(NEAR[name]))
    for result, value in own.items():
        narrow = value.dtype == np.float16
        limit = 4e-3 if narrow else 2e-6
        np.testing.assert_allclose(theirs[result], value, rtol=limit, atol=limit, err_msg=result)
