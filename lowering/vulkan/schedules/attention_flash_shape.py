"""What a workgroup computes of an attention in registers at once (`attention_flash.py`), if it can."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, f16, f32, i8

from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.vulkan.schedules.forms import rows_of
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES, SIDE, SUBGROUP
from openinfer.lowering.vulkan.schedules.wide import common_lanes

BUSY = 100
"""Workgroups that keep a device busy."""
MOST_SIZE = 128
"""Of a head: registers hold no more."""
KEYS, ALL_KEYS = 64, 128
"""Keys of a round; those that are one round alone."""
SUBGROUPS = (8, 4)
"""Of a workgroup, where there is one round; else the last one. (On an NVIDIA H100, hand-written: causal
attention of 512 tokens, 32/8 heads of 64, takes 12.5 us with 2, 11.7 with 4, 13.5 with 8; that of 64 x 12
heads x 128 x 32 takes 19.4 with 4, 15.3 with 8.)"""


@dataclass(frozen=True)
class FlashShape:
    """What a workgroup computes at once."""

    subgroups: int
    keys: int
    """Of a round."""
    size: int
    """Of a head."""

    @property
    def threads(self) -> int:
        return self.subgroups * SUBGROUP

    @property
    def queries(self) -> int:
        return self.subgroups * SIDE

    @property
    def line(self) -> int:
        """Accesses of a row of shared memory: one more than there are, so that rows meet in no bank."""
        return self.size // LANES + 1

    def fits(self, shared_memory: int) -> bool:
        """Whether shared memory suffices, and each invocation has as many accesses."""
        nbytes = 2 * self.keys * self.line * 2 * LANES + 4 * self.keys
        return nbytes <= shared_memory and self.keys * self.size // LANES % self.threads == 0


def flash_shape_of(b: LoopBuilder, op: AttentionOp) -> FlashShape | None:
    """What the workgroups of an attention compute, if the device and its shapes are made for this."""
    device = b.facts.device_description
    if not device.workgroup_matrices or device.subgroup != SUBGROUP or b.facts.strict_math:
        return None
    if op.window is not None or op.reach is not None or op.scale.value.data <= 0:
        return None
    if op.softcap is not None or op.cap is not None:
        return None
    layouts = [layout.data for layout in op.layouts]
    shapes: list[dict[str, int]] = []
    for value, layout in zip((*op.inputs[:3], op.outs[0]), layouts, strict=True):
        assert isinstance(value.type, MemRefType)
        shape = dict(zip(layout, value.type.get_shape(), strict=True))
        if value.type.element_type != f16 or DYNAMIC_INDEX in (shape["h"], shape["d"]):
            return None
        shapes.append(shape)
    size, keys = shapes[1]["d"], shapes[1]["l"]
    queries = rows_of(op, shapes[0]["l"])
    assert isinstance(queries, int)
    if size != shapes[2]["d"] or common_lanes(op, [*op.inputs[:3], op.outs[0]]) != LANES:
        return None
    if size % SIDE or size > MOST_SIZE or not _masks(op, queries, keys):
        return None
    if DYNAMIC_INDEX != keys <= ALL_KEYS:
        together = KEYS if keys <= KEYS else ALL_KEYS
        found = [FlashShape(subgroups, together, size) for subgroups in SUBGROUPS]
    else:
        found = [FlashShape(SUBGROUPS[-1], count, size) for count in (KEYS, KEYS // 2)]
    heads, batches = shapes[0]["h"], shapes[0]["b"]
    for shape in found:
        # Of a number that only the step knows there are many.
        busy = DYNAMIC_INDEX in (queries, batches)
        busy = busy or heads * batches * -(-queries // shape.queries) >= BUSY
        if busy and shape.fits(device.shared_memory):
            return shape
    return None


def _masks(op: AttentionOp, queries: int, keys: int) -> bool:
    """Whether there is no mask, or, of known queries and keys, one of bools, or one of numbers that is a row
    or a matrix of all keys."""
    if op.mask is None:
        return True
    if DYNAMIC_INDEX in (queries, keys):
        return False
    assert isinstance(op.mask.type, MemRefType)
    shape = (1, *op.mask.type.get_shape())
    if op.mask.type.element_type == i8:
        return DYNAMIC_INDEX not in shape
    is_number = op.mask.type.element_type in (f16, f32) and DYNAMIC_INDEX not in shape
    return is_number and shape[-1] == keys and shape[-2] in (1, queries)
