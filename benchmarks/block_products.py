"""Products with weights in blocks, one thread: ours, ggml's if `xllamacpp` is there, the read bandwidth.

    python -m benchmarks.block_products                 # one row: decode
    python -m benchmarks.block_products --rows 128      # prefill
    python -m benchmarks.block_products q4_k q6_k --shape 32000x2048

Processor time is counted, so that neighbours on the machine disturb little; of all rounds the least. ggml
multiplies blocks as they lie in the file; llama.cpp lays some formats out anew.
"""

from __future__ import annotations

import argparse
import ctypes
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np

import openinfer as oi
from openinfer.runtime.blocks import BLOCKS

TOTAL = 160_000_000
"""Bytes of the weights of a product: more than caches hold."""
PROGRAM = """
dynamic {{ x: f32[T, {depth}]; }}
constant {{ W(l): f32[{columns}, {depth}] @pattern("w.{{l}}") @dtype(_); }}
block entry {{
    y = op linear(x, W[0]);
    loop layers (l in 1..block_count) {{
        z = op linear(x, W[l]);
        y = op add(y, z);
    }}
    return y;
}}
"""


def rows_of(name: str, columns: int, depth: int) -> Any:
    """Rows of blocks with small scales, the same ones again and again."""
    block = BLOCKS[name]
    rng = np.random.default_rng(1)
    found = rng.integers(0, 256, (16, depth // block.elements, block.nbytes), np.uint8)
    for part in block.parts:
        if part.name in ("d", "m", "dmin"):
            scale = np.full((*found.shape[:2], 1), 0.01, "<f2")
            found[..., part.offset : part.offset + 2] = scale.view(np.uint8)
        if part.name == "e":
            found[..., part.offset] = 120
    return np.tile(found.reshape(16, -1), (-(-columns // 16), 1))[:columns]


def ours(
    folder: Path, name: str, data: Any, count: int, rows: int, precision: str | None
) -> Callable[[], object]:
    """Multiplies some rows with `count` matrices in blocks."""
    path = folder / f"{name}.gguf"
    columns, depth = data.shape[0], data.shape[1] // BLOCKS[name].nbytes * BLOCKS[name].elements
    if not path.exists():
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_block_count(count)
        for number in range(count):
            kind = gguf.GGMLQuantizationType[name.upper()]
            writer.add_tensor(f"w.{number}", data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    text = PROGRAM.format(columns=columns, depth=depth)
    program = oi.compile(oi.graph(text), oi.open_model(path), precision=precision)
    executor = program.make_executor(threads=1)
    x = np.ones((rows, depth), np.float32)
    return lambda: executor.run(x=x)


class _Memory(ctypes.Structure):
    """`ggml_init_params`."""

    _fields_ = (("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("empty", ctypes.c_bool))


def ggml(name: str, data: Any, count: int, rows: int) -> Callable[[], object] | None:
    """The same by the library inside of `xllamacpp`; None without it."""
    found = find_spec("xllamacpp")
    folders = found.submodule_search_locations if found is not None else None
    libraries = sorted(Path(folders[0]).glob("*.so")) if folders else []
    if not libraries:
        return None
    library: Any = ctypes.CDLL(str(libraries[0]))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for function, arguments, result in (
        ("init", [_Memory], pointer),
        ("new_tensor_2d", [pointer, ctypes.c_int, number, number], pointer),
        ("get_data", [pointer], pointer),
        ("mul_mat", [pointer, pointer, pointer], pointer),
        ("new_graph", [pointer], pointer),
        ("build_forward_expand", [pointer, pointer], None),
        ("graph_compute_with_ctx", [pointer, pointer, ctypes.c_int], ctypes.c_int),
    ):
        entry: Any = getattr(library, f"ggml_{function}")
        entry.argtypes, entry.restype = arguments, result
    block = BLOCKS[name]
    columns, depth = data.shape[0], data.shape[1] // block.nbytes * block.elements
    size = (data.nbytes + 4 * columns * rows) * count + 4 * rows * depth + (64 << 20)
    context = library.ggml_init(_Memory(size, None, False))
    x = library.ggml_new_tensor_2d(context, 0, depth, rows)
    ones = np.ones(rows * depth, np.float32)
    ctypes.memmove(library.ggml_get_data(x), ones.ctypes.data, ones.nbytes)
    graph = library.ggml_new_graph(context)
    for _ in range(count):
        weight = library.ggml_new_tensor_2d(context, block.gguf_id, depth, columns)
        ctypes.memmove(library.ggml_get_data(weight), data.ctypes.data, data.nbytes)
        library.ggml_build_forward_expand(graph, library.ggml_mul_mat(context, weight, x))
    return lambda: library.ggml_graph_compute_with_ctx(context, graph, 1)


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("formats", nargs="*", default=["q8_0", "q4_0", "q4_k", "q6_k"])
    parser.add_argument("--shape", default="8192x2048", help="columns x steps")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    columns, depth = (int(part) for part in given.shape.split("x"))
    warnings.simplefilter("ignore")
    vector = np.ones(1 << 26, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        works: dict[tuple[str, str], Callable[[], object]] = {}
        for name in given.formats:
            data = rows_of(name, columns, depth)
            count = max(2, TOTAL // data.nbytes)
            for way, precision in (("exact", None), ("q8", "q8")):
                works[name, way] = ours(Path(folder), name, data, count, given.rows, precision)
            peer = ggml(name, data, count, given.rows)
            if peer is not None:
                works[name, "ggml"] = peer
        best = dict.fromkeys(works, float("inf"))
        read = float("inf")
        for _ in range(given.rounds):
            read = min(read, seconds(lambda: np.dot(vector, vector)))
            for key, work in works.items():
                best[key] = min(best[key], seconds(work))
    print(f"read bandwidth {vector.nbytes / read / 1e9:.1f} GB/s")
    for (name, way), least in best.items():
        size = rows_of(name, columns, depth).nbytes
        size *= max(2, TOTAL // size)
        share = size / least / (vector.nbytes / read)
        work = 2 * given.rows * size * BLOCKS[name].elements / BLOCKS[name].nbytes / least
        print(f"{name:7} {way:6} {1e3 * least:8.2f} ms  {share:5.0%}  {work / 1e9:6.1f} Gop/s")


if __name__ == "__main__":
    main()
