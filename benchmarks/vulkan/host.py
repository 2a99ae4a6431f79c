"""What a step costs beside the work of the device: submission, recording, the first answer of a process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import openinfer as oi
from benchmarks.vulkan import ours
from benchmarks.vulkan.chains import Chain
from benchmarks.vulkan.models import PROGRAMS, Encoder
from benchmarks.vulkan.recording import recorded
from openinfer.runtime.errors import OpenInferError

NAME = "host"
TITLE = "MiniLM's encoder, f16, 1 x 128 tokens: the host's part"
ROOT = Path(__file__).resolve().parent.parent.parent
ANSWERS = 3
"""Processes that are started, the first one so that caches have what it needs."""


def measured(device: str, small: bool, seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """The parts, as they are known: a name, and numbers or an error."""
    sizes = Encoder(batch=2, length=16, width=32, inner=64, heads=2, layers=1)
    chain = (sizes if small else Encoder(1, 128)).chain()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.oinf"
        ours.write_weights(chain, path)
        try:
            with oi.open_model(path) as package:
                programs = ours.compiled(chain, package, device)
                yield "step", _step(chain, programs[0], seconds)
                yield "recording", recorded(programs[0], chain)
        except (OpenInferError, ValueError) as error:
            yield "step", {"error": str(error)[:500]}
            return
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **chain.inputs())
        yield "first answer", _first_answers(path, inputs, device)


def _step(chain: Chain, program: oi.Program, seconds: float) -> dict[str, Any]:
    """Wall time of a step, and that of the device."""
    with ours.runs(chain, [program]) as (timed,):
        timed.step()
        timed.forget()
        end = time.perf_counter() + seconds
        while len(timed.wall) < ours.LEAST or time.perf_counter() < end:
            timed.step()
        device, wall = median(timed.device), median(timed.wall)
        found = {"seconds": device, "wall": wall, "least": min(timed.wall)}
        return {**found, "beyond": wall - device, "commands": timed.commands}


def _first_answers(package: Path, inputs: Path, device: str) -> dict[str, Any]:
    """Seconds from the start of a process to its first answer."""
    module = "benchmarks.vulkan.first_answer"
    program = str(PROGRAMS / "encoder_f16.oi")
    words = [sys.executable, "-m", module, program, str(package), device, str(inputs)]
    times: list[float] = []
    # Modules are among what the first process leaves for the others, as where Python may write beside them.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(package.parent / "modules")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(ANSWERS):
        with tempfile.TemporaryFile("w+") as errors:
            start = time.perf_counter()
            with subprocess.Popen(
                words, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            ) as child:
                assert child.stdout is not None
                answer = child.stdout.readline()
                times.append(time.perf_counter() - start)
            if not answer:
                errors.seek(0)
                return {"error": (errors.read().strip().splitlines() or [""])[-1][:500]}
    return {"first": times[0], "seconds": median(times[1:]), "least": min(times[1:])}


def lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the page says."""
    step, recording, first = (found.get(part, {}) for part in ("step", "recording", "first answer"))
    if "beyond" in step:
        yield (
            "a step that is submitted again: wall time beyond that of the device (goal 25 µs)",
            f"{step['beyond'] * 1e6:.1f} µs of {step['wall'] * 1e6:.1f} µs, {step['commands']} commands",
        )
    if "dispatches" in recording:
        each, native = recording["seconds"] * 1e6, recording["native"] * 1e6
        yield (
            "recording, each dispatch; beside a native loop that records the same (goal 1.3 times)",
            f"{each:.2f} µs; {native:.2f} µs ({each / native:.2f})",
        )
    if recording.get("rows"):
        yield (
            "working out the rows that are recorded, each dispatch, when a step comes for the first time",
            f"{recording['rows'] * 1e6:.1f} µs",
        )
    if "seconds" in first:
        yield (
            "first answer of a process, from its start, once others have filled the caches (goal 1.0 s)",
            f"{first['seconds']:.2f} s; the first one {first['first']:.2f} s",
        )
    for part in ("step", "recording", "first answer"):
        if "error" in found.get(part, {}):
            yield part, f"failed: {found[part]['error']}"
