"""`openinfer-opt`: any level in, any level out. The driver itself is in `opt_driver`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from openinfer.compiler.tools.report import guard
from openinfer.compiler.tools.streams import prepare_streams


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    prepare_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    # Answered before xDSL is imported, which takes longer than everything else together.
    if "--version" in arguments or "-v" in arguments:
        from openinfer.runtime.version import version_line

        return guard(lambda: print(version_line("openinfer-opt")) or 0, traceback=False)

    return guard(
        lambda: _drive(arguments),
        traceback="--traceback" in arguments,
        json="--json" in arguments,
    )


def _drive(arguments: Sequence[str]) -> int:
    from openinfer.compiler.arguments import require_compiler

    require_compiler()
    from openinfer.compiler.tools.opt_driver import drive

    return drive(arguments)


if __name__ == "__main__":
    sys.exit(main())
