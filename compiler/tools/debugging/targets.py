"""What follows `break`, `tbreak` and `until`: a place, a condition, or both."""

from __future__ import annotations

from openinfer.compiler.suggest import near
from openinfer.compiler.tools.debugging.reply import CommandError
from openinfer.compiler.tools.debugging.session import DebugSession
from openinfer.runtime.breakpoints import Breakpoint
from openinfer.runtime.outline import nearest_line

FORMS = ("block", "op", "line", "node", "if")


def parse_target(session: DebugSession, text: str, *, once: bool = False) -> Breakpoint:
    """`12`, `mlp.oi:12`, `body`, `matmul`, `block B`, `op O`, `node N`, each with `if CONDITION`.

    Without a place and condition: the current line. A line without nodes means the next one that
    has some. Raises CommandError, InputError.
    """
    place, when = _split(text)
    if not place:
        if when is not None:
            return Breakpoint(when=when, once=once)
        if session.current_line is None:
            raise CommandError("no node has run yet, so there is no current line", "break LINE")
        return Breakpoint(line=session.current_line, once=once)
    word, _, rest = place.partition(" ")
    rest = rest.strip()
    if word in ("block", "op", "line", "node") and rest:
        return _named(session, word, rest, when, once)
    if rest:
        raise CommandError(
            f"`{place}` is no place", "break LINE, BLOCK, OP, node N, or if CONDITION"
        )
    if place.rpartition(":")[2].isdecimal():
        return _line(session, place, when, once)
    if place in session.outline.blocks:
        return Breakpoint(block=place, when=when, once=once)
    if place in session.outline.forms:
        return Breakpoint(op=place, when=when, once=once)
    known = [*session.outline.blocks, *sorted(session.outline.forms)]
    raise CommandError(f"no block, op or line is `{place}`", near(place, known, "places"))


def _split(text: str) -> tuple[str, str | None]:
    """Place and condition of `PLACE if CONDITION`."""
    words = f" {text.strip()} "
    place, found, when = words.partition(" if ")
    return place.strip(), when.strip() if found else None


def _named(session: DebugSession, form: str, name: str, when: str | None, once: bool) -> Breakpoint:
    match form:
        case "block":
            return Breakpoint(block=name, when=when, once=once)
        case "op":
            return Breakpoint(op=name, when=when, once=once)
        case "line":
            return _line(session, name, when, once)
        case _:
            if not name.isdecimal():
                raise CommandError(
                    f"`{name}` is no node", "break node N, with N as `where` shows it"
                )
            return Breakpoint(node=int(name), when=when, once=once)


def _line(session: DebugSession, text: str, when: str | None, once: bool) -> Breakpoint:
    file, _, number = text.rpartition(":")
    if not number.isdecimal():
        raise CommandError(f"`{text}` is no line", "break LINE or break FILE:LINE")
    line = nearest_line(session.outline.lines(), int(number))
    if line is None:
        raise CommandError(f"nothing runs at or after line {number}", "`list` shows the program")
    return Breakpoint(line=f"{file}:{line}" if file else line, when=when, once=once)
