"""The pipeline driver, legality, the location-keeping pattern driver, dominance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from openinfer.compiler import passes, pipeline, registry
from openinfer.compiler.ir_text import parse_ir
from openinfer.compiler.pipeline import Phase, Step, run
from openinfer.compiler.text import module_text
from openinfer.compiler.timings import Timings
from openinfer.lowering.legality import check_legality, illegal_ops
from openinfer.lowering.level import Level
from openinfer.lowering.locations import has_location, location_of
from openinfer.lowering.options import PipelineOptions, current, using
from openinfer.lowering.rewriting import rewrite
from openinfer.runtime.errors import CompileError, InputError, UnsupportedError

SUM = """\
func.func @f(%a: i32) -> i32 {
  %b = arith.addi %a, %a : i32 loc("p.oi":3:5)
  func.return %b : i32
}
"""


@pytest.fixture
def context() -> Context:
    return registry.make_context()


def parsed(text: str, context: Context) -> ModuleOp:
    return parse_ir(text, "t.mlir", context).module


class SumIsProduct(RewritePattern):
    """`x + x = x * 2`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
        if op.lhs is not op.rhs:
            return
        two = arith.ConstantOp(IntegerAttr(2, i32))
        rewriter.replace(op, [two, arith.MuliOp(op.lhs, two.result)])


class Broken(RewritePattern):
    """A pattern with a bug."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
        raise KeyError("tile")


class Refusing(RewritePattern):
    """A pattern that meets a program that it cannot lower."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter) -> None:
        raise UnsupportedError("OI0701", "not in this build")


@dataclass(frozen=True)
class Apply(ModulePass):
    """Applies the pattern of its class."""

    name: ClassVar[str] = "apply"
    pattern: ClassVar[type[RewritePattern]] = SumIsProduct

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, self.pattern())


class ApplyBroken(Apply):
    """Fails."""

    pattern = Broken


class ApplyRefusing(Apply):
    """Refuses."""

    pattern = Refusing


class Asking(Apply):
    """Fails unless the options of the run reach it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert current().sizes == {"B": 4}


class LeavingForwardUse(Apply):
    """Leaves a use above its definition."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for item in list(op.walk()):
            if isinstance(item, arith.AddiOp):
                late = arith.ConstantOp(IntegerAttr(2, i32))
                block = item.parent
                assert block is not None
                block.insert_op_after(late, item)
                item.operands[0] = late.result


Use = Callable[[type[ModulePass]], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Makes pipeline `t` of one phase that runs a pass of this file."""

    def prepare(cls: type[ModulePass]) -> None:
        monkeypatch.setattr(pipeline, "build_passes", lambda _: (cls(),))
        monkeypatch.setitem(pipeline.PIPELINES, "t", (Phase("one", (Step("apply", "why"),)),))

    return prepare


def test_new_ops_get_the_location(context: Context) -> None:
    module = parsed(SUM, context)
    assert rewrite(module, SumIsProduct())
    made = [op for op in module.walk() if isinstance(op, arith.ConstantOp | arith.MuliOp)]
    assert len(made) == 2
    assert {str(location_of(op)) for op in made} == {"p.oi:3:5"}
    assert not rewrite(module, SumIsProduct())


def test_no_location_is_invented(context: Context) -> None:
    module = parsed(SUM.replace(' loc("p.oi":3:5)', ""), context)
    rewrite(module, [SumIsProduct()])
    assert not any(has_location(op) for op in module.walk())


def test_pass_failure_names_pass_op_and_place(context: Context, use: Use) -> None:
    use(ApplyBroken)
    with pytest.raises(CompileError) as caught:
        run(parsed(SUM, context), context, "t")
    error = caught.value
    assert error.code == "OI0962"
    for part in ("pass 'apply'", "p.oi:3:5", "arith.addi (i32, i32) -> (i32)", "KeyError: 'tile'"):
        assert part in error.message
    assert error.message.count("pass 'apply'") == 1


def test_refusal_passes_unchanged(context: Context, use: Use) -> None:
    use(ApplyRefusing)
    with pytest.raises(UnsupportedError, match="not in this build"):
        run(parsed(SUM, context), context, "t")


def test_broken_dominance_is_found_at_the_phase(context: Context, use: Use) -> None:
    use(LeavingForwardUse)
    with pytest.raises(CompileError) as caught:
        run(parsed(SUM, context), context, "t")
    assert caught.value.code == "OI0963"
    assert "after phase 'one'" in caught.value.message
    assert "p.oi:3:5" in caught.value.message


def test_options_reach_the_passes(context: Context, use: Use) -> None:
    use(Asking)
    run(parsed(SUM, context), context, "t", options=PipelineOptions(sizes={"B": 4}))
    assert current().sizes == {}
    with using(PipelineOptions(sizes={"B": 4})):
        run(parsed(SUM, context), context, "t")


def test_callbacks(context: Context, use: Use) -> None:
    use(Apply)
    seen: list[str] = []
    run(
        parsed(SUM, context),
        context,
        "t",
        on_phase=lambda phase, module: seen.append(f"{phase}: {len(module_text(module)) > 0}"),
        on_pass=lambda phase, item, module, seconds: seen.append(f"{item.name} {seconds >= 0}"),
    )
    assert seen == ["apply True", "one: True"]


def test_phase_selection() -> None:
    names = [phase.name for phase in pipeline.phases("cpu", start="graph", stop="linalg")]
    assert names == ["nn", "linalg"]
    assert pipeline.phases("cpu", start="llvm") == ()
    for arguments in (("gpu",), ("cpu", "nope"), ("cpu", "kernels", "nn"), ("cpu", "loops")):
        with pytest.raises(InputError) as caught:
            pipeline.phases(*arguments)
        assert caught.value.hint


def test_legality(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    module = parsed(SUM, context)
    level = Level(frozenset({"builtin", "func"}), ops=frozenset({"arith.addi"}))
    assert illegal_ops(module, level) == []
    narrow = Level(frozenset({"builtin", "func", "arith"}), forbidden=frozenset({"arith.addi"}))
    assert [op.name for op, _ in illegal_ops(module, narrow)] == ["arith.addi"]
    monkeypatch.setitem(pipeline.PIPELINES, "t", ())
    with pytest.raises(CompileError, match=r"p\.oi:3:5: 'arith.addi' may not remain") as caught:
        check_legality(module, "graph", narrow)
    assert caught.value.code == "OI0964"
    check_legality(module, "a phase that may leave anything", None)


def test_tensors_end_with_their_level(context: Context) -> None:
    module = parsed(
        "func.func @f() {\n  %t = tensor.empty() : tensor<4xf32>\n  func.return\n}\n", context
    )
    dialects = frozenset({"builtin", "func", "tensor"})
    assert illegal_ops(module, Level(dialects)) == []
    reasons = [reason for _, reason in illegal_ops(module, Level(dialects, tensors=False))]
    assert reasons == ["'tensor.empty' still gives a tensor"]


def test_timings() -> None:
    timings = Timings()
    timings.add("nn", "cse", 0.001)
    timings.add("nn", "dce", 0.003)
    table = timings.table()
    assert "75.0%" in table
    assert "4.00" in table
    assert Timings().table()


def test_blame_finds_the_verifying_op(context: Context) -> None:
    module = parsed(SUM, context)
    for op in module.walk():
        if op.name == "func.return":
            op.operands = []
    with pytest.raises(CompileError, match=r"func\.return") as caught:
        passes.check_module(module)
    assert caught.value.code == "OI0963"
