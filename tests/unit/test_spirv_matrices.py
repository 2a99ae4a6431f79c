"""Kernels with cooperative matrices, judged by a validator that knows them: lowered as for an H200."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from matrix_forms import FORMS, OF_WORKGROUPS, kernels_of
from slangpy_library import complaints, require_library
from test_spirv_dialect import parsed

from openinfer.compiler import registry
from openinfer.compiler.passes import build_passes, run_pass
from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.vulkan.checked_words import checked_words
from openinfer.lowering.vulkan.deserialize import deserialize
from openinfer.lowering.vulkan.serialize import serialize
from openinfer.runtime.errors import ArtefactError, OpenInferError
from openinfer.runtime.spirv.check_words import check_words
from openinfer.runtime.spirv.words import Instruction, Part, read_words, write_words

SCHEDULES = Path(__file__).parents[1] / "filecheck/lowering"
PASSES = (
    "lower-device-kernels,expand-packed,expand-narrow-floats,expand-math,cse,dce,convert-to-spirv"
)
Instructions = Sequence[Instruction]


def has_matrices(words: bytes) -> bool:
    return any(
        one.row.name == "CooperativeMatrixMulAddKHR" for one in read_words(words).instructions
    )


@pytest.fixture(scope="module")
def validator() -> None:
    """The one in the wheel of slangpy."""
    require_library()


@pytest.mark.parametrize("form", FORMS)
def test_kernels_of_forms_are_valid(form: str, validator: None, tmp_path: Path) -> None:
    """All that a program needs, not only those with matrices."""
    found = kernels_of(form)
    assert any(map(has_matrices, found.values()))
    said = complaints(list(found.values()), tmp_path)
    assert dict(zip(found, said)) == dict.fromkeys(found, "")


OF_MATRIX2 = "CooperativeMatrixStoreTensorNV", "CooperativeMatrixPerElementOpEXT"


def is_of_matrix2(words: bytes) -> bool:
    """Whether it stores a matrix as a tensor, or gives one to a function."""
    return any(one.row.name in OF_MATRIX2 for one in read_words(words).instructions)


@pytest.mark.parametrize("form", OF_WORKGROUPS)
def test_kernels_of_workgroups_are_valid(form: str, validator: None, tmp_path: Path) -> None:
    """The same in tier `matrix2`; they come back, too."""
    assert not any(map(is_of_matrix2, kernels_of(form).values()))
    found = kernels_of(form, "matrix2")
    assert any(map(is_of_matrix2, found.values()))
    said = complaints(list(found.values()), tmp_path)
    assert dict(zip(found, said)) == dict.fromkeys(found, "")
    for words in found.values():
        again = serialize(deserialize(words))
        assert serialize(deserialize(again)) == again
        check_words(again)


@pytest.mark.parametrize(
    "path",
    [
        one
        for one in sorted(SCHEDULES.glob("lower-device-kernels*.mlir"))
        if "invalid" not in one.stem
    ],
    ids=lambda path: path.stem,
)
def test_kernels_of_schedules_are_valid(path: Path, validator: None, tmp_path: Path) -> None:
    found: list[bytes] = []
    for part in path.read_text(encoding="utf-8").split("// -----\n"):
        module, context = parsed(part), registry.make_context()
        try:
            for item in build_passes(PASSES):
                run_pass(item, module, context)
        except OpenInferError:
            # Some parts have no kernel of the device.
            continue
        found += [checked_words(op) for op in module.walk() if isinstance(op, SpirvModuleOp)]
    assert found
    assert complaints(found, tmp_path) == [""] * len(found)


@pytest.mark.parametrize("form", ["product", "f32 result", "attention of size 16"])
def test_kernels_come_back(form: str) -> None:
    """Words with matrices are read into the dialect, and written again as they were read."""
    for words in kernels_of(form).values():
        again = serialize(deserialize(words))
        assert serialize(deserialize(again)) == again
        check_words(again)


# Modules that are wrong


def without_model(one: Instruction) -> list[Instruction]:
    """In the memory model of GLSL, as kernels without matrices are."""
    if one.row.name == "MemoryModel":
        return [replace(one, parts=(one.parts[0], Part("MemoryModel", 1)))]
    return [] if Part("Capability", 5345) in one.parts else [one]


def turned(one: Instruction) -> list[Instruction]:
    """Operands of a product in the wrong order."""
    if one.row.name == "CooperativeMatrixMulAddKHR":
        type_, result, a, b, *rest = one.parts
        return [replace(one, parts=(type_, result, b, a, *rest))]
    return [one]


def without_stride(one: Instruction) -> list[Instruction]:
    """Loads that do not say how far rows are apart."""
    if one.row.name == "CooperativeMatrixLoadKHR":
        return [replace(one, parts=one.parts[:4])]
    return [one]


def without_extension(one: Instruction) -> list[Instruction]:
    """The extension that has the instructions."""
    return [] if Part("string", "SPV_KHR_cooperative_matrix") in one.parts else [one]


def summed(one: Instruction) -> list[Instruction]:
    """A matrix that another form of matrix is added to."""
    if one.row.name == "CooperativeMatrixMulAddKHR":
        type_, result, a, b, *_ = one.parts
        return [replace(one, parts=(type_, result, a, b, a))]
    return [one]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without_model, "VulkanMemoryModel"),
        (turned, "MatrixA|Use|type"),
        (without_stride, "[Ss]tride"),
        (without_extension, "requires extension"),
        (summed, "MatrixAccumulator|Use|type"),
    ],
)
def test_a_wrong_module_is_refused(
    change: Callable[[Instruction], list[Instruction]], says: str, validator: None, tmp_path: Path
) -> None:
    words = next(one for one in kernels_of("product").values() if has_matrices(one))
    module = read_words(words)
    changed = [new for one in module.instructions for new in change(one)]
    wrong = write_words(replace(module, instructions=tuple(changed)))
    assert wrong != words
    (complaint,) = complaints([wrong], tmp_path)
    assert "refused" in complaint
    assert re.search(says, complaint)


def test_matrices_need_the_memory_model_of_vulkan() -> None:
    """Of these rules our own checker holds one, too."""
    words = next(one for one in kernels_of("product").values() if has_matrices(one))
    module = read_words(words)
    changed = [new for one in module.instructions for new in without_model(one)]
    with pytest.raises(ArtefactError, match="is not Vulkan, which CooperativeMatrixKHR needs"):
        check_words(write_words(replace(module, instructions=tuple(changed))))
