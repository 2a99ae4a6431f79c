"""Write a .gguf model with its weights in a block format: smaller, and rounded.

Matrices in F32, F16 or BF16 are quantised, without an importance matrix; norms, biases,
routers and position embeddings stay as they are. A row that the block does not divide gets q8_0, one that 32
does not divide gets F16, and the output says so. The file is written whole or not at all. Needs the extra
`llm`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLES = """\
examples:
  openinfer quantize model-f16.gguf model-q8_0.gguf --type q8_0     about half the size
  openinfer quantize model-f16.gguf model-q4_0.gguf --type q4_0     about 28 % of it
  openinfer quantize model-00001-of-00003.gguf one.gguf --type q8_0     parts become one file
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from openinfer.compiler.tools.quantizing import TYPES

    add = parser.add_argument
    add("source", metavar="IN", help="a .gguf model in F32, F16 or BF16")
    add("output", type=Path, metavar="OUT")
    add("--type", required=True, choices=TYPES, help="the block format")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.quantizing import quantize, summary
    from openinfer.compiler.tools.report import UsageError
    from openinfer.runtime.packages import open_model
    from openinfer.runtime.packages.gguf import GgufPackage

    with open_model(args.source) as package:
        if not isinstance(package, GgufPackage):
            raise UsageError(
                f"{args.source} is no .gguf model",
                "give one with weights in F32, F16 or BF16",
            )
        outcomes = quantize(package, args.output, args.type)
    others = [one for one in outcomes if one.reason is not None]
    before = sum(one.before for one in outcomes)
    after = sum(one.after for one in outcomes)
    if args.json:
        facts = {
            "output": str(args.output),
            "bytes": args.output.stat().st_size,
            "before": before,
            "after": after,
            "dtypes": {
                name: {"tensors": count, "nbytes": nbytes}
                for name, (count, nbytes) in summary(outcomes).items()
            },
            "others": [
                {"tensor": one.name, "dtype": one.dtype.name, "reason": one.reason}
                for one in others
            ],
        }
        print(json.dumps(facts))
        return 0
    print(f"{args.output}: tensors of {before} bytes take {after}")
    for name, (count, nbytes) in summary(outcomes).items():
        print(f"  {name}: {count} tensor{'s' if count > 1 else ''}, {nbytes} bytes")
    for one in others:
        print(f"  {one.name} is {one.dtype}: {one.reason}")
    return 0
