"""The schedule of a convolution: register tiles, with what follows it done on the sums.

Before:
    nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = …, layout = #nn.panels<4>, …} :
        (memref<1x32x32x32xf32>, memref<1x8x288x8xf32>, memref<1x64x32x32xf32>, …) -> ()

After:
    scf.for %h = 0 to 34 { … lines of %x between zeros, to %planes … }
    scf.for %h = 0 to 32 { scf.for %t = 0 to 8 {
      %sums:16 = scf.for %c = 0 to 32 iter_args(…) {
        %a = vector.load %planes[%place] : memref<37120xf32>, vector<16xf32>
        %b = memref.load %w[0, %t, %c * 9, 0] : memref<1x8x288x8xf32>
        %s = vector.fma (splat of %b), %a, %sum : vector<16xf32> … }
      vector.store %sums#0, %y[0, %t * 8, %h, 0] : memref<1x64x32x32xf32>, vector<16xf32> … }}

Requires: bufferised; contiguous operands; packed weights made by `nn.pack` for the target.
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, Float64Type, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.nn import ConvOp, PanelsAttr, WinogradAttr, dims_of, element_of
from openinfer.lowering.cpu.machine import Machine, machine_of
from openinfer.lowering.cpu.schedules.conv_planes import PlaneCopy
from openinfer.lowering.cpu.schedules.conv_shape import (
    MOST_ROWS,
    ConvShape,
    Planes,
    Tile,
    choose_tile,
    may_be_line,
)
from openinfer.lowering.cpu.schedules.conv_tile import TileSums, Weights
from openinfer.lowering.cpu.schedules.convolution import Convolution
from openinfer.lowering.cpu.schedules.depthwise import Depthwise, is_depthwise
from openinfer.lowering.cpu.schedules.microkernel import Arithmetic
from openinfer.lowering.cpu.schedules.pixel_rows import PixelRows, panel_width
from openinfer.lowering.cpu.schedules.window_rows import WindowRows, planes_of, window_width
from openinfer.lowering.cpu.schedules.winograd import WinogradConvolution
from openinfer.lowering.cpu.schedules.winograd_shape import Winograd, winograd_rows
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Extra, extras_of
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import collapse
from openinfer.lowering.kernels.scratch import scratch_of
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class Schedule:
    """How one op is computed."""

    kind: Attribute
    """What sums are kept in."""
    lanes: int
    shape: ConvShape
    tile: Tile
    planes: Planes


def sums_of(op: ConvOp) -> Attribute:
    """The type that sums are kept in."""
    elements = [element_of(value) for value in op.inputs[:2]]
    return f64 if any(isinstance(e, Float64Type) for e in elements) else f32


def schedule_of(op: ConvOp, machine: Machine | None = None) -> Schedule:
    """The schedule of an op, on tensors or on buffers, for the target of its module."""
    machine = machine or machine_of(op)
    kind = sums_of(op)
    lanes = machine.lanes(kind)
    shape = ConvShape.of(op)
    rows = op.layout.columns if op.layout is not None else None
    tile = choose_tile(shape, machine, lanes, rows)
    planes = Planes(shape, tile.flat, lanes, _lies_ready(op, shape, kind, machine))
    return Schedule(kind, lanes, shape, tile, planes)


def _lies_ready(op: ConvOp, shape: ConvShape, kind: Attribute, machine: Machine) -> bool:
    """Whether the windows may be read where x lies, with masks at its end."""
    same = element_of(op.inputs[0]) == kind
    return shape.is_line and same and machine.has_masks and shape.fits_ways


def conv_layout(op: ConvOp) -> PanelsAttr | WinogradAttr:
    """How the kernels lie that a schedule reads. `op` is on tensors."""
    machine = machine_of(op)
    kind = sums_of(op)
    lanes, shape = machine.lanes(kind), ConvShape.of(op)
    if (rows := winograd_rows(op, machine, lanes)) is not None:
        return WinogradAttr(rows)
    if _lies_ready(op, shape, kind, machine):
        if (width := panel_width(shape, machine, lanes)) is not None:
            return PanelsAttr(width)
    if (width := _window_width(op, machine)) is not None:
        return PanelsAttr(width)
    return PanelsAttr(schedule_of(op).tile.rows)


def _has_pixel_rows(op: ConvOp) -> bool:
    """Whether the kernels of an op are laid out as vectors of output channels."""
    if not isinstance(op.layout, PanelsAttr) or op.layout.columns <= MOST_ROWS:
        return False
    machine, shape = machine_of(op), ConvShape.of(op)
    same = op.layout.columns == panel_width(shape, machine, machine.lanes(sums_of(op)))
    return same and _lies_ready(op, shape, sums_of(op), machine)


def _window_width(op: ConvOp, machine: Machine) -> int | None:
    """Output channels of a panel where windows are the rows of tiles and output channels the lanes."""
    kind = sums_of(op)
    if kind != f32 or not may_be_line(op):
        return None
    return window_width(ConvShape.of(op), machine, machine.lanes(kind))


def _has_window_rows(op: ConvOp) -> bool:
    """Whether the kernels of an op are laid out for windows as rows of tiles."""
    if not isinstance(op.layout, PanelsAttr) or op.layout.columns <= MOST_ROWS:
        return False
    return op.layout.columns == _window_width(op, machine_of(op))


def _is_depthwise(op: ConvOp) -> bool:
    """Whether each channel is convolved by itself, from where x lies."""
    same = element_of(op.inputs[0]) == sums_of(op)
    return same and is_depthwise(ConvShape.of(op), machine_of(op))


def _winograd_of(op: ConvOp) -> Winograd | None:
    """The sizes of an op whose kernels are laid out for Winograd's algorithm."""
    if not isinstance(op.layout, WinogradAttr):
        return None
    return Winograd(ConvShape.of(op), machine_of(op).lanes(f32), op.layout.columns)


