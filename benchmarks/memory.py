"""What a call holds beyond weights, inputs and state, as every runtime tells it: bytes that live at
once, the result among them.

No runtime is asked before its rounds are over, since those that look on are slower. What a runtime
does not tell stays out: kernels may take memory that their allocator never sees.
"""

from __future__ import annotations

import ctypes
import json
import re
import tempfile
import tracemalloc
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import openinfer as oi
from benchmarks.peers import Asked
from benchmarks.workloads.base import Workload
from openinfer.compiler.api import compile as compiled
from openinfer.runtime.plan import lower_bound
from openinfer.runtime.program import Program
from openinfer.runtime.sizes import THREADS

Told = dict[str, int]
"""Bytes: `allocated`, and for our own programs the least that any plan needs, `live`."""
LATE = 1024
"""What sizes that only a step knows may grow to where no step tells."""
HOW = {
    "openinfer": "the size of the arena, which holds the result and the scratch of kernels",
    "onnxruntime": (
        "the peak of its allocator less what was in use before the first node, from its profiler, "
        "in a session of its own"
    ),
    "openvino": (
        "the heap that `release_memory` gives back and the next call takes again, and the result; "
        "scratch of its kernels is not in it"
    ),
    "aot": "the most that one call holds by PyTorch's profiler; scratch of kernels is not in it",
    "iree": "what its allocator hands out in a call, less the copies of the inputs",
    "tinygrad": "what it counts as in use between calls, less weights and inputs",
    "llama.cpp": (
        "the compute and output buffers of a context for one token, as its log says; scratch of its "
        "kernels is not in it"
    ),
    "numpy": "the peak of `tracemalloc`; scratch of its library of products is not in it",
}
"""Where the numbers come from, by peer."""
SAME = {
    "openinfer-bf16": "openinfer",
    "openvino-bf16": "openvino",
    "onnxruntime-i8": "onnxruntime",
    "torch": "aot",
    "torch-compile": "aot",
}
"""Peers whose numbers come from where another one's do."""


def planned(asked: Asked) -> Told:
    """Our memory plan on as many threads as the rounds have, and its largest live set; sizes that only
    a step knows are those of the row's call."""
    workload, setting = asked.workload, asked.setting
    with oi.open_model(workload.package(setting.folder)) as model:
        sizes = workload.sizes() or None
        options: dict[str, Any] = {"precision": setting.precision} if setting.precision else {}
        options["fallback"] = setting.fallback
        program = compiled(oi.graph_file(workload.program), model, setting.device, sizes, **options)
        dynamic: dict[str, int] = {}
        if program.manifest.dynamic_sizes:
            executor: Any
            with program.make_executor(setting.threads) as executor:
                workload.start(executor)
                executor.run(**asked.inputs)
                capacity: dict[str, int] = executor._state.dynamic_capacity
                dynamic = {f"bound.{name}": size for name, size in capacity.items()}
        arena, live = arena_of(workload, program, setting.threads, dynamic)
    return {"allocated": arena, "live": live}


def arena_of(
    workload: Workload, program: Program, threads: int = 1, dynamic: Mapping[str, int] | None = None
) -> tuple[int, int]:
    """Bytes of a program's memory plan for a row, and of its largest live set."""
    sizes = {**workload.call_sizes(), THREADS: threads, **(dynamic or {})}
    for name in program.manifest.dynamic_sizes:
        sizes.setdefault(f"bound.{name}", LATE)
    return program.arena_bytes(sizes), lower_bound(program.manifest, sizes)


def onnxruntime(asked: Asked) -> Told:
    """From the events of a profiled session: the peak of its arena less what weights take of it."""
    import onnxruntime as ort

    from benchmarks.peers_onnx import onnx_file, onnxruntime_options

    graph = str(onnx_file(asked.workload, asked.setting, asked.peer))
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime_options(asked.setting)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        for _ in range(3):  # the first call finds out what the others take in one piece
            session.run(None, asked.inputs)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return {"allocated": of_events(events)}


