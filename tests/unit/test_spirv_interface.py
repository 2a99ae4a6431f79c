"""What the checker asks of buffers, capabilities and entry points, held against `spirv-val`."""

from __future__ import annotations

import random

import pytest
from xdsl.utils.exceptions import ParseError, VerifyException

from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.spirv.check_words import check_words
from tests.unit.spirv_modules import Drawn, mutated
from tests.unit.test_spirv_deserialize import complaint, words_of

MODULE = """
!buffer = !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader], []> {
  spirv.GlobalVariable @out bind(0, 1) : !buffer
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %out = spirv.mlir.addressof @out : !buffer
    %id = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %xyz = spirv.Load "Input" %id : vector<3xi32>
    %p = spirv.AccessChain %out[%zero, %zero] : !buffer, i32, i32
    %x = spirv.Load "StorageBuffer" %p : f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("f32", "f64", "needs the capability Float64"),
        ("i32", "i16", "needs the capability Int16"),
        ("Shader]", "Shader, GroupNonUniformVote]", ""),
        ("v1.3, [Shader]", "v1.0, [Shader, GroupNonUniformVote]", "needs a later version"),
        ("f32", "f16", "needs the capability Float16"),
        ("Shader], []", "Shader, Float16], []", ""),
        (", stride=4", "", "needs an ArrayStride"),
        ("stride=4", "stride=2", "its elements take 4"),
        (" [0]", "", "needs an Offset"),
        (" [0]", " [2]", "which is aligned"),
        (" bind(0, 1)", "", "has no Binding"),
        ("StorageBuffer", "Uniform", "where sizes are known"),
        ("StorageBuffer", "PushConstant", "has a Binding, which buffers have"),
        ("!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>", "f32", "lead"),
        ('"GlobalInvocationId"', '"NumSubgroups"', "has no integers of 32 bits"),
        ("vector<3xi32>", "vector<4xi32>", "no vector of three"),
        (", @id\n", "\n", "does not list it"),
        (", @id\n", ", @id, @out\n", "in front of version 1.4"),
        ("v1.3", "v1.5", "does not list it"),
        ('  spirv.ExecutionMode @main "LocalSize", 64, 1, 1\n', "", "says no LocalSize"),
    ],
)  # fmt: skip
def test_what_drivers_are_told(old: str, new: str, says: str) -> None:
    check_words(words_of(MODULE))
    assert old in MODULE
    text = MODULE.replace(old, new)
    if not says:
        check_words(words_of(text))
        return
    with pytest.raises((OpenInferError, ParseError), match=says):
        check_words(words_of(text))


def test_narrow_buffers_need_their_capability() -> None:
    text = MODULE.replace("f32, stride=4", "f16, stride=2").replace(": f32", ": f16")
    text = text.replace("[Shader]", "[Shader, Float16]")
    with pytest.raises(OpenInferError, match="StorageBuffer16BitAccess"):
        check_words(words_of(text))
    check_words(words_of(text.replace("Float16]", "Float16, StorageBuffer16BitAccess]")))


def test_mutated_modules_are_judged_as_by_the_validator() -> None:
    draw = random.Random(6)
    texts = [Drawn(seed).text() for seed in range(8)]
    refused = accepted = 0
    for _ in range(300):
        text = mutated(draw.choice(texts), draw)
        try:
            words = words_of(text)
        except (ParseError, VerifyException, OpenInferError, ValueError, OverflowError):
            continue
        try:
            check_words(words)
        except OpenInferError:
            refused += 1
        else:
            accepted += 1
            assert not complaint(words), text
    assert refused > 20
    assert accepted > 20


def test_a_selection_may_stand_in_the_header_of_another() -> None:
    inner = """spirv.mlir.selection {
        spirv.BranchConditional %c, ^t, ^n
      ^t:
        spirv.Branch ^n
      ^n:
        spirv.mlir.merge
      }
      """
    outer = inner.replace("^t", "^a").replace("^n", "^b").replace("{\n", "{\n" + inner, 1)
    text = MODULE.replace("    spirv.Return", f"%c = spirv.Constant true\n{outer}spirv.Return")
    words = words_of(text)
    check_words(words)
    assert not complaint(words)


@pytest.mark.parametrize("name", ["missing", "out"])
def test_references_are_to_specialization_constants(name: str) -> None:
    line = f"    %s = spirv.mlir.referenceof @{name} : i32\n    spirv.Return"
    with pytest.raises(VerifyException, match="no specialization constant"):
        words_of(MODULE.replace("    spirv.Return", line))


def test_what_is_declared_too_late_is_named() -> None:
    line = "  spirv.GlobalVariable @out bind(0, 1) : !buffer\n"
    late = MODULE.replace(line, "").replace("  spirv.EntryPoint", f"{line}  spirv.EntryPoint")
    with pytest.raises(OpenInferError, match="@out is used in front") as raised:
        words_of(late)
    assert raised.value.code == "OI0762"
