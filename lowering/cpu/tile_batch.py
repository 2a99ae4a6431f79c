"""Chains of kernels go through a batch image by image, where values of the whole batch leave the caches."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import byte_size, is_packed
from openinfer.lowering.buffers.uses import VIEWS, root_of, users
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.builder import TILED
from openinfer.lowering.linalg.generic import PARALLEL
from openinfer.lowering.locations import give_location
from openinfer.runtime.sizes import Size

LEAST_SHARE = 64
"""The part of the last cache that one image's share of a value fills at least. With MobileNet-V2 parts from
1/32 to 1/512 took about equal time, 1/16 more (`docs/performance-log.md`)."""
MOST_SHARE = 2
"""The part that it fills at most: a larger one is not there any more when the next kernel reads it."""
SHARED_SHARE = 2
"""The part of an image's largest value that the weights of its kernel are at most, which are read again for
each image."""
LINE = 64
"""Bytes of a line of memory, where every image begins at one."""

_BETWEEN = (*VIEWS, memref.AllocOp, nn.SizeOp)
"""Ops that touch no element, which kernels may be moved behind."""


@dataclass(frozen=True)
class TileBatch(ModulePass):
    """Cuts the batch of a chain of kernels into single images: a loop over images around all of them.

    Before:
        %t = memref.alloc(%B) : memref<?x96x112x112xf32>
        nn.conv(%x, %w) outs(%t) … : (memref<?x16x112x112xf32>, …, memref<?x96x112x112xf32>) -> ()
        nn.conv(%t, %v) outs(%y) … : (memref<?x96x112x112xf32>, …, memref<?x24x56x56xf32>) -> ()
    After:
        scf.for %n = 0 to %B { %x_n = nn.subview %x[%n] …; %y_n = nn.subview %y[%n] …
          %t = memref.alloc() : memref<1x96x112x112xf32>
          nn.conv(%x_n, %w) outs(%t) … ; nn.conv(%t, %v) outs(%y_n) … }

    One image's part of a value that a kernel of the chain hands to another must fill 1/64 of the
    target's last cache, and half of it at most. Chains are convolutions, transposed ones too, pooling,
    products with weights, layer norms, joins along any axis but the batch's, and loops over elements, each of
    which computes an image from an image.

    Requires: buffers, copies elided, constants prepared; buffers not reused.
    Leaves: watched builds, whose values are shown whole; kernels whose weights are more than half of what
        they work on for one image; values that are also used outside of the chain keep all images.
    """

    name: ClassVar[str] = "tile-batch"

    least: int = 0
    """Bytes that one image's part of a value has at least; 0 takes those of the target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        facts = Facts.of(op)
        if facts.observed:
            return
        least = self.least or facts.target.last_cache // LEAST_SHARE
        sizes = range(least, max(facts.target.last_cache // MOST_SHARE, least) + 1)
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                blocks = [b for o in function.walk() for r in o.regions for b in r.blocks]
                for block in blocks:
                    for chain in list(_chains(block)):
                        for part in _gaining(chain, sizes):
                            _tile(part, chain.batch)


@dataclass(frozen=True)
class _Kernel:
    """A kernel that computes each image from that image."""

    op: Operation
    batch: Size
    images: tuple[SSAValue, ...]
    """Its operands that have a part for each image."""
    shared: tuple[SSAValue, ...]
    """Those that all images read."""
    outs: tuple[SSAValue, ...]
    """Those of `images` that it writes."""

    @property
    def image_bytes(self) -> int:
        """Bytes of one image's part of its largest operand."""
        return max(_image_bytes(value) for value in self.images)


@dataclass
class _Chain:
    """Kernels of one block and one batch, which follow each other or may be moved to do so."""

    batch: Size
    kernels: list[_Kernel] = field(default_factory=list[_Kernel])
    read: set[SSAValue] = field(default_factory=set[SSAValue])
    """The buffers that they read, as whole buffers; all images' ones are among them."""
    written: set[SSAValue] = field(default_factory=set[SSAValue])
    shared: set[SSAValue] = field(default_factory=set[SSAValue])
    """Those that all images read."""

    def takes(self, kernel: _Kernel) -> bool:
        """Whether image n of a kernel needs, of what the others write, image n alone."""
        outs, shared = _roots(kernel.outs), _roots(kernel.shared)
        return (
            kernel.batch == self.batch
            and shared.isdisjoint(self.written)
            and outs.isdisjoint(self.shared)
        )

    def add(self, kernel: _Kernel) -> None:
        self.kernels.append(kernel)
        self.read |= _roots(kernel.images) | _roots(kernel.shared)
        self.shared |= _roots(kernel.shared)
        self.written |= _roots(kernel.outs)

    def stands_behind(self, op: Operation) -> bool:
        """Whether all of the kernels may be moved behind an op that follows them."""
        if isinstance(op, _BETWEEN) or op.name.startswith("arith."):
            return True
        if isinstance(op, nn.StampOp):
            return op.phase.data in ("node", "pass")
        found = _accesses(op)
        if found is None:
            return False
        read, written = (_roots(values) for values in found)
        if not all(isinstance(value.owner, memref.AllocOp) for value in written):
            return False
        return read.isdisjoint(self.written) and written.isdisjoint(self.written | self.read)


def _roots(values: Sequence[SSAValue]) -> set[SSAValue]:
    return {root_of(value) for value in values if isinstance(value.type, MemRefType)}


def _accesses(op: Operation) -> tuple[Sequence[SSAValue], Sequence[SSAValue]] | None:
    """What a kernel reads and writes; None for other ops."""
    if isinstance(op, nn.NNOp) and op.on_buffers:
        return op.read, op.written
    if isinstance(op, linalg.GenericOp | linalg.FillOp) and not op.results:
        return op.operands, op.outputs
    return None


def _chains(block: Block) -> Iterator[_Chain]:
    """The chains of a block, as long as they can be."""
    chain: _Chain | None = None
    for op in block.ops:
        kernel = _kernel_of(op)
        if chain is not None and kernel is not None and chain.takes(kernel):
            chain.add(kernel)
            continue
        if chain is not None and chain.stands_behind(op):
            continue
        if chain is not None:
            yield chain
        chain = None
        if kernel is not None:
            chain = _Chain(kernel.batch)
            chain.add(kernel)
    if chain is not None:
        yield chain


# What is a kernel of a chain


def _kernel_of(op: Operation) -> _Kernel | None:
    """The kernel that an op is, if it computes each image by itself, and has few weights."""
    found = _operands_of(op)
    if found is None:
        return None
    images, shared, outs = found
    batches = {_batch_of(value) for value in outs}
    if len(batches) != 1 or not all(map(_has_images, images)):
        return None
    (batch,) = batches
    if batch is None or batch.constant == 1 or not set(images).isdisjoint(shared):
        return None
    if not _roots(shared).isdisjoint(_roots(outs)):
        return None
    kernel = _Kernel(op, batch, tuple(images), tuple(shared), tuple(outs))
    sizes = [_known_bytes(value) for value in shared if isinstance(value.type, MemRefType)]
    known = [size for size in sizes if size is not None]
    few = len(known) == len(sizes) and sum(known) * SHARED_SHARE <= kernel.image_bytes
    return kernel if few else None


_Operands = tuple[list[SSAValue], list[SSAValue], list[SSAValue]]
"""Operands with a part for each image, those that all images read, those of the first that are written."""


def _operands_of(op: Operation) -> _Operands | None:
    """The operands of an op whose first dimension is that of images; None for an op that may mix images."""
    match op:
        case linalg.FillOp() if not op.results:
            return list(op.outputs), list(op.inputs), list(op.outputs)
        case linalg.GenericOp() if not op.results:
            first = op.iterator_types.data[:1]
            if first != (PARALLEL,) or _asks_for_image(op):
                return None
            values, maps = [*op.inputs, *op.outputs], [m.data for m in op.indexing_maps]
            return _by_maps(values, maps, list(op.outputs))
        case nn.ConvOp() if op.on_buffers:
            return _with_extras(op, [op.inputs[0]], [op.inputs[1]])
        case nn.MatmulOp() if op.on_buffers and op.layout is not None and op.transpose_a is None:
            ranks = [len(_shape(value)) for value in (op.inputs[0], op.inputs[1], op.outs[0])]
            if ranks[0] < 3 or ranks != [ranks[0], 3, ranks[0]]:
                return None
            return _with_extras(op, [op.inputs[0]], [op.inputs[1]])
        case nn.MatmulOp() if op.on_buffers and op.layout is None:
            # Weights on the left, as of a transposed convolution, times the pixels of each image.
            ranks = [len(_shape(value)) for value in (op.inputs[0], op.inputs[1], op.outs[0])]
            if ranks != [2, 3, 3]:
                return None
            return _with_extras(op, [op.inputs[1]], [op.inputs[0]])
        case nn.PoolOp() if op.on_buffers:
            return [op.inputs[0], op.outs[0]], [], [op.outs[0]]
        case nn.LayerNormOp() if op.on_buffers and len(_shape(op.outs[0])) > 1:
            return [op.inputs[0], op.outs[0]], list(op.inputs[1:]), [op.outs[0]]
        case nn.FoldOp() if op.on_buffers:
            return [op.inputs[0], op.outs[0]], [], [op.outs[0]]
        case nn.ConcatOp() if op.on_buffers and op.axis.value.data % len(_shape(op.outs[0])) > 0:
            return [*op.inputs, op.outs[0]], [], [op.outs[0]]
        case _:
            return None


def _with_extras(
    op: nn.ConvOp | nn.MatmulOp, images: list[SSAValue], shared: list[SSAValue]
) -> _Operands | None:
    """The operands of a product, with those of its body."""
    maps = [m.data for m in op.maps or ()]
    outs = list(op.outs)
    found = _by_maps(list(op.extras), maps, outs)
    if found is None:
        return None
    return [*images, *found[0], *outs], [*shared, *found[1]], outs


def _by_maps(
    values: Sequence[SSAValue], maps: Sequence[AffineMap], outs: list[SSAValue]
) -> _Operands | None:
    """Operands by their maps from the indices of a loop nest, whose first one counts images."""
    images: list[SSAValue] = []
    shared: list[SSAValue] = []
    for value, mapping in zip(values, maps):
        used = [0 in expression.used_dims() for expression in mapping.results]
        if not any(used):
            shared.append(value)
        elif mapping.results[0] == AffineDimExpr(0) and not any(used[1:]):
            images.append(value)
        else:
            return None
    if any(value in shared for value in outs):
        return None
    return images, shared, outs


def _asks_for_image(op: linalg.GenericOp) -> bool:
    """Whether the body of a loop nest looks at the number of the image."""
    return any(isinstance(o, linalg.IndexOp) and o.dim.value.data == 0 for o in op.body.walk())


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, MemRefType)
    return tuple(value.type.get_shape())


def _has_images(value: SSAValue) -> bool:
    """Whether parts along the first dimension are of one known size, and begin at lines of memory."""
    kind = value.type
    if (
        not isinstance(kind, MemRefType)
        or kind.layout != NoneAttr()
        or is_packed(kind.element_type)
    ):
        return False
    shape = kind.get_shape()
    if not shape or DYNAMIC_INDEX in shape[1:] or 0 in shape:
        return False
    return _image_bytes(value) % LINE == 0


def _image_bytes(value: SSAValue) -> int:
    """Bytes of one part along the first dimension."""
    assert isinstance(value.type, MemRefType)
    return byte_size(value.type.element_type, [Size.of(d) for d in _shape(value)[1:]]).evaluate({})


def _known_bytes(value: SSAValue) -> int | None:
    assert isinstance(value.type, MemRefType)
    if DYNAMIC_INDEX in _shape(value):
        return None
    return byte_size(value.type.element_type, [Size.of(d) for d in _shape(value)]).evaluate({})


def _batch_of(value: SSAValue) -> Size | None:
    """The first dimension of a buffer that the step allocates, or of a view of one; None of others."""
    if not isinstance(root_of(value).owner, memref.AllocOp) or not _has_images(value):
        return None
    first = _shape(value)[0]
    if first != DYNAMIC_INDEX:
        return Size.of(first)
    owner = value.owner
    sizes = owner.dynamic_sizes if isinstance(owner, memref.AllocOp) else ()
    if isinstance(owner, nn.ViewOp):
        sizes = owner.sizes
    if len(sizes) != 1 or not isinstance(sizes[0].owner, nn.SizeOp):
        return None
    return sizes[0].owner.size.data


# Where it pays


def _gaining(chain: _Chain, sizes: range) -> list[list[_Kernel]]:
    """The parts of a chain that hand on values which the caches keep for one image, and not for many."""
    spans: list[tuple[int, int]] = []
    places = {kernel.op: number for number, kernel in enumerate(chain.kernels)}
    for buffer in {root_of(v): None for kernel in chain.kernels for v in kernel.outs}:
        uses = [places.get(user) for user in users(buffer)]
        inside = [place for place in uses if place is not None]
        if _image_bytes(buffer) in sizes and _is_handed_on(buffer, chain, places):
            spans.append((min(inside), max(inside)))
    parts: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        # Loops side by side are one, which hands on what is smaller, too.
        if parts and first <= parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], max(last, parts[-1][1]))
        else:
            parts.append((first, last))
    return [chain.kernels[first : last + 1] for first, last in parts if first < last]


