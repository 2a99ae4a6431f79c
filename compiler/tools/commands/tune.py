"""Measure the tiles of a program's matrix products, and keep those that are quicker than the default; or,
with `--machine`, how weights are best read and loops best cut on this processor.

The results go to the cache folder, or to a file that can be copied with the program. Nothing uses those of
the CPU unless it is asked to: `openinfer run --tuning cache`, `oi.compile(…, tuning="cache")` or the file's
path. Those of a device (`--device vulkan`) in the cache folder hold from then on; a file is named. They are
saved after each product, and what the file has of the same device and driver is not measured again. Numbers
of the processor begin with those that the file has, and are saved one by one. Measure on a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.compiler.tools.arguments import add_device, add_program, parse_sizes
from openinfer.compiler.tools.report import UsageError
from openinfer.runtime.devices import DEFAULT_DEVICE, device_of

if TYPE_CHECKING:
    from openinfer.runtime.tuning import Tuning

EXAMPLES = """\
examples:
  openinfer tune mlp.oi --size B=64            the package beside the program; 64 rows
  openinfer tune decode.oi --size T=1 --threads 2 -o decode.tuning.json
  openinfer run mlp.oi --tuning cache          compiles with what was measured
  openinfer run decode.oi --tuning decode.tuning.json
  openinfer tune mlp.oi --device vulkan --size B=64 --minutes 10
  openinfer tune --machine                     numbers of this processor: some minutes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_program(parser, compiled=False, optional=True)
    add(
        "--machine",
        action="store_true",
        help="measure numbers of the processor instead of a program: how far ahead and in how many streams "
        "weights are read, what the last cache keeps, chunks for each thread",
    )
    add_device(parser, default=DEFAULT_DEVICE)
    add("--model", type=Path, metavar="M", help="model package (default: beside the program)")
    add(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="the sizes to measure at; what only inputs fix is 8 otherwise, and on a device not measured",
    )
    add("--threads", type=int, default=1, metavar="N", help="threads to measure with (default 1)")
    add("--seconds", type=float, default=1.0, metavar="S", help="for each race (default 1)")
    add(
        "--minutes",
        type=float,
        metavar="M",
        help="begin no other product after that (default: all)",
    )
    add("-o", "--output", type=Path, metavar="OUT", help="default: a file in the cache folder")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.arguments import checked_sizes
    from openinfer.compiler.tools.progress import waiting
    from openinfer.compiler.tools.tuning import findings, shapes_of, table
    from openinfer.lowering.options import PipelineOptions
    from openinfer.runtime.options import checked_threads
    from openinfer.runtime.packages import open_model
    from openinfer.runtime.tuning import Tuning, cached_path

    if (args.program is None) != args.machine:
        raise UsageError(
            "a program is measured, or the machine", "give the file of a program, or --machine"
        )
    if args.machine and (args.model is not None or args.size):
        option = "--model" if args.model is not None else "--size"
        raise UsageError(
            f"--machine measures products of its own, to which {option} says nothing",
            f"leave {option} out, or give a program instead of --machine",
        )
    if not args.machine and args.program.is_compiled():
        raise UsageError(f"{args.program} is compiled already", "give the text of a program")
    for name in ("seconds", "minutes"):
        value = getattr(args, name)
        if value is not None and not value > 0:
            raise UsageError(f"--{name} takes a number above 0")
    if device_of(args.device).identity() is not None:
        if args.machine:
            raise UsageError(f"--machine measures the CPU, not {args.device}", "leave --device out")
        return _run_on_device(args)
    threads = checked_threads(args.threads) or 1
    target = device_of(args.device).host_target()
    path = args.output if args.output is not None else cached_path(target.name)
    # Read first: a file that is none is found before anything is measured.
    old = Tuning.load(path) if path.is_file() else Tuning(target.name, "")
    if args.machine:
        return _run_on_machine(args, path, old)
    model = args.model if args.model is not None else args.program.package_beside()
    package = open_model(model) if model is not None else None
    sizes = checked_sizes(parse_sizes(args.size))
    options = PipelineOptions(package=package, device=args.device)
    shapes = shapes_of(args.program.graph(), package, options, sizes)
    found = []
    measuring = findings(shapes, target, threads, args.seconds)
    end = time.monotonic() + 60 * args.minutes if args.minutes is not None else None
    for number, shape in enumerate(shapes, 1):
        if found and end is not None and time.monotonic() >= end:
            break
        with waiting(f"measuring {shape.key}, {number} of {len(shapes)}"):
            found.append(next(measuring))
    measuring.close()
    kept = {one.shape.key: one.tile for one in found if one.tile is not None}
    measured = {one.shape.key for one in found}
    others = {key: tile for key, tile in old.tiles.items() if key not in measured}
    if old.target != target.name:
        others = {}
    machine = old.machine if old.target == target.name else None
    Tuning(target.name, _processor(), {**others, **kept}, machine).save(path)
    if args.json:
        rows = [
            {
                "product": one.shape.key,
                "rows": list(one.shape.counts),
                "default_us": one.default,
                "best_us": one.best,
                "gain": one.gain,
                "tile": asdict(one.tile) if one.tile is not None else None,
            }
            for one in found
        ]
        print(json.dumps({"target": target.name, "output": str(path), "products": rows}))
        return 0
    if not found:
        print("the program has no matrix product of floats to measure")
    else:
        print(table(found, target))
    sys.stdout.write(f"{path}\n")
    return 0


