"""The `spirv` dialect against MLIR: text in both forms, and words; and modules that verifiers refuse."""

# ruff: noqa: E501
from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from openinfer.compiler.registry import make_context
from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.vulkan.serialize import serialize
from openinfer.lowering.vulkan.write_op import opcode_name
from openinfer.runtime.spirv.check_words import check_words
from openinfer.runtime.spirv.instructions import BY_NAME, EXTENDED

FILES = sorted((Path(__file__).parents[1] / "filecheck/dialects/spirv").glob("*.mlir"))


def tool(name: str, *arguments: str, given: str) -> bytes:
    """The output of an installed tool, else a skip."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [path, *arguments], input=given.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def parsed(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def printed(module: ModuleOp, *, generic: bool = False) -> str:
    stream = io.StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


@pytest.mark.parametrize(
    "path",
    # MLIR 19 has no `spirv.Switch`, and nothing of NVIDIA's extensions.
    [path for path in FILES if path.stem not in ("switch", "tensors")],
    ids=lambda path: path.stem,
)
def test_text_is_that_of_mlir(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    custom = tool("mlir-opt-19", given=text).decode()
    assert tool("mlir-opt-19", given=printed(parsed(custom))).decode() == custom
    generic = tool("mlir-opt-19", "--mlir-print-op-generic", given=text).decode()
    local = tool(
        "mlir-opt-19", "--mlir-print-op-generic", "--mlir-print-local-scope", given=text
    ).decode()
    ours = printed(parsed(local), generic=True)
    assert tool("mlir-opt-19", "--mlir-print-op-generic", given=ours).decode() == generic


@pytest.mark.parametrize("name", ["flow", "matrices"])
def test_words_are_those_of_mlir(name: str) -> None:
    text = next(path for path in FILES if path.stem == name).read_text(encoding="utf-8")
    (module,) = (op for op in parsed(text).walk() if isinstance(op, SpirvModuleOp))
    words = serialize(module)
    check_words(words)
    assert words == tool(
        "mlir-translate-19", "--no-implicit-module", "--serialize-spirv", given=text
    )


def test_ops_are_rows_of_the_table() -> None:
    for op in VALUE_OPS.values():
        name = op.name.removeprefix("spirv.")
        if name.startswith("GL."):
            assert name.removeprefix("GL.") in EXTENDED
        else:
            *vendor, plain = name.split(".")
            assert plain + "".join(vendor) in BY_NAME
    assert opcode_name(VALUE_OPS["FAdd"].build(operands=[[]], result_types=[[]])) == "FAdd"


HEAD = "spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader], []> {\n"
FUNC = HEAD + 'spirv.func @f(%x: f32, %i: i32, %c: i1) "None" {\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"builtin.module"() ({^bb0(%x: f32, %i: i32): %y = "spirv.FAdd"(%x, %i) : (f32, i32) -> f32 }) : () -> ()', "where f32 is expected"),
        ('"builtin.module"() ({^bb0(%i: i32): %y = "spirv.FAdd"(%i, %i) : (i32, i32) -> i32 }) : () -> ()', "a float"),
        ('"builtin.module"() ({^bb0(%x: f32): %y = "spirv.FAdd"(%x) : (f32) -> f32 }) : () -> ()', "1 operands"),
        ('"builtin.module"() ({^bb0(%x: f32): %y = "spirv.IsNan"(%x) : (f32) -> f32 }) : () -> ()', "where i1 is expected"),
        (FUNC + '%y = spirv.GroupNonUniformFAdd "Sub" "Reduce" %x : f32\n', "'Sub' is no Scope"),
        (FUNC + "%y = spirv.CompositeExtract %x[0 : i32] : f32\n", "nothing of f32"),
        (FUNC + "%y = spirv.Constant 1.0 : f32\nspirv.Return\n}\nspirv.Return\n}", "does not stand in"),
        (FUNC + "spirv.mlir.loop { spirv.mlir.merge }\nspirv.Return }\n}", "an entry, a header"),
        (FUNC + "spirv.mlir.selection {\nspirv.Branch ^m\n^m:\nspirv.Return\n}\nspirv.Return }\n}", "nothing but 'spirv.mlir.merge'"),
        (FUNC + "%p = spirv.mlir.addressof @g : !spirv.ptr<f32, Private>\nspirv.Return }\n}", "no global variable"),
        (FUNC + "spirv.Return }\nspirv.EntryPoint \"GLCompute\" @f\n}", "without arguments"),
        (FUNC + "spirv.Return }\nspirv.ExecutionMode @f \"LocalSize\", 1, 1\n}", "expected 3"),
        (HEAD + "spirv.GlobalVariable @g : !spirv.ptr<f32, Function>\n}", "does not lie in Function"),
        (HEAD.replace("Shader", "Shaders") + "}", "no capability"),
        (HEAD.replace("v1.3", "v1.9") + "}", "no version v1.9"),
        (FUNC + "%v = spirv.Variable : !spirv.ptr<f32, Function>\nspirv.Store \"Function\" %v, %x [\"Volatile\", 4] : f32\nspirv.Return }\n}", "`Aligned` and an alignment"),
        (FUNC + "spirv.Switch %x : f32, [default: ^a]\n^a:\nspirv.Return }\n}", "IntegerType|integer"),
        (FUNC.replace("%i: i32", "%i: i64") + "spirv.Switch %i : i64, [default: ^a]\n^a:\nspirv.Return }\n}", "8, 16 or 32 bits"),
        (FUNC + "spirv.Switch %i : i32, [default: ^a, 1: ^a, 1: ^a]\n^a:\nspirv.Return }\n}", "a number twice"),
        (FUNC + "spirv.Switch %i : i32, [default: ^a(%i : i32), 1: ^a(%x : f32)]\n^a(%j: i32):\nspirv.Return }\n}", "what it takes"),
        (FUNC + "%k = spirv.Constant 1 : i32\nspirv.Switch %i : i32, [default: ^a(%i : i32), 1: ^a(%k : i32)]\n^a(%j: i32):\nspirv.Return }\n}", "different values"),
        (HEAD + "spirv.SpecConstantComposite @c (@s) : vector<2xi32>\n}", "consist of 1 parts"),
        (HEAD + "spirv.SpecConstantComposite @c (@s) : i32\n}", "consist of 1 parts"),
        (HEAD + "spirv.SpecConstantComposite @c (@s, @s) : vector<2xi32>\n}", "no specialization constant"),
        (HEAD + "spirv.SpecConstant @s = 1.0 : f32\nspirv.SpecConstantComposite @c (@s, @s) : vector<2xi32>\n}", "is of f32, expected i32"),
        ("func.func private @f(!spirv.coopmatrix<16xf16, Subgroup, MatrixA>)", "2 axes"),
        ("func.func private @f(!spirv.array<0 x f32>)", "1 element or more"),
    ],
)  # fmt: skip
def test_verifiers_refuse(text: str, says: str) -> None:
    with pytest.raises((ParseError, VerifyException), match=says):
        parsed(text)