def _is_handed_on(buffer: SSAValue, chain: _Chain, within: Container[Operation]) -> bool:
    """Whether nobody but some kernels of a chain uses a buffer, each image's part by itself."""
    owner, block = buffer.owner, chain.kernels[0].op.parent_block()
    if not isinstance(owner, memref.AllocOp) or owner.parent_block() is not block:
        return False
    if not _is_whole(buffer, chain.batch):
        return False
    return all(user in within for user in users(buffer))


def _is_whole(value: SSAValue, batch: Size) -> bool:
    """Whether a buffer, and each view of it, has images along its first dimension."""
    if not _has_images(value) or _batch_of(value) != batch:
        return False
    views = [use.operation for use in value.uses if isinstance(use.operation, VIEWS)]
    return all(
        isinstance(view, nn.ViewOp)
        and _is_whole(view.view, batch)
        and _image_bytes(view.view) == _image_bytes(value)
        for view in views
    )


# The loop


def _tile(kernels: Sequence[_Kernel], batch: Size) -> None:
    """Puts kernels into a loop over images, in the place of the last one."""
    _Loop(kernels, batch).fill()


class _Loop:
    """A loop over the images of some kernels."""

    def __init__(self, kernels: Sequence[_Kernel], batch: Size) -> None:
        self.kernels = kernels
        last = kernels[-1].op
        block = last.parent_block()
        assert block is not None
        zero, one = (arith.ConstantOp(IntegerAttr(n, IndexType())) for n in (0, 1))
        stop = nn.SizeOp(batch)
        upper: Operation = stop
        if batch.constant is not None:
            upper = arith.ConstantOp(IntegerAttr(batch.constant, IndexType()))
        self.body = Block([scf.YieldOp()], arg_types=[IndexType()])
        self.image = self.body.args[0]
        self.image.name_hint = "image"
        loop = scf.ForOp(zero.result, upper.results[0], one.result, [], Region(self.body))
        loop.attributes[TILED] = UnitAttr()
        give_location(last.location, zero, one, upper, loop)
        block.insert_ops_before([zero, one, upper, loop], last)
        within = [kernel.op for kernel in kernels]
        chain = _Chain(batch, list(kernels))
        roots = {root_of(v): None for kernel in kernels for v in kernel.outs}
        self.own = [root for root in roots if _is_handed_on(root, chain, within)]
        """The buffers that hold one image from now on."""
        self.parts: dict[SSAValue, SSAValue] = {}

    def fill(self) -> None:
        """Moves the kernels into the loop, each with the parts of its operands."""
        for kernel in self.kernels:
            for value in kernel.images:
                self._part(value)
            self._move(kernel)
        for root in self.own:
            _erase(root)

    def _insert(self, op: Operation, hint: str | None) -> SSAValue:
        last = self.body.last_op
        assert last is not None
        give_location(self.kernels[0].op.location, op)
        self.body.insert_op_before(op, last)
        op.results[0].name_hint = hint
        return op.results[0]

    def _part(self, value: SSAValue) -> SSAValue:
        """One image's part of a buffer."""
        if value in self.parts:
            return self.parts[value]
        kind = value.type
        assert isinstance(kind, MemRefType)
        one = MemRefType(kind.element_type, [1, *kind.get_shape()[1:]])
        if value in self.own:
            made: Operation = memref.AllocOp([], [], one)
        elif root_of(value) in self.own:
            assert isinstance(value.owner, nn.ViewOp)
            made = nn.ViewOp(self._part(value.owner.source), [], one)
        else:
            made = nn.SubviewOp(value, self.image, one)
        self.parts[value] = self._insert(made, value.name_hint)
        return self.parts[value]

    def _move(self, kernel: _Kernel) -> None:
        op, last = kernel.op, self.body.last_op
        assert last is not None
        images = set(kernel.images)
        scratch = list(op.scratch) if isinstance(op, nn.NNOp) else []
        op.detach()
        for number, operand in enumerate(op.operands):
            if operand in images:
                op.operands[number] = self.parts[operand]
        self.body.insert_op_before(op, last)
        if isinstance(op, nn.NNOp):
            self._give_scratch(op)
        for value in scratch:
            if not value.uses:
                _erase(value)

    def _give_scratch(self, op: nn.NNOp) -> None:
        """The buffers that a kernel works in are those of one image."""
        rows = demands_of(op).scratch(op)
        if not rows and not op.scratch:
            return
        scratch: dict[str, SSAValue] = {}
        for row in rows:
            sizes = [nn.SizeOp(d) for d in row.dims if d.constant is None]
            for size in sizes:
                self._before(size, op)
            shape = [DYNAMIC_INDEX if d.constant is None else d.constant for d in row.dims]
            made = memref.AllocOp.get(row.element, None, shape, [s.value for s in sizes])
            self._before(made, op)
            made.memref.name_hint = "scratch"
            scratch[row.name] = made.memref
        bodies = list(op.body)
        for body in bodies:
            op.detach_region(body)
        new = type(op)(
            list(op.inputs), [], list(op.outs), op.own_properties, bodies, scratch, list(op.extras)
        )
        new.attributes.update(op.attributes)
        new.location = op.location
        self.body.insert_op_before(new, op)
        op.detach()
        op.erase()

    def _before(self, made: Operation, op: Operation) -> None:
        give_location(op.location, made)
        self.body.insert_op_before(made, op)


def _erase(buffer: SSAValue) -> None:
    """Erases a buffer that nobody uses any more, with the views of it."""
    for view in [use.operation for use in buffer.uses]:
        assert isinstance(view, nn.ViewOp)
        _erase(view.view)
    made = buffer.owner
    assert isinstance(made, Operation)
    made.detach()
    made.erase()