def conv_scratch(op: ConvOp) -> list[Scratch]:
    """The room for x with its padding, or for the sums of its pixels; none where x is read as it lies.

    `op` is on tensors.
    """
    if (winograd := _winograd_of(op)) is not None:
        return [Scratch("planes", f32, (Size.of(winograd.elements),))]
    if _has_pixel_rows(op) or _is_depthwise(op):
        return []
    if _has_window_rows(op):
        planes = planes_of(ConvShape.of(op), machine_of(op).lanes(f32))
        return [Scratch("planes", f32, (dims_of(op.inputs[0])[0] * planes.image,))]
    schedule = schedule_of(op)
    if schedule.planes.in_place:
        return []
    images = dims_of(op.inputs[0])[0] * schedule.planes.image
    return [Scratch("planes", schedule.kind, (images + schedule.planes.slack,))]


def _convolution(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, ConvOp)
    if (winograd := _winograd_of(op)) is not None:
        _by_tiles(b, op, winograd)
        return True
    if _has_pixel_rows(op):
        _by_pixels(b, op)
        return True
    if _has_window_rows(op):
        _by_windows(b, op)
        return True
    if _is_depthwise(op):
        _by_channels(b, op)
        return True
    machine = machine_of(op)
    schedule = schedule_of(op, machine)
    shape, planes = schedule.shape, schedule.planes
    x, output = op.inputs[0], op.outs[0]
    extras = extras_of(op)
    if shape.is_line:
        x, output = _as_line(b, x), _as_line(b, output)
        extras = [_extra_as_line(b, extra) for extra in extras]
    if planes.in_place:
        buffer = collapse(b, x, [[0, 1, 2]])
    else:
        (buffer,) = scratch_of(op, "planes")
        PlaneCopy(b, x, buffer, planes).emit()
    assert isinstance(schedule.kind, AnyFloat)
    how = Arithmetic(schedule.kind, schedule.lanes, machine.fused)
    body = op.body[0].block if op.body else None
    epilogue = Epilogue(b, output, extras, body)
    epilogue.prepare(schedule.lanes)
    if shape.pool > 1 and schedule.lanes > 1:
        epilogue.prepare(schedule.lanes // 2)
    weights = Weights(op.inputs[1], op.layout is not None)
    sums = TileSums(b, how, shape, planes, schedule.tile, buffer, weights)
    Convolution(sums, epilogue, b.dim(output, 0)).emit()
    return True


def _by_tiles(b: LoopBuilder, op: ConvOp, sizes: Winograd) -> None:
    (pixels,) = scratch_of(op, "planes")
    epilogue = Epilogue(b, op.outs[0], extras_of(op), op.body[0].block if op.body else None)
    epilogue.prepare(sizes.lanes)
    how = Arithmetic(f32, sizes.lanes, machine_of(op).fused)
    operands = (op.inputs[0], op.inputs[1])
    WinogradConvolution(how, sizes, operands, pixels, epilogue).emit()


def _by_pixels(b: LoopBuilder, op: ConvOp) -> None:
    machine, kind, shape = machine_of(op), sums_of(op), ConvShape.of(op)
    assert isinstance(kind, AnyFloat)
    assert op.layout is not None
    extras = [_extra_as_line(b, extra) for extra in extras_of(op)]
    body = op.body[0].block if op.body else None
    epilogue = Epilogue(b, _as_line(b, op.outs[0]), extras, body)
    how = Arithmetic(kind, machine.lanes(kind), machine.fused)
    epilogue.prepare(how.lanes)
    x, weights = _as_line(b, op.inputs[0]), op.inputs[1]
    PixelRows(how, shape, machine, op.layout.columns, x, weights, epilogue).emit()


def _by_windows(b: LoopBuilder, op: ConvOp) -> None:
    machine, shape = machine_of(op), ConvShape.of(op)
    assert isinstance(op.layout, PanelsAttr)
    (copies,) = scratch_of(op, "planes")
    extras = [_extra_as_line(b, extra) for extra in extras_of(op)]
    body = op.body[0].block if op.body else None
    epilogue = Epilogue(b, _as_line(b, op.outs[0]), extras, body)
    how = Arithmetic(f32, machine.lanes(f32), machine.fused)
    epilogue.prepare(how.lanes)
    x, weights = op.inputs[0], op.inputs[1]
    WindowRows(how, shape, machine, op.layout.columns, x, weights, epilogue, copies).emit()


def _by_channels(b: LoopBuilder, op: ConvOp) -> None:
    machine, kind, shape = machine_of(op), sums_of(op), ConvShape.of(op)
    assert isinstance(kind, AnyFloat)
    x, output, extras = op.inputs[0], op.outs[0], extras_of(op)
    body = op.body[0].block if op.body else None
    epilogue = Epilogue(b, output, extras, body)
    lanes = machine.lanes(kind)
    if 2 * shape.count[1] <= lanes:
        lanes //= 2
    how = Arithmetic(kind, lanes, machine.fused)
    epilogue.prepare(lanes)
    weights = Weights(op.inputs[1], op.layout is not None)
    Depthwise(how, shape, machine, x, weights, epilogue).emit()


def _as_line(b: LoopBuilder, buffer: SSAValue) -> SSAValue:
    return collapse(b, buffer, [[0], [1], [2, 3]])


def _extra_as_line(b: LoopBuilder, extra: Extra) -> Extra:
    dims = {0: 0, 1: 1, 2: 2, 3: 2}
    if extra.is_identity(4):
        return extra.renumbered(dims, _as_line(b, extra.buffer))
    return extra.renumbered(dims, extra.buffer)


RULES: dict[str, Rule] = {ConvOp.name: _convolution}
