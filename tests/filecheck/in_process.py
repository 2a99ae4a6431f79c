"""RUN lines in this process: lit reads them, and our tools and `filecheck` are called as functions.

A process for each would import the compiler every time, which takes longer than nearly every test. Other
commands (`sed`, `diff`, `python`) are processes.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lit.Test
import lit.TestRunner
from filecheck.main import main as filecheck
from lit.formats import ShTest
from lit.ShCommands import Command, Pipeline, Seq
from lit.ShUtil import ShParser

from openinfer.compiler.tools import openinfer_opt

TOOLS: Mapping[str, Callable[[list[str]], int | None]] = {
    "openinfer-opt": openinfer_opt.main,
    # It takes `sys.argv` as it is.
    "filecheck": lambda arguments: filecheck(["filecheck", *arguments]),
}


class InProcess(ShTest):
    """lit's test format for files with RUN lines."""

    def execute(self, test: Any, litConfig: Any) -> Any:
        """The result of a file: passes when all its lines end with 0."""
        script = lit.TestRunner.parseIntegratedTestScript(test)
        if isinstance(script, lit.Test.Result):
            return script
        folder, base = lit.TestRunner.getTempPaths(test)
        Path(base).parent.mkdir(parents=True, exist_ok=True)
        substitutions = lit.TestRunner.getDefaultSubstitutions(test, folder, base)
        shell = _Shell(os.path.dirname(test.getExecPath()), test.config.environment)
        for line in lit.TestRunner.applySubstitutions(script, substitutions):
            # lit writes the number of the line in front.
            text = re.sub(r"%dbg\([^)]*\)", "", line).strip()
            if shell.run(ShParser(text, pipefail=True).parse()) != 0:
                return lit.Test.Result(lit.Test.FAIL, f"{line}\n{''.join(shell.log)}")
        return lit.Test.Result(lit.Test.PASS, "")


@dataclass
class _Shell:
    """Runs what lit's parser gives."""

    folder: str
    environment: Mapping[str, str]
    log: list[str] = field(default_factory=list[str])
    """What commands wrote to stderr, and to stdout where no other read it."""

    def run(self, command: Any) -> int:
        """The exit code of a list of pipelines, or of one, whose every command must succeed."""
        if isinstance(command, Seq):
            if command.op != "&&":
                raise ValueError(f"RUN lines have no {command.op!r}")
            return self.run(command.lhs) or self.run(command.rhs)
        assert isinstance(command, Pipeline)
        failed, data = 0, b""
        for one in command.commands:
            code, data = self._command(one, data)
            failed = code or failed
        self.log.append(data.decode(errors="replace"))
        return failed

    def _command(self, command: Command, given: bytes) -> tuple[int, bytes]:
        """The exit code of a command, and what it leaves for the next one."""
        words = [str(word) for word in command.args]
        setting: dict[str, str] = {}
        negated = False
        while words[0] in ("not", "env"):
            if words.pop(0) == "not":
                negated = not negated
                continue
            while "=" in words[0]:
                name, _, value = words.pop(0).partition("=")
                setting[name] = value
        joined = False
        target: str | None = None
        for operator, name in command.redirects:
            if operator == (">&", 2) and name == "1":
                joined = True
            elif operator == (">",):
                target = name
            elif operator == ("<",):
                given = Path(self.folder, name).read_bytes()
            else:
                raise ValueError(f"RUN lines have no redirection {operator} {name}")
        code, out, problems = self._call(words, given, setting, joined)
        self.log.append(problems.decode(errors="replace"))
        if target is not None:
            Path(self.folder, target).write_bytes(out)
            out = b""
        # As lit does it: a command that a signal ended has not failed as it should.
        return (int(code <= 0) if negated else code), out

    def _call(
        self, words: list[str], given: bytes, setting: Mapping[str, str], joined: bool
    ) -> tuple[int, bytes, bytes]:
        """The exit code, stdout and stderr (part of stdout where they are `joined`)."""
        tool = TOOLS.get(words[0])
        if tool is None:
            done = subprocess.run(
                words,
                input=given,
                cwd=self.folder,
                env={**self.environment, **setting},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if joined else subprocess.PIPE,
                check=False,
            )
            return done.returncode, done.stdout, done.stderr or b""
        with _streams(given, joined) as (out, problems), _variables(setting):
            try:
                code = tool(words[1:]) or 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            sys.stdout.flush()
            sys.stderr.flush()
        return code, out.getvalue(), b"" if joined else problems.getvalue()


@contextmanager
def _streams(given: bytes, joined: bool) -> Generator[tuple[io.BytesIO, io.BytesIO]]:
    """The standard streams of a tool: what it reads, and what it wrote."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, problems = io.BytesIO(), io.BytesIO()

    def text(data: io.BytesIO) -> io.TextIOWrapper:
        return io.TextIOWrapper(data, encoding="utf-8", errors="replace", write_through=True)

    sys.stdin, sys.stdout = text(io.BytesIO(given)), text(out)
    sys.stderr = sys.stdout if joined else text(problems)
    try:
        yield out, problems
    finally:
        # Kept: closing a wrapper closes the bytes in it.
        for stream in {sys.stdout, sys.stderr}:
            stream.detach()
        sys.stdin, sys.stdout, sys.stderr = before


@contextmanager
def _variables(setting: Mapping[str, str]) -> Generator[None]:
    """The environment of a tool: of our own variables those of the line, and the cache."""
    before = dict(os.environ)
    for name in before:
        if name.startswith("OPENINFER_") and name != "OPENINFER_CACHE_DIR":
            del os.environ[name]
    os.environ.update(setting)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
