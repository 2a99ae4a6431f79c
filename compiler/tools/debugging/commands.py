"""The commands of the debugger: one method each, found by name, alias or unique beginning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openinfer.compiler.suggest import near
from openinfer.compiler.tools.debugging.reply import CommandError, Reply
from openinfer.compiler.tools.debugging.session import DebugSession, Entry
from openinfer.compiler.tools.debugging.show import (
    around_line,
    short_value,
    source_reply,
    split_all,
    value_reply,
    where_reply,
    written,
)
from openinfer.compiler.tools.debugging.targets import parse_target
from openinfer.runtime.variables import VariableInfo


@dataclass(frozen=True)
class Command:
    """A row of the table: how it is called, and what it does."""

    name: str
    aliases: tuple[str, ...]
    usage: str
    text: str
    call: Callable[[str], Reply]
    again: bool = False
    """Whether an empty line repeats it."""


class Quit(Exception):
    """The person wants to leave."""


class Commands:
    """Runs the lines that a person types. `table` is in the order of `help`."""

    def __init__(self, session: DebugSession) -> None:
        self.session = session
        rows = [
            Command(
                "step",
                ("s",),
                "step [N]",
                "run N nodes, into branches and loops",
                self.step_node,
                True,
            ),
            Command(
                "next",
                ("n",),
                "next [N]",
                "run N nodes, over branches and loops",
                self.next_node,
                True,
            ),
            Command("finish", (), "finish", "run out of this loop or block", self.finish),
            Command("until", ("u",), "until PLACE|if EXPR", "run to a place, once", self.until),
            Command(
                "continue",
                ("c",),
                "continue",
                "run to a breakpoint, or until all program steps (--steps) are done",
                self.resume,
                True,
            ),
            Command("end", ("e",), "end", "run this program step to its end, past all", self.end),
            Command(
                "restart", (), "restart", "state as at the start; breakpoints stay", self.restart
            ),
            Command(
                "print",
                ("p",),
                "print [EXPR] [all]",
                "a variable (y, y[0, 1..3], K[2]) with statistics, or an expression (y.max - 1); "
                "`all`: every element",
                self.print_value,
            ),
            Command("where", ("bt",), "where", "blocks, loops with their turn, source", self.where),
            Command("list", ("l",), "list [LINE|BLOCK]", "source lines", self.list_source, True),
            Command(
                "break",
                ("b",),
                "break [PLACE] [if EXPR]",
                "stop at LINE, FILE:LINE, BLOCK, OP or node N, or where EXPR becomes true",
                self.set_breakpoint,
            ),
            Command(
                "tbreak", ("tb",), "tbreak [PLACE] [if EXPR]", "the same, once", self.set_temporary
            ),
            Command("watch", (), "watch EXPR", "stop where a value changes", self.set_watch),
            Command("display", (), "display EXPR", "show a value at every stop", self.set_display),
            Command(
                "delete",
                ("d",),
                "delete [N …]",
                "remove breakpoints, watches, displays",
                self.delete,
            ),
            Command(
                "info",
                ("i",),
                "info breakpoints|vars|state|sizes",
                "what is set, variables, persistent state, sizes",
                self.info,
            ),
            Command(
                "help",
                ("h", "?"),
                "help [COMMAND]",
                "this list, or more of a command",
                self.show_help,
            ),
            Command("quit", ("q", "exit"), "quit", "leave", self.quit),
        ]
        self.table = {row.name: row for row in rows}
        self._aliases = {alias: row for row in rows for alias in row.aliases}

    def run(self, line: str) -> Reply:
        """Runs one line. Raises CommandError, OpenInferError, Quit."""
        word, _, rest = line.strip().partition(" ")
        return self.find(word).call(rest.strip())

    def find(self, word: str) -> Command:
        """The command of a name, alias or unique beginning. Raises CommandError."""
        row = self.table.get(word) or self._aliases.get(word)
        if row is not None:
            return row
        fitting = [name for name in self.table if word and name.startswith(word)]
        if len(fitting) == 1:
            return self.table[fitting[0]]
        if fitting:
            raise CommandError(f"`{word}` is short for {' and '.join(fitting)}", "type more of it")
        raise CommandError(f"there is no command `{word}`", near(word, self.table, "commands"))

    # Moving

    def step_node(self, rest: str) -> Reply:
        count = _count(rest)
        return self.session.run(lambda stepper: stepper.step(count))

    def next_node(self, rest: str) -> Reply:
        count = _count(rest)

        def move() -> Reply:
            return self.session.run(lambda stepper: stepper.next())

        reply = move()
        for _ in range(count - 1):
            stop = self.session.stepper.stop
            if stop is None or stop.reason != "step":
                break
            reply = move()
        return reply

    def finish(self, rest: str) -> Reply:
        _nothing(rest, "finish")
        return self.session.run(lambda stepper: stepper.finish())

    def until(self, rest: str) -> Reply:
        target = parse_target(self.session, rest)
        return self.session.run(lambda stepper: stepper.until(target))

    def resume(self, rest: str) -> Reply:
        _nothing(rest, "continue")
        return self.session.run(lambda stepper: stepper.resume(), on=True)

    def end(self, rest: str) -> Reply:
        _nothing(rest, "end")
        return self.session.run(lambda stepper: stepper.end())

    def restart(self, rest: str) -> Reply:
        _nothing(rest, "restart")
        return self.session.restart()

    # Looking

    def print_value(self, rest: str) -> Reply:
        stepper = self.session.stepper
        if rest:
            text, whole = split_all(rest)
            return value_reply(stepper, text, whole=whole)
        event = stepper.stop.event if stepper.stop is not None else None
        names = written(stepper, event) if event is not None else []
        if not names:
            raise CommandError(
                "the last node wrote nothing", "print VARIABLE; `info vars` lists them"
            )
        reply = Reply()
        for name in names:
            reply.add(value_reply(stepper, name))
        return reply

    def where(self, rest: str) -> Reply:
        _nothing(rest, "where")
        reply = where_reply(self.session.stepper)
        line = self.session.current_line
        if line is not None:
            reply.add(self._source(line, *around_line(line)))
        return reply

    def list_source(self, rest: str) -> Reply:
        session = self.session
        place = session.outline.blocks.get(rest)
        if rest and place is None and not rest.isdecimal():
            raise CommandError(
                f"`{rest}` is neither a line nor a block", "list LINE, or list BLOCK"
            )
        if rest:
            first, last = around_line(place.line if place is not None else int(rest))
        elif session.listed is not None:
            first, last = session.listed + 1, session.listed + 10
        else:
            first, last = around_line(session.current_line or 1)
        session.listed = last
        return self._source(session.current_line, first, last)

    def _source(self, current: int | None, first: int, last: int) -> Reply:
        places = [e.breakpoint.place for e in self.session.entries if e.breakpoint is not None]
        marked = {place[1] for place in places if place is not None}
        return source_reply(self.session.source, current, marked, first, last)

    # What stops a step

    def set_breakpoint(self, rest: str) -> Reply:
        return _set(self.session.add_breakpoint(parse_target(self.session, rest)))

    def set_temporary(self, rest: str) -> Reply:
        return _set(self.session.add_breakpoint(parse_target(self.session, rest, once=True)))

    def set_watch(self, rest: str) -> Reply:
        if not rest:
            raise CommandError("watch what?", "watch y, or watch any(isnan(h))")
        return _set(self.session.add_watch(rest))

    def set_display(self, rest: str) -> Reply:
        session = self.session
        if rest:
            session.add_display(rest)
        texts = [e.text for e in session.entries if e.kind == "display"]
        values = [short_value(session.stepper, text) for text in texts]
        lines = [line for value in values for line in value.lines]
        return Reply.of(lines or "nothing is displayed", display=[value.data for value in values])

    def delete(self, rest: str) -> Reply:
        session = self.session
        chosen = list(session.entries)
        if rest:
            known = {str(entry.number): entry for entry in session.entries}
            words = rest.replace(",", " ").split()
            for word in words:
                if word not in known:
                    raise CommandError(f"there is no breakpoint, watch or display {word}")
            chosen = [known[word] for word in dict.fromkeys(words)]
        for entry in chosen:
            session.delete(entry)
        return Reply.of(f"{len(chosen)} deleted", deleted=[entry.number for entry in chosen])

    # Lists

    def info(self, rest: str) -> Reply:
        topics: dict[str, Callable[[], Reply]] = {
            "breakpoints": self._info_breakpoints,
            "sizes": self._info_sizes,
            "state": self._info_state,
            "vars": self._info_vars,
        }
        fitting = [name for name in topics if rest and name.startswith(rest)]
        if len(fitting) != 1:
            raise CommandError(f"info {rest or 'what'}?", f"info {', '.join(topics)}")
        return topics[fitting[0]]()

    def _info_breakpoints(self) -> Reply:
        entries = self.session.entries
        rows = [
            {"number": e.number, "kind": e.kind, "text": e.text, "hits": e.hits} for e in entries
        ]
        lines = [entry.line for entry in entries]
        return Reply.of(lines or "no breakpoints, watches or displays", entries=rows)

    def _info_vars(self) -> Reply:
        infos = self.session.executor.variables.values()
        return self._variables([info for info in infos], "the program has no variables")

    def _info_state(self) -> Reply:
        infos = self.session.executor.variables.values()
        kept = [info for info in infos if info.memory == "persistent"]
        reply = self._variables(kept, "the program has no persistent variables")
        finished = self.session.executor.finished_steps
        reply.lines.append(f"steps finished: {finished}")
        reply.data["finished"] = finished
        return reply

    def _variables(self, infos: list[VariableInfo], none: str) -> Reply:
        """Declarations by memory kind; values too, but of constants, which may be large."""
        lines: list[str] = []
        rows: list[dict[str, object]] = []
        for memory in dict.fromkeys(info.memory for info in infos):
            lines.append(f"{memory}:")
            for info in (i for i in infos if i.memory == memory):
                row: dict[str, object] = {"name": info.name, "memory": memory, "type": info.text}
                lines.append(f"  {info.text}")
                if memory != "constant" and (memory == "persistent" or not info.indices):
                    value = short_value(self.session.stepper, info.name)
                    row["value"] = value.data
                    lines += [f"      {line}" for line in value.lines]
                rows.append(row)
        return Reply.of(lines or none, variables=rows)

    def _info_sizes(self) -> Reply:
        executor = self.session.executor
        names = {n for info in executor.variables.values() for d in info.dims for n in d.names}
        known = {**executor.sizes, **executor.step_sizes}
        sizes = {n: known[n] for n in sorted(names | executor.sizes.keys()) if n in known}
        lines = [f"{name} = {value}" for name, value in sizes.items()]
        return Reply.of(lines or "no size is known yet", sizes=sizes)

    # The session

    def show_help(self, rest: str) -> Reply:
        if rest:
            row = self.find(rest.split()[0])
            also = f" (also: {', '.join(row.aliases)})" if row.aliases else ""
            return Reply.of(f"{row.usage}: {row.text}{also}")
        width = max(len(row.usage) for row in self.table.values())
        lines = [f"{row.usage:{width}}  {row.text}" for row in self.table.values()]
        return Reply.of([*lines, *_HELP])

    def quit(self, rest: str) -> Reply:
        raise Quit


_HELP = (
    "",
    "A step of the program runs all its nodes; `step` runs one node. Stops are after the node that",
    "they name. EXPR: variables, loop indices, sizes, step, node; + - * / // %; < <= == != >= >;",
    "and or not; any all min max mean std sum count abs sqrt isnan isinf isfinite, as max(y) or",
    "y.max; y.shape, y.nan, y.inf. Names may be shortened; an empty line repeats step, next,",
    "continue and list; Ctrl-C stops a running step, Ctrl-D leaves.",
)


def _count(rest: str) -> int:
    if not rest:
        return 1
    if not rest.isdecimal() or int(rest) < 1:
        raise CommandError(f"`{rest}` is no number from 1", "step N, or next N")
    return int(rest)


def _nothing(rest: str, name: str) -> None:
    if rest:
        raise CommandError(f"`{name}` takes nothing, found `{rest}`", f"help {name}")


def _set(entry: Entry) -> Reply:
    return Reply.of(
        f"{entry.kind} {entry.number}: {entry.text}",
        set={"number": entry.number, "kind": entry.kind, "text": entry.text},
    )
