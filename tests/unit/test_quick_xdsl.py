"""xDSL's classes are the same, quickly made or not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

SCRIPT = """
import dataclasses, json, sys
standard = dataclasses.dataclass
if {quick}:
    from openinfer.dialects.quick_xdsl import import_xdsl
    import_xdsl()
assert dataclasses.dataclass is standard
from xdsl.dialects import arith, cf, func, gpu, linalg, llvm, math, memref, scf, tensor, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, VectorType, f32, i32
import xdsl.irdl.declarative_assembly_format_parser, xdsl.parser, xdsl.passes, xdsl.printer
import xdsl.pattern_rewriter
from xdsl.irdl import IRDLOperation

def name(field):
    return [field.name, str(field.type), type(field.default).__name__, field.init, field.compare, field.repr]

classes, ops = {{}}, {{}}
for module in [m for n, m in sys.modules.items() if n.startswith("xdsl.")]:
    for cls in vars(module).values():
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            own = cls.__dict__
            if "__dataclass_params__" in own:
                classes[f"{{cls.__module__}}.{{cls.__qualname__}}"] = [
                    [name(field) for field in dataclasses.fields(cls)],
                    repr(cls.__dataclass_params__),
                    sorted(key for key in own if key not in ("__doc__", "__annotations__")),
                    cls.__hash__ is None,
                    sorted(getattr(cls, "__abstractmethods__", ())),
                ]
            if issubclass(cls, IRDLOperation) and (definition := cls.get_irdl_definition()):
                form = definition.assembly_format
                ops[f"{{cls.__module__}}.{{cls.__qualname__}}"] = [form, form == cls.assembly_format]
number, same = IntegerAttr(3, i32), IntegerAttr(3, 32)
kept = {{number: 1, MemRefType(f32, [2, 3]): 2}}
facts = [
    number == same, hash(number) == hash(same), number == IntegerAttr(4, 32), kept[same],
    kept[MemRefType(f32, [2, 3])], repr(StringAttr("a")), str(VectorType(f32, [4])), repr(number),
]
print(json.dumps([classes, ops, facts]))
"""


def _made(quick: bool) -> Any:
    command = [sys.executable, "-c", SCRIPT.format(quick=quick)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def both() -> tuple[Any, Any]:
    return _made(quick=False), _made(quick=True)


def test_all_data_classes_are_alike(both: tuple[Any, Any]) -> None:
    (standard, _, _), (quick, _, _) = both
    assert len(standard) > 250
    assert quick == standard


def test_ops_keep_their_syntax(both: tuple[Any, Any]) -> None:
    (_, standard, _), (_, quick, _) = both
    assert len([form for form, _ in standard.values() if form is not None]) > 80
    assert quick == standard


def test_attributes_are_compared_and_shown_alike(both: tuple[Any, Any]) -> None:
    (_, _, standard), (_, _, quick) = both
    assert quick == standard


def test_the_syntax_of_an_op_of_xdsl_is_read_when_it_is_printed() -> None:
    script = """
from openinfer.dialects.quick_xdsl import import_xdsl
import_xdsl()
import sys
from openinfer.compiler.registry import make_context
from openinfer.dialects.late_syntax import READ_SYNTAX
from xdsl.parser import Parser
text = "builtin.module {\\n  %0, %1 = \\"test.op\\"() : () -> (i32, i32)\\n  %2 = arith.addi %0, %1 : i32\\n}"
context = make_context(allow_unregistered=True)
module = Parser(context, text).parse_module()
assert "test.op" in str(module) and "arith.addi %0, %1 : i32" in str(module)
import_xdsl()
from xdsl.dialects.arith import AddiOp
assert hasattr(AddiOp, READ_SYNTAX)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_threads_that_compile_first_import_it_once() -> None:
    """`dataclass` is the standard library's before, behind, and for classes of others meanwhile."""
    script = """
import dataclasses, threading
standard = dataclasses.dataclass
from openinfer.dialects import quick_xdsl
from openinfer.runtime import quick_dataclass
start = threading.Barrier(4)
def first():
    start.wait()
    quick_xdsl.import_xdsl()
    from xdsl.dialects.builtin import IntegerAttr
threads = [threading.Thread(target=first) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert dataclasses.dataclass is standard
@quick_xdsl._dataclass(frozen=True)
class Other:
    x: int
assert Other.__eq__.__module__ != quick_dataclass.__name__
assert Other(1) == Other(1)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_compilation_imports_xdsl_so() -> None:
    script = """
from openinfer.compiler.api import graph
graph("block entry { return; }").check()
from xdsl.dialects.builtin import IntegerAttr
from openinfer.runtime import quick_dataclass
assert IntegerAttr.__eq__.__module__ == quick_dataclass.__name__
"""
    subprocess.run([sys.executable, "-c", script], check=True)
