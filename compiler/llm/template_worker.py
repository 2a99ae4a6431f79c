"""Renders chat templates in a process of its own: templates come out of files that anybody may have written.

Run as a script. Each line of the standard input is a request as JSON, `{"template": text, "variables":
object}`; each line of the output its answer, `{"text": …}` or `{"error": …}`. The sandbox of Jinja keeps a
template from reaching Python's objects, but not from working without end or filling the memory: limits of
the process stop that, and its parent sees that it died.
"""

from __future__ import annotations

import datetime
import json
import signal
import sys
from typing import Any, Final, NoReturn

MAX_OUTPUT: Final = 1 << 20
"""Characters that a template may write."""
PROCESSOR_SECONDS: Final = 2.0
"""Time of the processor that one rendering may take."""
_MEMORY: Final = 512 << 20
_KEPT: Final = 32
"""So many compiled templates are kept."""
_LARGEST_NUMBER: Final = 1 << 64


def main() -> None:
    """Answers requests until the input ends."""
    _limit_memory()
    templates: dict[str, Any] = {}
    environment = _environment()
    for line in sys.stdin:
        request = json.loads(line)
        _limit_time(PROCESSOR_SECONDS)
        try:
            source = request["template"]
            if source not in templates:
                if len(templates) >= _KEPT:
                    templates.clear()
                templates[source] = environment.from_string(source)
            answer = {"text": _rendered(templates[source], request["variables"])}
        except Exception as error:
            answer = {"error": f"{_words(error)}"[:500]}
        finally:
            _limit_time(0.0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _rendered(template: Any, variables: dict[str, Any]) -> str:
    """The text, made piece by piece, so that a long one is not made to its end."""
    pieces: list[str] = []
    length = 0
    for piece in template.generate(**variables):
        length += len(piece)
        if length > MAX_OUTPUT:
            raise ValueError(f"it writes more than {MAX_OUTPUT} characters")
        pieces.append(piece)
    return "".join(pieces)


def _environment() -> Any:
    """What templates expect: the names that `transformers` and llama.cpp give them."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "%"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            numbers = isinstance(left, int | float) and isinstance(right, int | float)
            if operator == "*" and not numbers:
                if _size(left) * _size(right) > MAX_OUTPUT:
                    raise TemplateError("a text or list is multiplied too often")
            if operator == "**" and (abs(left) > _LARGEST_NUMBER or abs(right) > 64):
                raise TemplateError("a power is too large")
            result = super().call_binop(context, operator, left, right)
            if isinstance(result, int) and abs(result) > _LARGEST_NUMBER:
                raise TemplateError("a number is too large")
            return result

    class Generation(Extension):
        """`{% generation %}` marks what a model learns from; the text inside is written as it is."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def raise_exception(message: object) -> NoReturn:
        raise TemplateError(str(message))

    def strftime_now(layout: str) -> str:
        return datetime.datetime.now().strftime(layout)

    def tojson(value: Any, indent: int | None = None, **more: Any) -> str:
        # Jinja's own escapes what HTML would read; models were trained without.
        return json.dumps(
            value,
            ensure_ascii=bool(more.get("ensure_ascii", False)),
            indent=min(indent, 16) if isinstance(indent, int) else None,
            separators=more.get("separators"),
            sort_keys=bool(more.get("sort_keys", False)),
        )

    made: Any = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    made.globals.update({"raise_exception": raise_exception, "strftime_now": strftime_now})
    made.filters["tojson"] = tojson
    return made


def _size(value: Any) -> float:
    """A number, or the length of a text or list."""
    return value if isinstance(value, int | float) else len(value)


def _words(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it takes more memory than templates may have"
    if isinstance(error, RecursionError):
        return "it calls itself too often"
    line = getattr(error, "lineno", None)
    place = f"line {line}: " if line else ""
    return f"{place}{error}" if str(error) else type(error).__name__


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        # Not on Windows: there only the parent's clock stops a template.
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time(seconds: float) -> None:
    """The default action of this signal ends the process, also in the middle of a long call in C."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


if __name__ == "__main__":
    main()
