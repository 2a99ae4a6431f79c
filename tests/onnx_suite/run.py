"""ONNX's operator tests against the list: `python tests/onnx_suite/run.py [--compiled] [--update] [PART]`.

`--update` writes the list anew from what the simulator does; a wrong number is never written.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from node_cases import EXPECTED, all_cases, expected, result_of


def main() -> int:
    """Runs the cases whose names have PART in them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("part", nargs="?", default="")
    options.add_argument(
        "--compiled", action="store_true", help="compiled programs, else the simulator"
    )
    options.add_argument("--update", action="store_true", help="write the list")
    given = options.parse_args()
    wanted = {one.name: one.result for one in expected()} if EXPECTED.exists() else {}
    found: dict[str, str] = {}
    wrong = 0
    for name, case in all_cases().items():
        if given.part not in name:
            continue
        try:
            found[name] = result_of(case, compiled=given.compiled)
        # A wrong number, or a failure: both are told, and the rest goes on.
        except Exception as error:
            wrong += 1
            _say(f"{name}: wrong: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            continue
        if found[name] != wanted.get(name) and not given.update:
            wrong += 1
            _say(f"{name}: {found[name]}, listed: {wanted.get(name)}")
    counts = Counter(result.partition(":")[0] for result in found.values())
    _say(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if given.update and not given.part:
        _write(found)
    return 1 if wrong else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _write(found: dict[str, str]) -> None:
    import onnx

    lines = [
        f"# onnx {onnx.__version__}\n",
        "# case, operator, what became of it; written by run.py --update\n",
    ]
    cases = all_cases()
    lines += [
        f"{name}\t{cases[name].operator}\t{result}\n" for name, result in sorted(found.items())
    ]
    EXPECTED.write_text("".join(lines))


if __name__ == "__main__":
    sys.exit(main())
