"""`may_join`: what a barrier and a hint keep apart."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

from openinfer.compiler.ir_text import parse_ir
from openinfer.compiler.registry import make_context
from openinfer.lowering.fusing import may_join

PLAIN = '"test.op"() {name = "first"} : () -> ()'
SECOND = '"test.op"() {name = "second"} : () -> ()'
LOOP = "scf.for %i = %n to %n step %n {{ {0} }}"


def joins(*lines: str) -> bool:
    body = "\n".join(lines)
    text = f"func.func @f(%n: index, %c: i1) {{\n{body}\nfunc.return\n}}\n"
    module = parse_ir(text, "t.mlir", make_context()).module
    found: dict[str, Operation] = {}
    for op in module.walk():
        name = op.attributes.get("name")
        if name is not None:
            found[str(name).strip('"')] = op
    return may_join(found["first"], found["second"])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([PLAIN, SECOND], True),
        ([PLAIN, "nn.barrier", SECOND], False),
        (["nn.barrier", PLAIN, SECOND, "nn.barrier"], True),
        ([PLAIN, LOOP.format("scf.yield"), SECOND], True),
        ([PLAIN, LOOP.format("nn.barrier scf.yield"), SECOND], False),
        ([PLAIN, LOOP.format(f"{SECOND} scf.yield")], True),
        ([PLAIN, "nn.barrier", LOOP.format(f"{SECOND} scf.yield")], False),
        # In the next round the barrier stands between the two.
        ([PLAIN, LOOP.format(f"{SECOND} nn.barrier scf.yield")], False),
        # The second is not below the first.
        ([SECOND, PLAIN], False),
        ([LOOP.format(f"{PLAIN} scf.yield"), SECOND], False),
    ],
)
def test_barriers(lines: list[str], expected: bool) -> None:
    assert joins(*lines) is expected


@pytest.mark.parametrize("which", [PLAIN, SECOND])
def test_hints(which: str) -> None:
    hinted = which.replace("{name", "{openinfer.no_fuse, name")
    assert not joins(*(hinted if line is which else line for line in (PLAIN, SECOND)))
