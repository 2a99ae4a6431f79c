"""Run a program: inputs from files, text, or drawn from a seed; results in short form."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.compiler.tools.running import (
    Session,
    add_program_arguments,
    output_files,
    passes_timed,
    results,
    short_line,
    tensor_json,
)
from openinfer.runtime.devices import SIMULATOR
from openinfer.runtime.files import write_file

if TYPE_CHECKING:
    from openinfer.runtime.devices.base import DeviceCall

EXAMPLES = """\
examples:
  openinfer run examples/mlp.oi
      the package beside the program, drawn inputs, sizes that only inputs fix are 8
  openinfer run mlp.oi --model other.oinf --size B=4 --seed 7
  openinfer run mlp.oi --input x=x.npy --output y=y.npy
  openinfer run axpy.oi --input x=1,2,3 --input a=0.5 --json
  openinfer run mlp.oi --device null
      what a device would be asked to do: a line for each kernel call; its memory reads as zeros
  openinfer run levels/02-linalg.mlir --model mlp.oinf
      a level that `openinfer-opt --dump-dir` wrote, as it was edited: compiled from there on
  openinfer run decode.oi --steps 5 --device simulator --trace trace.json --trace-format chrome
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program_arguments(parser)
    add = parser.add_argument
    add(
        "--output",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="write a variable after the last step (repeatable)",
    )
    add("--trace", type=Path, metavar="FILE", help="write what ran, node by node")
    add("--time-passes", action="store_true", help="what each pass of compiling cost, on stderr")
    add("--trace-format", choices=("json", "chrome"), default="json", help="default json")


def run(args: argparse.Namespace) -> int:
    files = output_files(args.output)
    # A level is compiled when it is read.
    with passes_timed(args.time_passes and args.device != SIMULATOR):
        session = Session.of(args)
        # The traced build when a trace is asked for.
        made = session.executor(trace=True if args.trace is not None else None)
    calls: list[DeviceCall] = []
    with made as executor:
        for step in range(session.steps):
            executor.insert(**session.inputs(executor, step))
            executor.step()
            calls += executor.device_calls()
        values = results(executor)
        for name, path in files.items():
            _save(path, executor.fetch(name))
        if args.trace is not None:
            executor.save_trace(args.trace, args.trace_format)
    if args.json:
        data: dict[str, Any] = {
            "program": session.graph.file,
            "executor": session.device,
            "steps": session.steps,
            "outputs": {name: tensor_json(value) for name, value in values.items()},
        }
        if calls:
            data["calls"] = [call._asdict() for call in calls]
        print(json.dumps(data))
        return 0
    for call in calls:
        print(call)
    for name, value in values.items():
        print(short_line(name, value))
    if not values:
        print("the program writes no volatile variable and returns none")
    return 0


def _save(path: str, value: object) -> None:
    import numpy as np

    data = io.BytesIO()
    np.save(data, np.asarray(value), allow_pickle=False)
    write_file(path, [data.getbuffer()])
