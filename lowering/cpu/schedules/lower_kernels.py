"""The pass `lower-kernels`: each op on buffers becomes the loops of its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.lowering.cpu.schedules import (
    attention_schedule,
    block_values,
    conv_schedule,
    element_indices,
    experts,
    fourier_schedule,
    generic,
    indexing,
    matmul_schedule,
    movement,
    norms,
    quantized_rows,
    recurrence,
    reduce,
    softmax,
    weight_panels,
    window_schedules,
)
from openinfer.lowering.kernels.rules import Rule, lower_by_rules

GROUPS: dict[str, dict[str, Rule]] = {
    "attention": attention_schedule.RULES,
    "blocks": block_values.RULES,
    "convolution": conv_schedule.RULES,
    "element_indices": element_indices.RULES,
    "experts": experts.RULES,
    "fourier": fourier_schedule.RULES,
    "generic": generic.RULES,
    "indexing": indexing.RULES,
    "matmul": matmul_schedule.RULES,
    "movement": movement.RULES,
    "norms": norms.RULES,
    "pack": weight_panels.RULES,
    "quantize": quantized_rows.RULES,
    "recurrence": recurrence.RULES,
    "reduce": reduce.RULES,
    "softmax": softmax.RULES,
    "windows": window_schedules.RULES,
}
"""The rules of each group, by the name of the op. A new kernel is a line of its module's `RULES`."""

RULES: dict[str, Rule] = {name: rule for group in GROUPS.values() for name, rule in group.items()}
"""The schedule of every op that has a kernel."""


def named(kernels: str) -> set[str]:
    """The ops with a rule that a group (`movement`) or a kind (`gather`) names; none for others."""
    if kernels in GROUPS:
        return set(GROUPS[kernels])
    return {name for name in RULES if name.partition(".")[2] == kernels}


@dataclass(frozen=True)
class LowerKernels(ModulePass):
    """
    Turn each op on buffers into loops over vectors, by the rule for its name.

    Before:
        nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> ()

    After:
        scf.for %i = %c0 to %rows step %c1 {
          %m = vector.reduction <maxnumf>, %maxima : vector<16xf32> into f32
          scf.for %k = … { %e = math.exp %shifted : vector<16xf32>; vector.store %e, %y[%i, %k] }
          scf.for %k = … { vector.store %scaled, %y[%i, %k] : memref<?x64xf32>, vector<16xf32> }
        } {openinfer.parallel}

    The module of each group of rules shows its own ops before and after.

    Requires: bufferised; contiguous operands; the scratch buffers that the rules ask for.
    Leaves: ops on tensors; functions of vectors (`math.exp` and others), `nn.size` and `nn.thread`.
    """

    name: ClassVar[str] = "lower-kernels"

    only: tuple[str, ...] = ()
    """Groups (`movement`) or kinds of ops (`gather`) that are lowered; none means all."""
    rows: int = 0
    """Rows of a product's register tile; 0 takes as many as the target's registers hold."""

    def __post_init__(self) -> None:
        for kernels in self.only:
            if not named(kernels):
                groups = ", ".join(GROUPS)
                raise ValueError(f"no kernels are called '{kernels}': groups are {groups}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rules = RULES
        if self.rows:
            rules = {**rules, **matmul_schedule.rules(self.rows)}
        if self.only:
            chosen = set[str]().union(*map(named, self.only))
            rules = {name: rules[name] for name in chosen}
        lower_by_rules(op, rules)
