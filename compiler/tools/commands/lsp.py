"""A language server for editors: mistakes while you type, completion, types, definitions."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from openinfer.compiler.tools.extras import missing_library
from openinfer.compiler.tools.report import BAD_INPUT, FINE

EXAMPLES = """\
examples:
  openinfer lsp                          what an editor starts: it speaks over standard streams

docs/editors.md says how VS Code, Neovim and Helix are told of it. It needs pygls:
`pip install 'openinfer[lsp]'`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # Some editors add it to every server; there is no other way.
    parser.add_argument("--stdio", action="store_true", help="accepted: it is the only way")


def run(args: argparse.Namespace) -> int:
    if find_spec("pygls") is None:
        raise missing_library("pygls", "lsp")
    from openinfer.compiler.language_server.server import serve

    return FINE if serve() else BAD_INPUT