def _run_on_machine(args: argparse.Namespace, path: Path, old: Tuning) -> int:
    from openinfer.compiler.tools.progress import waiting
    from openinfer.compiler.tools.tuning_machine import (
        MachineTuner,
        Number,
        as_json,
        table,
        threads_here,
    )
    from openinfer.runtime.options import checked_threads
    from openinfer.runtime.tuning import Tuning

    target = device_of(args.device).host_target()
    threads = threads_here(checked_threads(args.threads) or 1)
    same = old.target == target.name
    tuner = MachineTuner(target, threads, args.seconds, old.machine if same else None)
    tiles = old.tiles if same else {}
    found: list[Number] = []
    end = time.monotonic() + 60 * args.minutes if args.minutes is not None else None
    measuring = tuner.numbers()
    while end is None or not found or time.monotonic() < end:
        with waiting(f"measuring number {len(found) + 1} of the processor"):
            number = next(measuring, None)
        if number is None:
            break
        found.append(number)
        # At once: all of them take minutes, and what was measured outlives an interrupt.
        Tuning(target.name, _processor(), tiles, tuner.found).save(path)
    if args.json:
        numbers = as_json(found)
        print(json.dumps({"cpu": target.cpu, "output": str(path), "numbers": numbers}))
        return 0
    print(table(found, tuner.found, target.cpu))
    sys.stdout.write(f"{path}\n")
    return 0


def _run_on_device(args: argparse.Namespace) -> int:
    from openinfer.compiler.arguments import checked_sizes
    from openinfer.compiler.tools.progress import waiting
    from openinfer.compiler.tools.tuning_device import (
        DeviceFinding,
        DeviceTuner,
        shapes_of,
        table,
    )
    from openinfer.compiler.tools.tuning_steps import ProgramSteps
    from openinfer.lowering.options import PipelineOptions
    from openinfer.runtime.cache import default_cache
    from openinfer.runtime.packages import open_model
    from openinfer.runtime.tuning_device import DeviceTable, Measured, own_path, today

    identity = device_of(args.device).identity()
    assert identity is not None
    device, driver = identity
    if args.output is None and not default_cache().enabled:
        raise UsageError("OPENINFER_CACHE=off: there is no cache folder", "name a file with -o")
    path = args.output if args.output is not None else own_path(device)
    known = DeviceTable.load(path) if path.is_file() else DeviceTable({})
    model = args.model if args.model is not None else args.program.package_beside()
    package = open_model(model) if model is not None else None
    sizes = checked_sizes(parse_sizes(args.size))
    options = PipelineOptions(package=package, device=args.device, sizes=sizes)
    shapes = shapes_of(args.program.graph(), package, options)
    rows = known.rows_of(device)
    left = [
        shape
        for shape in shapes
        if any(form not in rows or rows[form].driver != driver for form in shape.forms)
    ]
    found: list[DeviceFinding] = []
    end = time.monotonic() + 60 * args.minutes if args.minutes is not None else None
    with ProgramSteps(args.program.graph(), package, options) as steps:
        tuner = DeviceTuner(options, args.seconds, steps)
        for number, shape in enumerate(left, 1):
            if found and end is not None and time.monotonic() >= end:
                break
            with waiting(f"measuring {shape.product}, {number} of {len(left)}"):
                one = tuner.measure(shape)
            found.append(one)
            default, best = round(one.default, 2), round(one.best, 2)
            # Read anew: somebody else may have measured other products meanwhile.
            known = DeviceTable.load(path) if path.is_file() else DeviceTable({})
            for form, tile in one.rows.items():
                row = Measured(tile, driver, today(), default, best, str(one.steps or ""))
                known = known.with_row(device, form, row)
            known.save(path)
    before, later = len(shapes) - len(left), len(left) - len(found)
    if args.json:
        products = [
            {
                "product": str(one.shape.product),
                "default_us": one.default,
                "best_us": one.best,
                "gain": one.gain,
                "tile": list(one.choice.tile.numbers) if one.choice is not None else None,
                "by_workgroups": one.choice is not None and one.choice.product.workgroup,
                "tried": one.tried,
                "refused": {str(choice): why for choice, why in one.refused.items()},
            }
            for one in found
        ]
        said = {"device": device, "driver": driver, "output": str(path), "products": products}
        print(json.dumps({**said, "known": before, "left": later}))
        return 0
    if not shapes:
        print("the program has no matrix product of known sizes that the device computes in tiles")
        print("sizes that only inputs fix are given with --size NAME=N")
    if found:
        print(table(found, f"{device}, {driver}"))
    if before:
        print(f"{before} of {len(shapes)} products were measured before")
    if later:
        print(f"{later} of {len(shapes)} products are left: the same command goes on with them")
    if path.is_file():
        sys.stdout.write(f"{path}\n")
    return 0


def _processor() -> str:
    """The processor's name, for people."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown"