def of_events(events: Iterable[Mapping[str, Any]]) -> int:
    """Bytes beyond those in use before the first node. Raises RuntimeError where none are told.

    The peak counts what kernels take and give back. It may be one of loading, when weights were laid
    out anew; then the most that was in use behind a node stands for it.
    """
    seen = [event["args"] for event in events if "mem_bytes_in_use" in event.get("args", {})]
    if not seen:
        raise RuntimeError("its profile says nothing about memory")
    used = [int(each["mem_bytes_in_use"]) for each in seen]
    before = used[0] - int(seen[0]["mem_in_use_delta"])
    peaks = [int(each["mem_in_use_peak"]) for each in seen]
    ours = peaks[-1] > peaks[0] or peaks[0] == used[0]
    return (peaks[-1] if ours else max(used)) - before


class _Heap(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "mapped"),
            *("usmblks", "fsmblks", "used", "fordblks", "keepcost"),
        )
    ]


def openvino(asked: Asked) -> Told:
    """What the compiled model's `release_memory` frees, and the result, which the request holds.

    Raises RuntimeError where the C library does not count its heap.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        raise RuntimeError("the C library does not count its heap")
    library.mallinfo2.restype = _Heap

    def held() -> int:
        heap = library.mallinfo2()
        return heap.used + heap.mapped

    model = asked.run.__self__.compiled
    least: list[int] = []
    for _ in range(3):
        result = asked.run(asked.inputs).nbytes
        before = held()
        model.release_memory()
        freed = before - held()
        before = held()
        asked.run(asked.inputs)
        # Lists and names come and go as well; tensors come back.
        least.append(max(min(freed, held() - before), 0) + result)
    return {"allocated": min(least)}


def iree(asked: Asked) -> Told:
    """From the statistics of its allocator: what a call takes, all at once or less."""
    allocator: Any = asked.run.__self__.allocator
    if not allocator.has_statistics:
        raise RuntimeError("it was built without statistics")
    asked.run(asked.inputs)
    before = allocator.statistics
    asked.run(asked.inputs)
    after = allocator.statistics
    taken = after["device_bytes_allocated"] - before["device_bytes_allocated"]
    resting = before["device_bytes_allocated"] - before["device_bytes_freed"]
    # Either is an upper bound: a call may free and take again, and loading may have held more.
    most = min(taken, after["device_bytes_peak"] - resting)
    return {"allocated": most - sum(array.nbytes for array in asked.inputs.values())}


def tinygrad(asked: Asked) -> Told:
    """What its JIT keeps for the next call: all but weights and the inputs it was recorded with."""
    import onnx
    from onnx import numpy_helper
    from tinygrad.helpers import GlobalCounters

    from benchmarks.peers_onnx import onnx_file

    asked.run(asked.inputs)
    graph = onnx.load(str(onnx_file(asked.workload, asked.setting, asked.peer))).graph
    known = sum(numpy_helper.to_array(each).nbytes for each in graph.initializer)
    known += sum(array.nbytes for array in asked.inputs.values())
    return {"allocated": max(GlobalCounters.mem_used - known, 0)}


def torch(asked: Asked) -> Told:
    """The most bytes that a call of a program holds at once beyond what it was given, by the events
    of PyTorch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        for _ in range(3):  # what the first one frees may be older than the profiler
            asked.run(asked.inputs)
    profiler: Any = found.profiler
    live = least = most = 0
    for event in profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            least, most = min(least, live), max(most, live - least)
    return {"allocated": most}


def llama(asked: Asked) -> Told:
    """The buffers of a context that takes one token at a time, from the lines of llama.cpp's log."""
    return {"allocated": of_log(asked.run.__self__.log_of_one_token())}


def of_log(lines: Iterable[str]) -> int:
    """Bytes of all compute and output buffers. Raises RuntimeError where the log names none."""
    # As it goes, a context says once more what it had, with more digits.
    text = "".join(lines)
    buffers = re.findall(r"compute buffer size (?:is|of) +([\d.]+) MiB", text)
    if not buffers:
        raise RuntimeError("its log names no buffers")
    buffers += re.findall(r"output buffer size = +([\d.]+) MiB", text)
    return round(sum(map(float, buffers)) * (1 << 20))


def numpy(asked: Asked) -> Told:
    """The peak of what Python and NumPy allocate in a call."""
    tracemalloc.start()
    try:
        asked.run(asked.inputs)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        asked.run(asked.inputs)
        return {"allocated": tracemalloc.get_traced_memory()[1] - before}
    finally:
        tracemalloc.stop()
