"""SPIR-V: the table against the grammar, words to instructions and back, the text, and damaged words."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from openinfer.lowering.vulkan.spirv_text import print_text
from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.spirv.check_words import check_words
from openinfer.runtime.spirv.instructions import CAPABILITIES, ENUMERATIONS, ROWS
from openinfer.runtime.spirv.words import write_words

GRAMMAR = Path(__file__).parents[2] / "../shared/data/spirv/spirv.core.grammar.json"
KINDS = {
    "IdResultType": "type",
    "IdResult": "result",
    "IdRef": "id",
    "IdScope": "scope",
    "IdMemorySemantics": "semantics",
    "LiteralInteger": "word",
    "LiteralString": "string",
    "LiteralContextDependentNumber": "number",
    "LiteralExtInstInteger": "word",
    "LiteralSpecConstantOpInteger": "opcode",
    "PairLiteralIntegerIdRef": "case",
    "PairIdRefIdRef": "edge",
}
MODULE = """
!buffer = !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader, Float16, Int64], []> {
  spirv.GlobalVariable @in bind(0, 0) : !buffer
  spirv.GlobalVariable @out bind(0, 1) : !buffer
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.func @main() "None" {
    %p = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %v = spirv.Load "Input" %p : vector<3xi32>
    %i = spirv.CompositeExtract %v[0 : i32] : vector<3xi32>
    %zero = spirv.Constant 0 : i32
    %last = spirv.Constant -7 : si32
    %long = spirv.Constant 81985529216486895 : i64
    %half = spirv.Constant 1.5 : f16
    %tiny = spirv.Constant 0x00000001 : f32
    %tenth = spirv.Constant 0.1 : f32
    %infinite = spirv.Constant 0x7F800000 : f32
    %in = spirv.mlir.addressof @in : !buffer
    %out = spirv.mlir.addressof @out : !buffer
    %a = spirv.AccessChain %in[%zero, %i] : !buffer, i32, i32
    %b = spirv.AccessChain %out[%zero, %i] : !buffer, i32, i32
    %x = spirv.Load "StorageBuffer" %a : f32
    %y = spirv.FAdd %x, %tenth : f32
    %t = spirv.FMul %y, %tiny : f32
    %u = spirv.FAdd %t, %infinite : f32
    %s = spirv.GL.Exp %u : f32
    %c = spirv.SLessThan %i, %zero : i32
    spirv.mlir.selection {
      spirv.BranchConditional %c, ^then, ^merge
    ^then:
      spirv.Store "StorageBuffer" %b, %s : f32
      spirv.Branch ^merge
    ^merge:
      spirv.mlir.merge
    }
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}
"""
TEXT = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %1 "main"
OpExecutionMode %1 LocalSize 1 1 1
%2 = OpTypeVoid
%3 = OpTypeFunction %2
%4 = OpTypeInt 32 1
%5 = OpConstant %4 5
%6 = OpTypeBool
%1 = OpFunction %2 None %3
%7 = OpLabel
OpBranch %8
%8 = OpLabel
%9 = OpPhi %4 %5 %7 %10 %11
%10 = OpIAdd %4 %9 %5
%12 = OpSLessThan %6 %10 %5
OpLoopMerge %13 %11 Unroll
OpBranchConditional %12 %11 %13
%11 = OpLabel
OpBranch %8
%13 = OpLabel
OpReturn
OpFunctionEnd
"""


def tool(name: str, *arguments: str, given: bytes) -> bytes:
    """The output of an installed tool, else a skip."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([path, *arguments], input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def mlir_words() -> bytes:
    """The words that MLIR writes of MODULE."""
    return tool(
        "mlir-translate-19", "--no-implicit-module", "--serialize-spirv", given=MODULE.encode()
    )


def loop_words() -> bytes:
    """The words of TEXT, which no tool is needed for."""

    def row(opcode: int, *operands: int) -> list[int]:
        return [(len(operands) + 1) << 16 | opcode, *operands]

    words = [
        [0x07230203, 0x10300, 0, 14, 0],
        row(17, 1), row(14, 0, 1), row(15, 5, 1, *struct.unpack("<2I", b"main\0\0\0\0")),
        row(16, 1, 17, 1, 1, 1), row(19, 2), row(33, 3, 2), row(21, 4, 32, 1), row(43, 4, 5, 5),
        row(20, 6), row(54, 2, 1, 0, 3), row(248, 7), row(249, 8), row(248, 8),
        row(245, 4, 9, 5, 7, 10, 11), row(128, 4, 10, 9, 5), row(177, 6, 12, 10, 5),
        row(246, 13, 11, 1), row(250, 12, 11, 13), row(248, 11), row(249, 8), row(248, 13),
        row(253), row(56),
    ]  # fmt: skip
    flat = [word for one in words for word in one]
    return struct.pack(f"<{len(flat)}I", *flat)


def test_table_says_what_the_grammar_says() -> None:
    if not GRAMMAR.exists():
        pytest.skip(f"no grammar at {GRAMMAR}")
    grammar = json.loads(GRAMMAR.read_text(encoding="utf-8"))
    names: dict[int, set[str]] = {}
    operands: dict[int, list[str]] = {}
    for one in grammar["instructions"]:
        names.setdefault(one["opcode"], set()).update([one["opname"], *one.get("aliases", [])])
        operands[one["opcode"]] = [
            KINDS.get(part["kind"], part["kind"]) + part.get("quantifier", "")
            for part in one.get("operands", [])
        ]
    for row in ROWS.values():
        assert f"Op{row.name}" in names[row.opcode]
        mine = [p.kind + "?" * p.optional + "*" * p.repeats for p in row.operands]
        assert mine == operands[row.opcode], row.name
        assert row.capabilities <= set(CAPABILITIES)
    kinds = {kind["kind"]: kind for kind in grammar["operand_kinds"]}
    for kind, rows in ENUMERATIONS.items():
        known = {
            name: int(str(one["value"]), 0)
            for one in kinds[kind]["enumerants"]
            for name in (one["enumerant"], *one.get("aliases", []))
        }
        assert {name: number for name, (number, _) in rows.items()}.items() <= known.items()


def test_words_of_mlir_are_read_and_written_alike() -> None:
    words = mlir_words()
    assert write_words(check_words(words)) == words


def test_text_is_what_the_assembler_reads() -> None:
    for words in (mlir_words(), loop_words()):
        module = check_words(words)
        again = tool(
            "spirv-as", "--preserve-numeric-ids", "--target-env", "vulkan1.1", "-o", "-", "-",
            given=print_text(module).encode(),
        )  # fmt: skip
        # The header of the assembler has a generator and a bound of its own.
        assert again[20:] == words[20:]


def test_text_of_a_loop() -> None:
    lines = print_text(check_words(loop_words())).splitlines()
    assert [line for line in lines if not line.startswith(";")] == TEXT.strip().splitlines()


def test_validator_accepts_what_the_checker_accepts() -> None:
    for words in (mlir_words(), loop_words()):
        check_words(words)
        tool("spirv-val", "--target-env", "vulkan1.1", "-", given=words)


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ((0x07230203,), (0x03022307,), "OI0760", "magic number"),
        ((5 << 16 | 128, 4, 10, 9, 5), (9 << 16 | 128, 4, 10, 9, 5), "OI0760", "behind its last operand"),
        ((5 << 16 | 128, 4, 10, 9, 5), (5 << 16 | 999, 4, 10, 9, 5), "OI0760", "opcode 999"),
        ((2 << 16 | 248, 13), (0, 13), "OI0760", "opcode 0"),
        ((5 << 16 | 128, 4, 10, 9, 5), (5 << 16 | 128, 4, 10, 9, 99), "OI0761", "id 99 is not"),
        ((5 << 16 | 128, 4, 10, 9, 5), (5 << 16 | 128, 4, 10, 9, 12), "OI0761", "in front of its definition"),
        ((5 << 16 | 128, 4, 10, 9, 5), (5 << 16 | 128, 5, 10, 9, 5), "OI0761", "is no type"),
        ((5 << 16 | 128, 4, 10, 9, 5), (5 << 16 | 128, 6, 10, 9, 5), "OI0761", "not the type of the result"),
        ((5 << 16 | 128, 4, 10, 9, 5), (5 << 16 | 128, 4, 9, 9, 5), "OI0761", "a second time"),
        ((4 << 16 | 43, 4, 5, 5), (4 << 16 | 43, 2, 5, 5), "OI0761", "words of a number"),
        ((2 << 16 | 20, 6), (4 << 16 | 23, 6, 3, 2), "OI0761", "no scalar type"),
        ((2 << 16 | 249, 8, 2 << 16 | 248, 13), (2 << 16 | 249, 5, 2 << 16 | 248, 13), "OI0761", "no label"),
        ((1 << 16 | 253, 1 << 16 | 56), (1 << 16 | 56, 1 << 16 | 253), "OI0761", "has no end"),
        ((5 << 16 | 128, 4, 10, 9, 5), (5 << 16 | 4450, 4, 10, 9, 5), "OI0761", "needs the capability"),
    ],
)  # fmt: skip
def test_damaged_words_are_named(
    old: tuple[int, ...], new: tuple[int, ...], code: str, says: str
) -> None:
    words = loop_words()
    before, after = (struct.pack(f"<{len(part)}I", *part) for part in (old, new))
    assert words.count(before) == 1
    with pytest.raises(ArtefactError, match=says) as raised:
        check_words(words.replace(before, after))
    assert raised.value.code == code


@pytest.mark.parametrize("make", [loop_words, mlir_words])
def test_mutated_words_are_modules_or_errors(make: Callable[[], bytes]) -> None:
    words, refused = make(), 0
    draw = random.Random(13)
    for _ in range(3000):
        data = bytearray(words)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(data) // 4) * 4
            new = draw.choice(
                [draw.randrange(16), draw.getrandbits(32), 0xFFFFFFFF, draw.randrange(6000)]
            )
            low = draw.choice([0, 2])
            struct.pack_into("<H", data, place + low, new & 0xFFFF)
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        try:
            module = check_words(bytes(data))
        except ArtefactError as error:
            refused += error.code in {"OI0760", "OI0761"}
        else:
            assert write_words(module) == bytes(data)
            assert print_text(module)
    assert refused > 1500
