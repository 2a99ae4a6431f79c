"""The plan of whole programs, judged by the independent check; lifetimes that loops stretch."""

from __future__ import annotations

import pytest

import openinfer as oi
from openinfer.lowering.buffers.arena import Buffer, Plan, overlaps
from openinfer.runtime.plan import lower_bound
from openinfer.runtime.program import Program
from openinfer.runtime.sizes import Size

PROGRAMS = {
    "chain": """\
dynamic { x: f32[N, 64]; }
volatile { y: f32[N, 64]; }
block entry {
  op softmax(x) >> y;
  op layer_norm(y) >> y;
  op softmax(y, axis=0) >> y;
  op rms_norm(y) >> y;
  return;
}
""",
    "layers": """\
dynamic { x: f32[N, 64]; w: f32[64, 256]; v: f32[256, 64]; }
volatile { y: f32[N, 64]; }
block entry {
  assign h: f32[N, 256];
  assign s: f32[N, N];
  transfer x >> y;
  loop layers (l in 0..4) {
    op matmul(y, y, transpose_b=true) >> s;
    op softmax(s) >> s;
    op matmul(s, y) >> y;
    op layer_norm(y) >> y;
    op matmul(y, w) >> h;
    op gelu(h) >> h;
    op matmul(h, v) >> y;
  }
  return;
}
""",
    "branches": """\
dynamic { x: f32[N, 64]; c: bool; }
volatile { y: f32[N, 64]; z: f32[N]; }
block entry {
  branch c one two;
  op max_axis(y, axes=[1]) >> z;
  return;
}
block one { op softmax(x) >> y; op softmax(y, axis=0) >> y; return; }
block two { op layer_norm(x) >> y; return; }
""",
}
SIZES = [{"N": n} for n in (0, 1, 2, 15, 16, 17, 128, 1000)]


def plan_of(program: Program) -> Plan:
    rows = program.manifest.plan
    return Plan(
        tuple(Buffer(r.name, Size.of(r.size), r.first, r.last) for r in rows),
        tuple(Size.of(r.offset) for r in rows),
        Size.of(program.manifest.arena),
    )


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("observe", [False, True])
def test_nothing_overlaps_at_any_size(name: str, observe: bool) -> None:
    from openinfer.compiler.api import compile as compile_program

    program = compile_program(PROGRAMS[name], observe=observe)
    plan = plan_of(program)
    for sizes in SIZES:
        known = {**dict.fromkeys(plan.size.names, 1), **sizes}
        assert overlaps(plan, known) == []
        total = plan.size.evaluate(known)
        assert lower_bound(program.manifest, known) <= total


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_arena_is_near_its_bound(name: str) -> None:
    program = oi.compile(PROGRAMS[name])
    known = {**dict.fromkeys(Size.of(program.manifest.arena).names, 1), "N": 128}
    bound = lower_bound(program.manifest, known)
    assert Size.of(program.manifest.arena).evaluate(known) <= 1.1 * bound


def test_results_lie_inside_the_arena_and_apart() -> None:
    program = oi.compile(PROGRAMS["branches"])
    manifest = program.manifest
    known = {**dict.fromkeys(Size.of(manifest.arena).names, 1), "N": 100}
    y, z = (Size.of(manifest.offsets[name]).evaluate(known) for name in ("y", "z"))
    assert y + 100 * 64 * 4 <= Size.of(manifest.arena).evaluate(known)
    assert z + 100 * 4 <= y or y + 100 * 64 * 4 <= z
