"""What a body becomes when sizes that it was written for are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i1,
)
from xdsl.dialects.tensor import ExtractOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr
from openinfer.lowering.locations import give_location
from openinfer.runtime.sizes import Size

_COMPUTED: Mapping[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.MaxSIOp: max,
    arith.MinSIOp: min,
}
_COMPARED: Mapping[int, Callable[[int, int], bool]] = {
    0: lambda a, b: a == b,
    1: lambda a, b: a != b,
    2: lambda a, b: a < b,
    3: lambda a, b: a <= b,
    4: lambda a, b: a > b,
    5: lambda a, b: a >= b,
}
"""By the numbers of `arith.cmpi`, signed."""
_VIEWS = (nn.ReshapeOp, nn.BroadcastOp, nn.CastDimsOp)
"""Ops that hand a single element on."""
_FAILING = (nn.RequireOp, nn.GrowOp, nn.SetExtentOp, nn.DefineSizeOp, nn.GatherOp, nn.ScatterOp)


class KnownSizes:
    """Rewrites a block in place: types and settings that name a size have its number, and what follows is
    computed.

    - arithmetic of numbers, comparisons, checks that hold, branches of which one is taken;
    - loops of one round, whose body stands in their place;
    - sizes that the step defines: as numbers, or as what a check behind them asks them to be, which stands
      where the size was defined then;
    - slices of all of a value, casts to the type that a value has;
    - gathers along an axis of one element, which are views.

    An input of one element that chooses from an axis of one element is taken for 0, one that defines a size
    for 1: `assumed` has those, for the caller to ask for.
    """

    def __init__(self, block: Block, sizes: Mapping[str, int], inputs: Sequence[SSAValue]) -> None:
        """`block` ends with an op that uses what is wanted of it."""
        self._block = block
        self._sizes: dict[str, int] = dict(sizes)
        self._inputs = frozenset(inputs)
        """Tensors of one element that the caller can look at."""
        self.assumed: dict[SSAValue, int] = {}
        """What some of them are taken to hold."""
        self._elements: dict[SSAValue, SSAValue] = {}
        """Elements of inputs, as numbers at the head of the block."""
        self._rules: dict[type[Operation], Callable[[Operation], None]] = {
            nn.SizeOp: self._size,
            nn.DefineSizeOp: self._define,
            nn.RequireOp: self._require,
            nn.SliceOp: self._slice,
            nn.CastDimsOp: self._cast,
            nn.GatherOp: self._gather,
            ExtractOp: self._extract,
            scf.ForOp: self._loop,
            scf.IfOp: self._branch,
        }

    def run(self) -> None:
        known = -1
        while known < len(self.assumed):
            # What an op says of an input counts for those in front of it, too.
            known = len(self.assumed)
            self._walk(self._block)

    def _walk(self, block: Block) -> None:
        for argument in block.args:
            self._retype(argument)
        for op in list(block.ops):
            self._visit(op)

    def _visit(self, op: Operation) -> None:
        for key, value in list(op.properties.items()):
            op.properties[key] = self._attribute(value)
        for result in op.results:
            self._retype(result)
        if type(op) in self._rules:
            self._rules[type(op)](op)
            return
        if len(op.results) == 1 and not isinstance(op, arith.ConstantOp):
            number = self._number(op.results[0])
            if number is not None and isinstance(op.results[0].type, IndexType | IntegerType):
                self._become(op, self._constant(op, number))
                return
        for region in op.regions:
            for block in region.blocks:
                self._walk(block)

    # Names in types and settings

    def _retype(self, value: SSAValue) -> None:
        kind = self._attribute(value.type)
        if kind != value.type:
            Rewriter.replace_value_with_new_type(value, kind)

    def _attribute(self, value: Attribute) -> Attribute:
        if isinstance(value, SizeAttr):
            return SizeAttr.of(value.data.substitute(self._sizes))
        if isinstance(value, TensorType) and isinstance(value.encoding, nn.DimsAttr):
            dims = [dim.substitute(self._sizes) for dim in value.encoding.data]
            return nn.tensor_type(value.element_type, dims)
        if isinstance(value, ArrayAttr):
            return ArrayAttr([self._attribute(part) for part in value.data])
        if isinstance(value, DictionaryAttr):
            return DictionaryAttr({k: self._attribute(v) for k, v in value.data.items()})
        return value

    # Numbers

    def _number(self, value: SSAValue) -> int | None:
        """What an integer, or the only element of a tensor, is; None where that is not known."""
        if value in self.assumed:
            return self.assumed[value]
        op = value.owner
        if isinstance(op, arith.ConstantOp):
            return op.value.value.data if isinstance(op.value, IntegerAttr) else None
        if isinstance(op, nn.SizeOp):
            return op.size.data.substitute(self._sizes).constant
        if isinstance(op, nn.IotaOp):
            return 0 if _has_one_element(value) else None
        if not isinstance(op, Operation) or not op.operands:
            return None
        if isinstance(op, nn.ElementwiseOp):
            if not _has_one_element(value) or not _are_wide(op):
                return None
            parts = [self._number(operand) for operand in op.operands]
            known = [part for part in parts if part is not None]
            fits = op.kind.data in ("cast", "add") and len(known) == len(parts)
            return sum(known) if fits else None
        if isinstance(op, (*_VIEWS, nn.FromIndexOp, ExtractOp, arith.IndexCastOp)):
            one = len(op.operands) == 1 and not isinstance(value.type, TensorType)
            return self._number(op.operands[0]) if one or _has_one_element(value) else None
        numbers = [self._number(operand) for operand in op.operands]
        return _computed(op, numbers)

    def _input_of(self, value: SSAValue) -> SSAValue | None:
        """The input whose only element a value is."""
        while value not in self._inputs:
            op = value.owner
            operands = list(op.operands) if isinstance(op, Operation) else []
            if isinstance(op, nn.ElementwiseOp) and op.kind.data in ("cast", "add"):
                # What nothing is added to.
                operands = [one for one in operands if self._number(one) != 0]
                if not _are_wide(op) or len(operands) != 1:
                    return None
            elif not isinstance(op, (*_VIEWS, ExtractOp, arith.IndexCastOp)):
                return None
            value = operands[0]
        return value

    def _assume(self, value: SSAValue, number: int) -> bool:
        """Takes the element of an input for a number; whether that is what it is."""
        known = self._number(value)
        if known is not None:
            return known == number
        found = self._input_of(value)
        if found is None:
            return False
        self.assumed[found] = number
        return True

    def _constant(self, place: Operation, number: int) -> SSAValue:
        """A number in place of the result of an op."""
        kind = place.results[0].type
        if kind == i1:
            made = arith.ConstantOp(BoolAttr.from_bool(bool(number)))
        else:
            assert isinstance(kind, IndexType | IntegerType)
            made = arith.ConstantOp(IntegerAttr(number, kind))
        _before(place, made)
        return made.result

    def _become(self, op: Operation, *values: SSAValue) -> None:
        Rewriter.replace_op(op, [], values)

    # Rules

    def _size(self, op: Operation) -> None:
        assert isinstance(op, nn.SizeOp)
        number = op.size.data.constant
        if number is not None:
            self._become(op, self._constant(op, number))

    def _define(self, op: Operation) -> None:
        """A size of a known value, or one that is checked to be a number before anything else may fail."""
        assert isinstance(op, nn.DefineSizeOp)
        name = op.size.data
        if self._number(op.value) is None:
            self._assume(op.value, 1)
        number = self._number(op.value)
        if number is None:
            check = _check_behind(op)
            number = None if check is None else self._asked(check, name)
            if check is None or number is None:
                return
            self._check_here(op, check, number)
        self._sizes[name] = number
        op.detach()
        op.erase()

    def _asked(self, check: nn.RequireOp, name: str) -> int | None:
        """The number that a check asks a size to be."""
        same = check.condition.owner
        if not isinstance(same, arith.CmpiOp) or same.predicate.value.data != 0:
            return None
        sides = [_size_of(side) for side in same.operands]
        for side, other in (sides, sides[::-1]):
            if side is not None and side.single_name == name and other is not None:
                return other.substitute(self._sizes).constant
        return None

    def _check_here(self, op: nn.DefineSizeOp, check: nn.RequireOp, number: int) -> None:
        """The check of a size where it is defined."""
        wanted = arith.ConstantOp(IntegerAttr(number, IndexType()))
        same = arith.CmpiOp(op.value, wanted.result, "eq")
        name = op.size.data

        def side(value: SSAValue) -> SSAValue:
            size = _size_of(value)
            return op.value if size is not None and size.single_name == name else wanted.result

        kind, node = check.kind.data, check.node.value.data
        axis = check.axis.value.data if check.axis is not None else None
        required = nn.RequireOp(
            same.result, kind, side(check.first), side(check.second), node, axis
        )
        _before(op, wanted, same, required)

    def _require(self, op: Operation) -> None:
        assert isinstance(op, nn.RequireOp)
        if self._number(op.condition):
            op.detach()
            op.erase()

    def _slice(self, op: Operation) -> None:
        assert isinstance(op, nn.SliceOp)
        whole = all(start.data == Size.of(0) for start in op.starts)
        plain = all(step == 1 for step in op.steps.get_values())
        if whole and plain and op.inputs[0].type == op.result[0].type:
            self._become(op, op.inputs[0])

    def _cast(self, op: Operation) -> None:
        assert isinstance(op, nn.CastDimsOp)
        if op.source.type == op.result.type:
            self._become(op, op.source)

    def _gather(self, op: Operation) -> None:
        assert isinstance(op, nn.GatherOp)
        table, indices = op.inputs
        alone = nn.dims_of(table)[op.axis.value.data] == Size.of(1)
        if alone and _has_one_element(indices) and op.block is None and self._assume(indices, 0):
            view = nn.ReshapeOp([table], [op.result[0].type])
            view.attributes.update(op.attributes)
            view.result[0].name_hint = op.result[0].name_hint
            _before(op, view)
            self._become(op, view.result[0])

    def _extract(self, op: Operation) -> None:
        """Elements of inputs are taken once, at the head of the block, where nothing waits for them."""
        assert isinstance(op, ExtractOp)
        found = self._input_of(op.tensor) if not op.indices else None
        if found is None or op.result is self._elements.get(found):
            return
        if found not in self._elements:
            element = nn.element_of(found)
            scalar = nn.ReshapeOp([found], [nn.tensor_type(element, [])])
            taken = ExtractOp(scalar.result[0], [], element)
            assert isinstance(found.owner, Operation)
            for new in (taken, scalar):
                give_location(op.location, new)
                Rewriter.insert_op(new, InsertPoint.after(found.owner))
            self._elements[found] = taken.result
        self._become(op, self._elements[found])

    def _loop(self, op: Operation) -> None:
        assert isinstance(op, scf.ForOp)
        start, stop, step = map(self._number, (op.lb, op.ub, op.step))
        body = op.body.block
        if start is None or stop is None or step is None or not start < stop <= start + step:
            self._walk(body)
            return
        for argument, value in zip(body.args, (op.lb, *op.iter_args)):
            argument.replace_all_uses_with(value)
        self._inline(op, body)

    def _branch(self, op: Operation) -> None:
        assert isinstance(op, scf.IfOp)
        taken = self._number(op.cond)
        if taken is None:
            for region in op.regions:
                for block in region.blocks:
                    self._walk(block)
            return
        region = op.true_region if taken else op.false_region
        if region.blocks:
            self._inline(op, region.block)
        else:
            Rewriter.erase_op(op)

    def _inline(self, op: Operation, body: Block) -> None:
        """The ops of a body in place of the op around it."""
        around = op.parent_block()
        assert around is not None
        *inner, end = list(body.ops)
        for moved in inner:
            moved.detach()
            around.insert_op_before(moved, op)
        for moved in inner:
            self._visit(moved)
        self._become(op, *end.operands)


def _computed(op: Operation, numbers: Sequence[int | None]) -> int | None:
    """The result of arithmetic of numbers."""
    if isinstance(op, arith.SelectOp) and numbers[0] is not None:
        return numbers[1] if numbers[0] else numbers[2]
    known = [number for number in numbers if number is not None]
    if len(known) != 2 or len(numbers) != 2:
        return None
    if isinstance(op, arith.CmpiOp):
        compare = _COMPARED.get(op.predicate.value.data)
        return None if compare is None else int(compare(*known))
    compute = _COMPUTED.get(type(op))
    # Numbers of sizes and places are far from where indices wrap around.
    return (
        compute(*known)
        if compute is not None and isinstance(op.results[0].type, IndexType)
        else None
    )


def _has_one_element(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and all(
        dim.constant == 1 for dim in nn.dims_of(value)
    )


def _are_wide(op: Operation) -> bool:
    """Whether a cast keeps numbers as small as those here."""
    elements = [nn.element_of(value) for value in (*op.operands, *op.results)]
    return all(isinstance(kind, IntegerType) and kind.width.data >= 32 for kind in elements)


def _size_of(value: SSAValue) -> Size | None:
    """The size expression that a number is."""
    op = value.owner
    if isinstance(op, nn.SizeOp):
        return op.size.data
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return Size.of(op.value.value.data)
    return None


def _check_behind(op: nn.DefineSizeOp) -> nn.RequireOp | None:
    """The check behind the definition of a size, where nothing in between may fail."""
    following = op.next_op
    while following is not None:
        if isinstance(following, nn.RequireOp):
            return following
        if isinstance(following, _FAILING) or following.regions:
            return None
        following = following.next_op
    return None


def _before(place: Operation, *ops: Operation) -> None:
    """Puts ops in front of another one, at its place in the program."""
    for op in ops:
        give_location(place.location, op)
        Rewriter.insert_op(op, InsertPoint.before(place))
