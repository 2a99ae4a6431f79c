"""Write a model package (.oinf) from a dataclass of a Python module, or from another package.

The module is imported, so its code runs. Which field becomes a size, metadata or a tensor is in
`docs/packages.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLES = """\
examples:
  openinfer pack export:Model -o model.oinf               the class Model of export.py
  openinfer pack tools/export.py:Model -o model.oinf --arguments ctor.json
  openinfer pack tools/export.py:model -o model.oinf      an instance that the module made
  openinfer pack model.safetensors -o model.oinf          its tensors, and config.json beside it
  openinfer pack old.oinf -o new.oinf                     version 1 as version 2
  openinfer pack model.safetensors -o half.oinf --dtype f16   its float tensors rounded to f16
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="SOURCE", help="module:Name, file.py:Name, or a package")
    add("-o", "--output", type=Path, required=True, metavar="OUT.oinf")
    add(
        "--arguments",
        type=Path,
        metavar="FILE.json",
        help="arguments of the class, as a JSON object",
    )
    add(
        "--dtype",
        metavar="DTYPE",
        help="the float dtype that all float tensors are rounded to (f32, f16, bf16, f8, …)",
    )


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.packing import content_of, float_dtype
    from openinfer.compiler.tools.report import UsageError
    from openinfer.runtime.packages import open_model
    from openinfer.runtime.packages.oinf_writer import write_oinf

    dtype = float_dtype(args.dtype) if args.dtype is not None else None
    if ":" not in args.source and Path(args.source).exists():
        if args.arguments is not None:
            raise UsageError("--arguments are for a class, not for a package")
        with open_model(args.source) as package:
            write_oinf(package, args.output, dtype=dtype)
    else:
        write_oinf(content_of(args.source, args.arguments), args.output, dtype=dtype)
    with open_model(args.output) as written:
        facts = {
            "output": str(args.output),
            "bytes": args.output.stat().st_size,
            "sizes": len(written.sizes),
            "metadata": len(written.metadata),
            "tensors": len(written.tensors),
        }
    if args.json:
        print(json.dumps(facts))
    else:
        counts = ", ".join(f"{facts[name]} {name}" for name in ("sizes", "metadata", "tensors"))
        print(f"{args.output}: {facts['bytes']} bytes, {counts}")
    return 0
