"""What the debugger shows: values with statistics, the stack, source lines, stops."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.compiler.tools.debugging.reply import Reply
from openinfer.compiler.tools.running import tensor_json
from openinfer.runtime.condition_syntax import Name, Node
from openinfer.runtime.conditions import Condition
from openinfer.runtime.errors import InputError
from openinfer.runtime.packages.inspect import statistics
from openinfer.runtime.tensors import as_tensor, format_truncated

if TYPE_CHECKING:
    from openinfer.runtime.outline import Frame
    from openinfer.runtime.stepping import Change, Stepper, Stop
    from openinfer.runtime.storage import AnyArray
    from openinfer.runtime.trace import Event
    from openinfer.runtime.variables import VariableInfo

_AROUND = 5
"""Source lines above and below the current one."""
_SHOWN = ("min", "max", "mean", "std")
_WHOLE = 64
"""Values of up to so many elements are whole in JSON; of larger ones, shape and statistics are.
A part picked by `print` is whole up to here, too."""
_WIDTH = 100
"""Columns of a value that is shown whole."""


def value_reply(stepper: Stepper, text: str, *, whole: bool = False) -> Reply:
    """An expression: a variable or a part of one with its statistics, or just a value.

    With `whole` all elements are shown, else the first and last ones, but of a small part that slots
    pick all as well. Raises InputError for a wrong expression, and where a name has no value now.
    """
    condition = Condition(text)
    value = stepper.evaluate(text)
    tree = condition.tree
    picked = isinstance(tree, Name) and tree.slots is not None and value.size <= _WHOLE
    lines = _elements(value) if whole or (picked and value.ndim) else [format_truncated(value)]
    info = _picked(stepper, tree)
    if info is not None:
        return _variable(condition.text, value, info.dtype, info.memory, lines, whole)
    shape = list(value.shape)
    if whole and shape:
        head = [f"{condition.text}: {shape}", *(f"  {line}" for line in lines)]
    elif shape:
        head = [f"{condition.text}: {shape} = {format_truncated(value)}"]
    else:
        head = [f"{condition.text} = {_scalar(value)}"]
    return Reply.of(head, expression=condition.text, **_values_json(value, whole))


def _picked(stepper: Stepper, tree: Node) -> VariableInfo | None:
    """The variable of an expression that is one, or a part of one."""
    if not isinstance(tree, Name):
        return None
    return stepper.executor.variables.get(stepper.position.meaning(tree.name)[0])


def split_all(text: str) -> tuple[str, bool]:
    """`h all`: the expression, and whether all of its elements are asked for."""
    before, _, last = text.rpartition(" ")
    if last != "all" or not before.strip():
        return text, False
    try:
        Condition(text)
    except InputError:
        return before.strip(), True
    return text, False


def _elements(value: AnyArray) -> list[str]:
    """All elements, rows in brackets as NumPy writes them."""
    shown = np.array2string(
        value, max_line_width=_WIDTH, threshold=max(value.size, 1), precision=6, separator=", "
    )
    return shown.splitlines()


def _variable(
    text: str, value: AnyArray, dtype: str, memory: str, shown: list[str], whole: bool
) -> Reply:
    stats: dict[str, Any] = statistics(value) if value.size else {}
    numbers = [f"{key} {_number(stats[key])}" for key in _SHOWN if key in stats]
    if value.dtype.kind == "f":
        numbers += [f"{key} {stats.get(key, 0)}" for key in ("nan", "inf")]
    head = f"{text}: {dtype}[{', '.join(str(n) for n in value.shape)}], {memory}"
    lines = [head]
    if value.size > 1:
        lines.append(f"  {', '.join(numbers)}")
    lines += [f"  {line}" for line in shown]
    data = _values_json(value, whole)
    if stats:
        kept = {key: stats[key] for key in _SHOWN if key in stats}
        data["stats"] = {**kept, "nan": stats.get("nan", 0), "inf": stats.get("inf", 0)}
    return Reply.of(lines, expression=text, memory=memory, **(data | {"dtype": dtype}))


def _values_json(value: AnyArray, whole: bool = False) -> dict[str, Any]:
    if value.size > _WHOLE and not whole:
        return {"shape": list(value.shape)}
    name = "f64" if value.dtype.kind == "f" else "bool" if value.dtype.kind == "b" else "i64"
    if value.dtype.kind == "u":
        name = "u64"
    wide = value.astype({"f64": "f8", "bool": "?", "i64": "i8", "u64": "u8"}[name])
    data = tensor_json(as_tensor(wide, name))
    return {"shape": data["shape"], "values": data["values"]}


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _scalar(value: AnyArray) -> str:
    item: Any = value[()].item()
    return str(item).lower() if isinstance(item, bool) else _number(item)


def short_value(stepper: Stepper, name: str) -> Reply:
    """A variable or expression in one line; a sentence where it has no value now."""
    try:
        value, tree = stepper.evaluate(name), Condition(name).tree
    except InputError as error:
        head = "" if error.message.startswith(name) else f"{name}: "
        return Reply.of(f"{head}{error.message}", expression=name, error=error.message)
    shown = format_truncated(value) if value.shape else _scalar(value)
    head = name
    info = _picked(stepper, tree)
    if info is not None:
        head += f": {info.dtype}[{', '.join(str(extent) for extent in value.shape)}]"
        shown = format_truncated(value)
    return Reply.of(f"{head} = {shown}", expression=name, **_values_json(value))


# Where


def place_text(event: Event) -> str:
    """`mlp.oi:12: ` or nothing."""
    return f"{event.location.file}:{event.location.line}: " if event.location is not None else ""


def node_text(event: Event) -> str:
    """What ran, in one line."""
    if event.kind == "BlockEnter":
        return f"enter block {event.block_name}"
    if event.kind == "BlockExit":
        return f"end of block {event.block_name}"
    return event.description or event.op_name or event.kind


def event_json(event: Event | None) -> dict[str, Any] | None:
    """The facts of an event."""
    if event is None:
        return None
    place = event.location
    return {
        "kind": event.kind,
        "block": event.block_name,
        "node": event.node_index,
        "op": event.op_name,
        "text": node_text(event),
        "output": list(event.output),
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
    }


def where_reply(stepper: Stepper) -> Reply:
    """The stack of blocks, innermost first, each with its loops and scopes."""
    position = stepper.position
    lines: list[str] = []
    frames: list[dict[str, Any]] = []
    for frame in reversed(position.frames):
        event = frame.event
        at = f"{place_text(event)}{node_text(event)}" if event is not None else "somewhere"
        index = f", node {event.node_index}" if event is not None and event.node_index >= 0 else ""
        shared = {"event": event_json(event), "loops": position.indices_of(frame)}
        # Blocks with parameters, whose statements stand in place of their calls.
        for depth in range(len(frame.calls), -1, -1):
            call = frame.calls[depth - 1] if depth else None
            block = call.text if call is not None else frame.block
            inside = around(stepper, frame, depth)
            lines.append(f"#{len(frames)} block {block}{index}: {at}")
            lines += [f"     in {text}" for text in inside]
            found = {"block": block, **shared, "around": inside}
            frames.append(found if call is None else {**found, "block": call.block, "call": block})
            if call is not None:
                place = f"{call.location.file}:{call.location.line}: " if call.location else ""
                at, index = f"{place}branch {call.text}", ""
    if not stepper.active or not frames:
        lines = [f"step {stepper.step_number}: no node has run yet"]
    return Reply.of(lines, step=stepper.step_number, frames=frames)


def around(stepper: Stepper, frame: Frame, depth: int) -> list[str]:
    """Loops with their turn, and scopes, around the node of a frame, outermost first: those that stand in
    so many calls of blocks with parameters."""
    node, outline = frame.node, stepper.outline
    if node is None or outline is None:
        return []
    found: list[str] = []
    for parent in (outline.nodes[index] for index in node.parents):
        if len(parent.calls) != depth:
            continue
        value = frame.values.get(parent.index)
        turn = f": {parent.bounds[0]} = {'?' if value is None else value}" if parent.bounds else ""
        found.append(parent.text + turn)
    return found


def source_reply(
    text: str, current: int | None, marked: Collection[int], first: int, last: int
) -> Reply:
    """Source lines with numbers; `=>` marks the current one, `*` those with a breakpoint."""
    listed = text.splitlines()
    first, last = max(first, 1), min(last, len(listed))
    width = len(str(last))
    lines = [
        f"{'=>' if number == current else '  '} {'*' if number in marked else ' '}"
        f"{number:{width}}  {listed[number - 1]}".rstrip()
        for number in range(first, last + 1)
    ]
    if not lines:
        lines = ["no source lines there" if listed else "the source text is not here"]
    data = [{"line": n, "text": listed[n - 1]} for n in range(first, last + 1)]
    return Reply.of(lines, source=data, current=current)


def around_line(line: int) -> tuple[int, int]:
    """First and last line that are shown around one."""
    return max(1, line - _AROUND), line + _AROUND


# Stops


def stop_reply(stepper: Stepper, stop: Stop) -> Reply:
    """Where a step stopped: place, source line, values that the node wrote, changes."""
    event = stop.event
    if event is None:
        return Reply()
    frames = stepper.position.frames
    calls = frames[-1].calls if frames else ()
    block = calls[-1].text if calls else event.block_name
    counted = [f"step {stepper.step_number}", f"block {block}"]
    if event.node_index >= 0:
        counted.append(f"node {event.node_index}")
    turns = stepper.position.indices
    counted += [f"{name} = {'?' if n is None else n}" for name, n in turns.items()]
    lines = [f"{place_text(event)}{', '.join(counted)}", f"  {node_text(event)}"]
    lines += [f"  {text}" for change in stop.changes for text in change_lines(change)]
    lines += [f"  not decided: {problem}" for problem in stop.problems]
    values: list[dict[str, Any]] = []
    for name in written(stepper, event):
        value = short_value(stepper, name)
        lines += [f"  {line}" for line in value.lines]
        values.append(value.data)
    data = {
        "reason": stop.reason,
        "step": stepper.step_number,
        "loops": turns,
        "event": event_json(event),
        "values": values,
        "changes": [change.text for change in stop.changes],
        "problems": list(stop.problems),
    }
    return Reply.of(lines, stop=data)


def written(stepper: Stepper, event: Event) -> list[str]:
    """The outputs of an event as expressions: `K[l=0, t=3]` is `K[0, 3]`."""
    known = stepper.executor.variables
    texts = [re.sub(r"[^\[\],=]*=", "", name) for name in event.output]
    return [text for text in dict.fromkeys(texts) if text.partition("[")[0] in known]


def change_lines(change: Change) -> list[str]:
    """What a watched expression was and is."""

    def shown(value: AnyArray | None) -> str:
        if value is None:
            return "no value"
        shape = f"{list(value.shape)} " if value.shape else ""
        return f"{shape}{format_truncated(value) if value.shape else _scalar(value)}"

    return [f"{change.text}: {shown(change.before)} -> {shown(change.after)}"]
