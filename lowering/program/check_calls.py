"""Checks of blocks with parameters and of their calls, which are then replaced by the blocks' statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    BranchOp,
    CallOp,
    LoopOp,
    NameAttr,
    OpOp,
    RefAttr,
    ReturnOp,
    SizeAttr,
    SizeOp,
    SliceAttr,
    VariableOp,
    YieldOp,
)
from openinfer.lowering.program.call_names import around, names_between_braces
from openinfer.lowering.program.check_declarations import DeclarationChecks
from openinfer.lowering.program.expansion import MAX_ADDED, MAX_DEPTH
from openinfer.lowering.program.inlining import (
    has_calls,
    inline_calls,
    written_in,
)
from openinfer.lowering.program.names import Names, Variable
from openinfer.lowering.program.places import Part, Places
from openinfer.lowering.program.report import Report, did_you_mean
from openinfer.runtime.errors import ProgramError


def expand_calls(module: ModuleOp, report: Report, places: Places) -> None:
    """Checks the calls of blocks with parameters, and replaces them by the statements of the blocks.

    Changes the module. Where something is wrong, which the report says, no call is left either, and what
    calls would have given is unknown: nothing more is said of it.
    """
    if not has_calls(module):
        return
    before = report.errors
    checks = _Checks(module, report, places)
    checks.run()
    if report.errors == before:
        _leave_out(checks.unread, places)
        inline_calls(module, report, places)
    if report.errors > before:
        calls = [op for op in module.walk() if isinstance(op, CallOp)]
        _leave_out(calls, places)
        for op in list(module.body.ops):
            if isinstance(op, BlockOp) and op.parameters is not None:
                op.detach()


def _leave_out(calls: Iterable[CallOp], places: Places) -> None:
    for call in calls:
        places.unreadable |= {ref.variable.data for ref in call.outputs}
        call.detach()


def without_calls(module: ModuleOp) -> ModuleOp:
    """A program without calls of blocks with parameters: itself, or a copy.

    Raises ProgramError for a call that does not fit its block.
    """
    if not has_calls(module):
        return module
    copy = module.clone()
    report = Report()
    expand_calls(copy, report, Places())
    errors = [found for found in report.sorted() if found.severity == "error"]
    if errors:
        raise ProgramError(errors)
    return copy


class _Checks:
    def __init__(self, module: ModuleOp, report: Report, places: Places) -> None:
        self.module = module
        self.report = report
        self.places = places
        self.all: dict[str, BlockOp] = {}
        for op in module.body.ops:
            if isinstance(op, BlockOp):
                self.all.setdefault(op.block_name.data, op)
        self.blocks = {n: op for n, op in self.all.items() if op.parameters is not None}
        self.declared = {
            op.variable.data: op for op in module.body.ops if isinstance(op, VariableOp)
        }
        self.sizes = {op.size.data for op in module.body.ops if isinstance(op, SizeOp)}
        self.unread: list[CallOp] = []
        """Calls of blocks whose text could not be read."""
        self.indices = {op.index.data for op in module.walk() if isinstance(op, LoopOp)}

    def run(self) -> None:
        for op in list(self.module.body.ops):
            if not isinstance(op, BlockOp):
                continue
            name = op.block_name.data
            first = self.all[name]
            parametric = op.parameters is not None or first.parameters is not None
            if first is not op and parametric and name not in self.places.unreadable:
                notes = [("first defined here", self.places.of(first, ("name",)))]
                where = self.places.of(op, ("name",))
                message = f"block `{name}` is defined twice"
                self.report.error("OI0202", where, message, fix="rename one of them", notes=notes)
            if op.parameters is not None:
                self.block(op)
        called: set[str] = set()
        for op in self.module.walk():
            if isinstance(op, CallOp):
                called.add(op.block_name.data)
                self.call(op)
            elif isinstance(op, BranchOp):
                self.branch(op)
        for name, op in self.blocks.items():
            if name not in called and name not in self.places.unreadable:
                fix = f"call it with `y = branch {name}(…);`, or remove it"
                where = self.places.of(op, ("name",))
                self.report.warning("OI0245", where, f"block `{name}` is never called", fix=fix)
                self.uncalled(op)
        self.depths()

    # Blocks

    def uncalled(self, block: BlockOp) -> None:
        """Checks a block that no call brings before the other checks: its dtypes, ops, counts of operands and
        settings, and what ops take of the program's own variables."""
        checks = DeclarationChecks(Names.of(self.module), self.report, self.places)
        parameters = block.parameter_names
        for op in block.walk():
            if op in self.places.unread:
                continue
            if isinstance(op, VariableOp | AssignOp):
                checks.type(Variable(op, {}))
            if not isinstance(op, OpOp):
                continue
            spec = checks.op_name(op.op_name.data, op, ("op",))
            if spec is None:
                continue
            checks.counts(op, spec)
            checks.settings_of(op, spec, parameters)
            operands = [ref.variable.data if isinstance(ref, RefAttr) else "" for ref in op.inputs]
            known = [checks.names.find(n) if n in self.declared else None for n in operands]
            checks.operand_dtypes(op, spec, known)

    def wrong(self, op: Operation, part: Part, message: str, fix: str) -> None:
        self.report.error("OI0274", self.places.of(op, part), message, fix=fix)

    def block(self, block: BlockOp) -> None:
        name, parameters = block.block_name.data, block.parameter_names
        if name == "entry":
            fix = "declare what callers give in `dynamic { … }`"
            self.wrong(block, ("name",), "block `entry` takes no parameters", fix)
        for place, parameter in enumerate(parameters):
            if parameter in parameters[:place]:
                message = f"block `{name}` has two parameters `{parameter}`"
                self.wrong(block, ("parameters", place), message, "rename one of them")
            if parameter in self.declared or parameter in self.sizes:
                what = "variable" if parameter in self.declared else "size"
                message = f"parameter `{parameter}` has the name of a {what} of the program"
                self.wrong(block, ("parameters", place), message, "rename the parameter")
        own: set[str] = set()
        body = list(block.body.block.ops)
        for op in body:
            if isinstance(op, VariableOp):
                variable = op.variable.data
                if variable in parameters or variable in self.declared or variable in own:
                    message = f"`{variable}` of block `{name}` has the name of something else there"
                    self.wrong(op, ("name",), message, "rename it")
                own.add(variable)
                self.tensor(op, parameters)
        last = body[-1] if body else None
        if not isinstance(last, ReturnOp) and not self.is_unread(block):
            self.report.error(
                "OI0240",
                self.places.of(block, ("close",)),
                f"block `{name}` does not end in `return`",
                fix="end it with `return;`, or with what it gives: `return y;`",
            )
        known = {*parameters, *own, *self.declared, *written_in(body)}
        for op in body:
            for one in op.walk():
                self.statement(one, block, known, own, one is last)

    def tensor(self, op: VariableOp, parameters: Sequence[str]) -> None:
        """The name of the tensor of a constant."""
        known = {*parameters, *(index.data for index in op.indices)}
        for key in ("ref", "pattern"):
            text = op.option(key)
            for name in names_between_braces(text.data) if isinstance(text, StringAttr) else ():
                if name not in known:
                    message = f"`{{{name}}}` is neither a parameter of the block nor an index"
                    fix = did_you_mean(name, known, "write a parameter between the braces")
                    self.wrong(op, ("options", key), message, fix or "")

    def is_unread(self, block: BlockOp) -> bool:
        """Whether the text has a block whose end could not be read."""
        known = block.block_name.data not in self.places.unreadable
        last = block.body.block.last_op
        return not known or block in self.places.unfinished or last in self.places.unread

    def statement(
        self, op: Operation, block: BlockOp, known: set[str], own: set[str], last: bool
    ) -> None:
        name = block.block_name.data
        if isinstance(op, ReturnOp) and not last:
            message = f"a `return` inside block `{name}`, which has parameters"
            self.wrong(op, (), message, "it may only end the block")
        if isinstance(op, YieldOp | AwaitOp):
            word = "yield" if isinstance(op, YieldOp) else "await"
            message = f"`{word}` in block `{name}`, which has parameters"
            self.wrong(op, (), message, "write it in `entry`, or in a block without parameters")
        for written in written_in([] if op.regions else [op]):
            if written in block.parameter_names or written in own:
                what = "parameter" if written in block.parameter_names else "constant"
                message = f"{what} `{written}` of block `{name}` is written"
                self.wrong(op, ("outputs",), message, "give the result another name")
        for used, part in _used(op):
            if used in known or used in self.places.unreadable:
                continue
            inside = [i.index.data for i in around(op) if isinstance(i, LoopOp)]
            if used in inside:
                continue
            message = (
                f"`{used}` is no parameter of block `{name}`, and nothing there gives it a value"
            )
            fix = did_you_mean(used, known, f"pass it: `block {name}(…, {used})`")
            self.wrong(op, part, message, fix or "")
        self.hidden_indices(op, block)

    def hidden_indices(self, op: Operation, block: BlockOp) -> None:
        """The index of a caller's loop, which a block does not see."""
        names: set[str] = set()
        for value in op.properties.values():
            names |= set(_size_names(value))
        own = {*block.parameter_names, *self.declared, *self.sizes}
        own |= {one.index.data for one in block.walk() if isinstance(one, LoopOp)}
        for name in sorted(names & self.indices - own - set(written_in([block]))):
            message = (
                f"`{name}` is the index of a loop that block `{block.block_name.data}` is not in"
            )
            fix = f"pass it: `block {block.block_name.data}(…, {name})`"
            self.report.error("OI0260", self.places.of(op), message, fix=fix)

    # Calls

    def branch(self, op: BranchOp) -> None:
        targets = [(op.then_block, "then_block"), (op.else_block, "else_block")]
        for target, part in targets:
            if target is not None and target.data in self.blocks:
                given = ", ".join(self.blocks[target.data].parameter_names)
                self.report.error(
                    "OI0273",
                    self.places.of(op, (part,)),
                    f"block `{target.data}` has parameters",
                    fix=f"give them: `branch {target.data}({given});`",
                )

    def call(self, op: CallOp) -> None:
        name = op.block_name.data
        where = self.places.of(op, ("name",))
        block = self.blocks.get(name)
        if name in self.places.unreadable or (block is not None and self.is_unread(block)):
            self.unread.append(op)
            return
        if block is None:
            if name in self.all:
                message = f"block `{name}` has no parameters"
                fix = f"write `branch {name};`, or `block {name}() {{ … }}`"
                self.report.error("OI0273", where, message, fix=fix)
            else:
                fix = did_you_mean(
                    name, self.blocks, f"define it: `block {name}(…) {{ … return; }}`"
                )
                self.report.error("OI0212", where, f"undefined block `{name}`", fix=fix)
            return
        self.texts(op)
        parameters = block.parameter_names
        note = [("the block", self.places.of(block, ("name",)))]
        usage = f"block {name}({', '.join(parameters)})"
        if len(op.inputs) > len(parameters):
            part: Part = ("inputs", len(parameters))
            self.report.error(
                "OI0273",
                self.places.of(op, part),
                f"block `{name}` takes {len(parameters)} arguments, found {len(op.inputs)}",
                fix=f"it is `{usage}`",
                notes=note,
            )
            return
        given = parameters[: len(op.inputs)]
        for setting in op.settings.data:
            place = self.places.of(op, ("settings", setting, "name"))
            if setting not in parameters:
                message = f"block `{name}` has no parameter `{setting}`"
                fix = did_you_mean(setting, parameters, f"it is `{usage}`")
                self.report.error("OI0273", place, message, fix=fix, notes=note)
            elif setting in given:
                message = f"`{setting}` of block `{name}` is given twice"
                self.report.error("OI0273", place, message, fix="remove one of them", notes=note)
        defaults = block.defaults.data if block.defaults is not None else {}
        missing = [p for p in parameters if p not in {*given, *op.settings.data, *defaults}]
        if missing:
            shown = ", ".join(f"`{one}`" for one in missing)
            message = f"block `{name}` is called without {shown}"
            self.report.error("OI0273", where, message, fix=f"it is `{usage}`", notes=note)
        last = block.body.block.last_op
        gives = last.names if isinstance(last, ReturnOp) else ()
        if len(gives) != len(op.outputs):
            message = f"block `{name}` gives {_values(len(gives))}, {len(op.outputs)} are taken"
            targets = ", ".join(gives)
            fix = (
                f"write `{targets} = branch {name}(…);`" if gives else f"write `branch {name}(…);`"
            )
            self.report.error("OI0273", where, message, fix=fix, notes=note)

    def texts(self, op: CallOp) -> None:
        """Names in the braces of texts: indices of loops around the call, and parameters of its block."""
        given: list[tuple[Attribute, Part]] = [(v, ("inputs", n)) for n, v in enumerate(op.inputs)]
        given += [(v, ("settings", n)) for n, v in op.settings.data.items()]
        known: set[str] = set()
        for outer in around(op):
            if isinstance(outer, LoopOp):
                known.add(outer.index.data)
            elif isinstance(outer, BlockOp):
                known |= {*outer.parameter_names}
        for value, part in given:
            for name in names_between_braces(value.data) if isinstance(value, StringAttr) else ():
                if name not in known:
                    self.report.error(
                        "OI0275",
                        self.places.of(op, part),
                        f"`{{{name}}}` is no index of a loop around the call",
                        fix=did_you_mean(
                            name, known, "write the index of a loop there, or a number"
                        ),
                    )

    # How large all calls are together

    def depths(self) -> None:
        """Cycles of calls, and calls that expand without end."""
        nodes: dict[str, int] = {}
        depth: dict[str, int] = {}
        for root in self.blocks:
            stack: list[tuple[str, Iterator[CallOp]]] = []
            if root not in nodes:
                stack.append((root, self.calls_in(root)))
            while stack:
                name, calls = stack[-1]
                call = next(calls, None)
                if call is None:
                    stack.pop()
                    inner = [c.block_name.data for c in self.calls_in(name)]
                    nodes[name] = sum(1 for _ in self.blocks[name].walk()) + sum(
                        nodes.get(one, 0) for one in inner
                    )
                    depth[name] = 1 + max((depth.get(one, 0) for one in inner), default=0)
                    continue
                target = call.block_name.data
                path = [one for one, _ in stack]
                if target in path:
                    cycle = " → ".join([*path[path.index(target) :], target])
                    self.report.error(
                        "OI0244",
                        self.places.of(call, ("name",)),
                        f"a cycle of branches: {cycle}",
                        fix="a branch is a call that returns; repeat with `loop` instead",
                    )
                    return
                if target in self.blocks and target not in nodes:
                    stack.append((target, self.calls_in(target)))
        for name, block in self.blocks.items():
            if depth[name] > MAX_DEPTH:
                message = f"calls nest {depth[name]} deep in block `{name}`, at most {MAX_DEPTH} do"
                fix = "let one block call the others one after the other"
                self.report.error("OI0271", self.places.of(block, ("name",)), message, fix=fix)
                return
        total = 0
        for op in self.module.walk():
            if isinstance(op, CallOp) and op.block_name.data in nodes:
                total += nodes[op.block_name.data]
                if total > MAX_ADDED:
                    message = f"calls of blocks add more than {MAX_ADDED:,} nodes to the program"
                    fix = "call a block in a `loop`, where it can be"
                    where = self.places.of(op, ("name",))
                    self.report.error("OI0270", where, message, fix=fix)
                    return

    def calls_in(self, name: str) -> Iterator[CallOp]:
        return (op for op in self.blocks[name].walk() if isinstance(op, CallOp))


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def _used(op: Operation) -> Iterator[tuple[str, Part]]:
    """The variables that a statement itself reads or returns."""
    if isinstance(op, ReturnOp):
        yield from ((name, ("names", place)) for place, name in enumerate(op.names))
        return
    if isinstance(op, AssignOp | YieldOp | AwaitOp | VariableOp):
        return
    reads = getattr(op, "reads", None)
    if reads is None:
        return
    inputs = [
        (value.variable.data, place)
        for place, value in enumerate(getattr(op, "inputs", ()))
        if hasattr(value, "variable")
    ]
    places: dict[str, Part] = {name: ("inputs", place, "name") for name, place in reversed(inputs)}
    for ref in reads():
        name = ref.variable.data
        yield name, places.get(name, ())


def _size_names(value: object) -> Iterator[str]:
    match value:
        case SizeAttr():
            yield from value.data.names
        case NameAttr():
            yield value.data
        case SliceAttr():
            yield from _size_names(value.start)
            yield from _size_names(value.stop)
        case RefAttr():
            yield from _size_names(value.indices)
        case ArrayAttr():
            for item in value:
                yield from _size_names(item)
        case DictionaryAttr():
            for item in value.data.values():
                yield from _size_names(item)
        case _:
            return
