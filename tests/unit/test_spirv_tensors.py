"""Matrices of a workgroup and tensors in memory: words of NVIDIA's extensions, against a newer validator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from slangpy_library import complaints, require_library
from test_spirv_dialect import parsed
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.vulkan.deserialize import deserialize
from openinfer.lowering.vulkan.serialize import serialize
from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.spirv.check_words import check_words
from openinfer.runtime.spirv.instructions import BY_NAME, CAPABILITIES
from openinfer.runtime.spirv.words import Instruction, Part, read_words, write_words

FILE = Path(__file__).parents[1] / "filecheck/dialects/spirv/tensors.mlir"
Instructions = Sequence[Instruction]
Change = Callable[[Instruction], Instructions]


def words_of(text: str) -> bytes:
    (module,) = (op for op in parsed(text).walk() if isinstance(op, SpirvModuleOp))
    return serialize(module)


@pytest.fixture(scope="module")
def words() -> bytes:
    return words_of(FILE.read_text())


def test_the_validator_takes_them(words: bytes, tmp_path: Path) -> None:
    require_library()
    again = serialize(deserialize(words))
    assert serialize(deserialize(again)) == again
    for one in (words, again):
        check_words(one)
    assert complaints([words, again], tmp_path) == ["", ""]


def ids_changed(name: str, change: Callable[[list[int]], list[int]]) -> Change:
    """Other ids behind the result of an instruction."""

    def apply(one: Instruction) -> Instructions:
        if one.row.name != name:
            return [one]
        ids = [Part("id", value) for value in change(one.of("id"))]
        parts: list[Part] = []
        for part in one.parts:
            if part.kind != "id":
                parts.append(part)
            elif ids:
                parts.append(ids.pop(0))
        return [replace(one, parts=tuple(parts))]

    return apply


def without(capability: str) -> Change:
    """A capability that the module does not declare."""

    def apply(one: Instruction) -> Instructions:
        return [] if one.parts and one.parts[0] == Part("Capability", number(capability)) else [one]

    return apply


def number(capability: str) -> int:
    return CAPABILITIES[capability][0]


def changed(words: bytes, change: Change) -> bytes:
    module = read_words(words)
    made = [new for one in module.instructions for new in change(one)]
    wrong = write_words(replace(module, instructions=tuple(made)))
    assert wrong != words
    return wrong


def test_a_function_takes_what_it_is_given(words: bytes) -> None:
    """The validator does not look at what stands behind the matrix."""
    change = ids_changed("CooperativeMatrixPerElementOpEXT", lambda ids: ids[:2])
    with pytest.raises(ArtefactError, match="does not take and give what the matrix consists of"):
        check_words(changed(words, change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without("TensorAddressingNV"), "needs the capability TensorAddressingNV"),
        (
            without("CooperativeMatrixTensorAddressingNV"),
            "needs the capability CooperativeMatrixTensorAddressingNV",
        ),
        (
            without("CooperativeMatrixPerElementOperationsNV"),
            "needs the capability CooperativeMatrixPerElementOperationsNV",
        ),
        (ids_changed("TensorLayoutSetDimensionNV", lambda ids: [ids[0]]), "has 0 numbers"),
        (ids_changed("TensorLayoutSetStrideNV", lambda ids: ids[:2]), "has 1 numbers"),
        (ids_changed("TensorLayoutSliceNV", lambda ids: ids[:-1]), "its layout has 2"),
        (
            ids_changed("TensorLayoutSliceNV", lambda ids: [ids[1], *ids[1:]]),
            "is no layout of the type of its operand",
        ),
        (ids_changed("TypeTensorLayoutNV", lambda ids: [ids[1], ids[1]]), "0 axes"),
        (
            ids_changed("TypeTensorViewNV", lambda ids: [*ids[:2], ids[2], ids[2]]),
            "does not say where each of 2 axes stands",
        ),
        (
            ids_changed("CooperativeMatrixStoreTensorNV", lambda ids: [ids[0], ids[1], ids[0]]),
            "is no tensor layout",
        ),
        (
            ids_changed("CooperativeMatrixStoreTensorNV", lambda ids: [ids[1], ids[1], ids[2]]),
            "is no pointer",
        ),
        (
            ids_changed("CooperativeMatrixStoreTensorNV", lambda ids: [ids[0], ids[0], ids[2]]),
            "is no matrix",
        ),
        (
            ids_changed("CooperativeMatrixPerElementOpEXT", lambda ids: [ids[0], ids[0], *ids[2:]]),
            "is no function",
        ),
        (
            ids_changed("CooperativeMatrixReduceEXT", lambda ids: [ids[1], ids[1]]),
            "are no matrices",
        ),
    ],
)
def test_a_wrong_module_is_refused(change: Change, says: str, words: bytes, tmp_path: Path) -> None:
    """By our checker and by the validator."""
    wrong = changed(words, change)
    with pytest.raises(ArtefactError, match=says):
        check_words(wrong)
    require_library()
    (complaint,) = complaints([wrong], tmp_path)
    assert "refused" in complaint


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("SetStride %d[%32, %1]", "SetStride %d[%32]", "takes 2 numbers"),
        ("Slice %c[%0, %64, %0, %32]", "Slice %c[%0, %64]", "takes 4 numbers"),
        ("ClampValue %s[%0]", "ClampValue %s[%0, %0]", "takes 1 numbers"),
        ("tensor_view<[1, 0]>", "tensor_view<[1, 1]>", "permutes no axes"),
        ("tensor_view<[1, 0]>", "tensor_view<[2, 1, 0]>", "has not the axes"),
        ("PerElementOp @scale", "PerElementOp @larger", "@larger is"),
        ("PerElementOp @scale", "PerElementOp @nobody", "@nobody is no function"),
        ("<Row> @larger", "<Column> @larger", "of columns of"),
        ("<Row> @larger", "<Row> @scale", "@scale is"),
        ("tensor_layout<1,", "tensor_layout<6,", "1 to 5 axes"),
    ],
)
def test_what_verifiers_refuse(old: str, new: str, says: str) -> None:
    lines = [line for line in FILE.read_text().splitlines() if not line.strip().startswith("//")]
    text = "\n".join(lines)
    assert old in text
    with pytest.raises(Exception, match=says) as caught:
        parsed(text.replace(old, new))
    assert isinstance(caught.value, VerifyException) or "Parse" in type(caught.value).__name__


def test_all_of_the_extensions_is_read() -> None:
    """Rows that the dialect lacks are those of views with extents of their own, and of blocks."""
    known = {row for row in BY_NAME if "Tensor" in row and row.endswith("NV")}
    text = words_of(FILE.read_text())
    there = {one.row.name for one in read_words(text).instructions}
    assert known - there == {
        "TensorLayoutSetBlockSizeNV",
        "TensorViewSetDimensionNV",
        "TensorViewSetStrideNV",
        "TensorViewSetClipNV",
    }
