"""Weights and compiled programs of all rows, by several processes: none of it needs the device.

What is compiled is found again in the cache of compiled programs.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import openinfer as oi
from benchmarks.vulkan import ours
from benchmarks.vulkan.chains import Chain
from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.options import available_cpus

MOST_JOBS = 12


@dataclass
class Prepared:
    """The package of a row, or why there is none."""

    package: Path
    error: str = ""


def prepare(
    chains: Mapping[str, Chain], small: bool, folder: Path, device: str, jobs: int | None
) -> dict[str, Prepared]:
    """Writes the packages of rows and compiles their programs."""
    if jobs is None:
        jobs = min(MOST_JOBS, available_cpus() - 1, len(chains))
    if jobs < 1:
        return {name: _prepared(name, chain, folder, device) for name, chain in chains.items()}
    # Not by fork: this process may have threads and a driver.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        asked = {name: pool.submit(_row, name, small, folder, device) for name in chains}
        return {name: _result(future, folder / name) for name, future in asked.items()}


def _result(future: Future[Prepared], path: Path) -> Prepared:
    try:
        return future.result()
    except Exception as error:  # Of a process that ended, or whatever a pass raised.
        return Prepared(path, f"{type(error).__name__}: {error}"[:500])


def _row(name: str, small: bool, folder: Path, device: str) -> Prepared:
    """In another process, where a chain, which has functions, cannot be sent."""
    from benchmarks.vulkan.rows import all_rows

    row = next(row for row in all_rows() if row.name == name)
    return _prepared(name, row.small() if small else row.chain(), folder, device)


def _prepared(name: str, chain: Chain, folder: Path, device: str) -> Prepared:
    path = folder / f"{name}.oinf"
    try:
        ours.write_weights(chain, path)
        with oi.open_model(path) as package:
            ours.compiled(chain, package, device)
    except OpenInferError as error:
        return Prepared(path, str(error)[:500])
    return Prepared(path)
