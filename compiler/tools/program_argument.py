"""A program as a command line names it: the path of a file, or `-` for standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.compiler.arguments import not_a_text
from openinfer.compiler.tools.report import UsageError, know_source
from openinfer.runtime.errors import InputError
from openinfer.runtime.files import TEXT_LIMIT, lines_of, read_all, read_text

if TYPE_CHECKING:
    from openinfer.compiler.api import Graph

STDIN = "-"
STDIN_NAME = "<stdin>"
"""How messages name standard input."""
LEVEL_SUFFIX = ".mlir"
PACKAGE_SUFFIXES = (".oinf", ".safetensors", ".gguf")


def read_stdin(limit: int = TEXT_LIMIT) -> bytes:
    """All of standard input. Raises UsageError where there is none, InputError OI0514 for more than
    `limit` bytes."""
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("there is no standard input to read a program from", "give its file")
    try:
        return read_all(sys.stdin.buffer, limit, STDIN_NAME)
    except OSError as error:
        message = f"{STDIN_NAME}: {error.strerror or error}"
        raise InputError("OI0514", message, hint="give the text of a program") from None


class ProgramArgument:
    """What stands for a program on a command line. Standard input is read once, when it is needed."""

    def __init__(self, given: str) -> None:
        self.path = Path(given)
        self.is_stdin = given == STDIN
        self._text: str | None = None

    def __str__(self) -> str:
        return STDIN_NAME if self.is_stdin else str(self.path)

    @property
    def name(self) -> str:
        """Without the folder."""
        return STDIN_NAME if self.is_stdin else self.path.name

    @property
    def suffix(self) -> str:
        """The ending of the file's name; that of standard input follows from its text."""
        if self.is_stdin:
            return ".json" if self.read().lstrip("\ufeff \t\r\n").startswith("{") else ".oi"
        return self.path.suffix

    @property
    def is_level(self) -> bool:
        """Whether it is a level of the IR, as `--dump-dir` writes it."""
        return not self.is_stdin and self.path.suffix == LEVEL_SUFFIX

    def read(self, limit: int = TEXT_LIMIT) -> str:
        """The text. Raises InputError OI0513 for what is no UTF-8, OSError for what cannot be read."""
        if self._text is None:
            try:
                if self.is_stdin:
                    self._text = lines_of(read_stdin(limit).decode("utf-8"))
                else:
                    self._text = read_text(self.path, limit)
            except UnicodeDecodeError as error:
                raise not_a_text(self, error) from None
        return self._text

    def graph(self) -> Graph:
        """The program, not parsed yet. Raises InputError when it cannot be read as text."""
        from openinfer.compiler.api import Graph, graph_file

        if not self.is_stdin:
            return graph_file(self.path)
        know_source(STDIN_NAME, self.read())
        return Graph(self.read(), STDIN_NAME, form=self.suffix.removeprefix("."))

    def package_beside(self) -> Path | None:
        """The package that stands beside the file under its name, None when there is none."""
        return None if self.is_stdin else package_beside(self.path)

    def is_compiled(self) -> bool:
        """Whether it is a compiled program, by its first bytes or else by its name."""
        from openinfer.runtime.program_file import SUFFIX, is_program

        if self.is_stdin:
            return False
        if self.path.suffix == SUFFIX:
            return True
        try:
            if not self.path.is_file():
                return False
            with open(self.path, "rb") as file:
                return is_program(file.read(8))
        except (OSError, ValueError):
            return False


def package_beside(program: str | Path) -> Path | None:
    """The package that stands beside a program under its name, None when there is none."""
    for suffix in PACKAGE_SUFFIXES:
        candidate = Path(program).with_suffix(suffix)
        if candidate.is_file():
            return candidate
    return None
