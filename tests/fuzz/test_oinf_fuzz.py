"""Damaged packages: cut at every byte, with bytes and whole fields changed.

Each file must be refused with PackageError or UnsupportedError, or be read to the end as another
valid file. A failure prints what to change in which sample. The generator is seeded.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import save

from openinfer.runtime.errors import PackageError, UnsupportedError
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_fields import Array
from openinfer.runtime.packages.inspect import inspect_text
from openinfer.runtime.packages.oinf_writer import OinfContent, to_oinf_bytes
from openinfer.runtime.packages.values import (
    Bitset,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    ScalarValue,
    TensorSpec,
    UninitializedTensor,
)
from tests.sweeps import FULL, sweep

MEMORY = 16 << 20
"""Far above what a file of two kilobytes needs, far below what a damaged count could ask for."""
FIELDS = (0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)

Change = tuple[str, bytes]


def oinf_sample() -> bytes:
    """A dtype of each kind, every kind of metadata, both kinds of quantisation record."""
    tensors: dict[str, Any] = {
        name: TensorSpec([-1, -1] if name in ("i1", "t1", "t2") else [1, 1], dtype=name)
        for name in ("bf16", "bitset", "bool", "f32", "f8", "i1", "i4", "i64", "t1", "t2", "u2")
    }
    tensors["later"] = UninitializedTensor("f16", (2, 3))
    tensors["none"] = np.zeros((0, 3), np.float32)
    tensors["scalar"] = np.array(3, np.int16)
    tensors["q1"] = TensorSpec(
        np.zeros((2, 3), np.int8), quant=QuantParams("symmetric", QuantScale.per_tensor(0.5))
    )
    tensors["q2"] = TensorSpec(
        np.zeros((2, 3), np.uint8),
        quant=QuantParams(
            "asymmetric",
            QuantScale.per_channel(1, [1, 2, 3]),
            QuantZeroPoint.per_channel(1, [4, 5, 6]),
        ),
    )
    metadata: dict[str, Any] = {
        "array": [[1, 2], [3, 400]],
        "bits": Bitset([1, 0, 1]),
        "flag": True,
        "number": ScalarValue(3, "i4"),
        "packed": TensorSpec([1, 0, -1], "t2"),
        "text": "some text",
    }
    return to_oinf_bytes(OinfContent({"B": 4, "D": 16}, metadata, tensors))


def old_oinf_sample() -> bytes:
    """Version 1: tensor entries without the quantisation fields."""
    name = struct.pack("<I4s", 1, b"w")
    sizes = struct.pack("<I4sQ", 1, b"B", 4)
    entry = name + struct.pack("<3I4Q", 18, 2, 1, 2, 3, 3, 152)
    data = sizes + entry
    data += bytes(-len(data) % 8) + b"\x21\x43\x65" + bytes(5)
    offset_data = 72 + len(data) - 8
    header = struct.pack(
        "<5s6I5Q", b"OINF\0", 1, 0, 1, 0, 1, 0, 72, 88, 88, offset_data, 72 + len(data)
    )
    return header + bytes(3) + data.replace(struct.pack("<Q", 152), struct.pack("<Q", offset_data))


def safetensors_sample() -> bytes:
    tensors = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "mask": np.array([True, False]),
        "ids": np.arange(3),
        "none": np.zeros((0, 2), np.float16),
    }
    return save(tensors, metadata={"format": "pt"})


def gguf_sample() -> bytes:
    """Every type of value, arrays of numbers and of texts, plain tensors, blocks and an unknown type."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_block_count(2)
        writer.add_chat_template("{{ messages }}")
        writer.add_array("tokenizer.ggml.tokens", ["<s>", "a", "bc"])
        writer.add_array("tokenizer.ggml.scores", [0.5, -1.0, 2.0])
        writer.add_array("flags", [True, False])
        writer.add_custom_alignment(32)
        for number, kind in enumerate(("uint8", "int8", "uint16", "int16", "int32", "float32")):
            getattr(writer, f"add_{kind}")(kind, number)
        for number, kind in enumerate(("uint64", "int64", "float64", "bool")):
            getattr(writer, f"add_{kind}")(kind, bool(number) if kind == "bool" else number)
        writer.add_tensor("plain", np.arange(6, dtype=np.float16).reshape(2, 3))
        types = gguf.GGMLQuantizationType
        for kind, nbytes in ((types.Q4_0, 18), (types.Q6_K, 210), (types.IQ2_XXS, 66)):
            data = np.full((1, nbytes), 0x21, np.uint8)
            writer.add_tensor(kind.name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def changes(data: bytes, seed: int) -> Iterator[Change]:
    """Each damaged file with the words that describe the damage."""
    generator = random.Random(seed)
    for size in range(len(data)):
        yield f"cut to {size} bytes", data[:size]
    yield "one byte more", data + b"\0"
    for offset, byte in enumerate(data):
        values = byte ^ 1, byte ^ 0x80, generator.randrange(256)
        for value in values if FULL else values[offset % 3 :][:1]:
            yield f"byte {offset} = {value:#x}", _patched(data, offset, bytes([value]))
    for _ in range(sweep(500, 1500)):
        offset = generator.randrange(len(data) - 8)
        layout = generator.choice(("<I", "<Q"))
        value = generator.choice((*FIELDS, len(data), offset, generator.randrange(len(data))))
        patch = struct.pack(layout, value & (0xFFFFFFFF if layout == "<I" else (1 << 64) - 1))
        yield f"{layout} at {offset} = {value:#x}", _patched(data, offset, patch)
    for _ in range(sweep(200, 500)):
        target, source = (generator.randrange(len(data) - 40) for _ in range(2))
        size = generator.randrange(1, 40)
        patch = data[source : source + size]
        yield f"{size} bytes from {source} to {target}", _patched(data, target, patch)


def _patched(data: bytes, offset: int, patch: bytes) -> bytes:
    return data[:offset] + patch + data[offset + len(patch) :]


def read_all(path: Path, thoroughly: bool) -> bool:
    """Read every value of a package; False when it was refused. `thoroughly`: show and rewrite."""
    try:
        with open_model(path) as package:
            dict(package.metadata)
            if isinstance(package, GgufPackage):
                arrays = [field for field in package.fields.values() if isinstance(field, Array)]
                for array in arrays:
                    if array.dtype == "str":
                        assert len(array.texts()) == array.count
            for name, info in package.tensors.items():
                if not info.supported:
                    continue
                assert info.nbytes == (info.dtype.nbytes(info.size) if info.has_data else 0)
                if info.has_data:
                    with np.errstate(invalid="ignore"):
                        assert package.tensor(name).values().shape == info.shape
            assert len(package.header_hash()) == 64
            if thoroughly:
                inspect_text(package)
            if thoroughly and package.format.startswith("oinf"):
                rewritten = path.with_name("rewritten.oinf")
                rewritten.write_bytes(to_oinf_bytes(package))
                with open_model(rewritten) as again:
                    assert again.header_hash() == package.header_hash()
                rewritten.unlink()
    except (PackageError, UnsupportedError) as error:
        if not error.hint:
            raise ValueError("the error has no hint") from error
        return False
    return True


@pytest.mark.parametrize(
    ("extension", "sample", "seed"),
    [
        ("oinf", oinf_sample, 1),
        ("oinf", old_oinf_sample, 2),
        ("safetensors", safetensors_sample, 3),
        ("gguf", gguf_sample, 4),
    ],
)
def test_damaged_packages(tmp_path: Path, extension: str, sample: Any, seed: int) -> None:
    data: bytes = sample()
    path = tmp_path / f"model.{extension}"
    path.write_bytes(data)
    assert read_all(path, True)
    path.unlink()
    counts = {True: 0, False: 0}
    tracemalloc.start()
    try:
        for number, (words, damaged) in enumerate(changes(data, seed)):
            path.write_bytes(damaged)
            tracemalloc.reset_peak()
            try:
                counts[read_all(path, number % 16 == 0)] += 1
            except BaseException as error:
                raise AssertionError(f"{sample.__name__}, {words}: {error!r}") from error
            peak = tracemalloc.get_traced_memory()[1]
            assert peak < MEMORY, f"{sample.__name__}, {words}: {peak} bytes were allocated"
            # A new file each time: a mapping may still show the old one.
            path.unlink()
    finally:
        tracemalloc.stop()
    assert min(counts.values()) > 50, counts


def test_a_cut_file_is_always_refused(tmp_path: Path) -> None:
    samples = {"oinf": oinf_sample, "safetensors": safetensors_sample, "gguf": gguf_sample}
    for extension, sample in samples.items():
        data = sample()
        path = tmp_path / f"model.{extension}"
        # What follows the data of the last tensor in a `.gguf` file is padding, which may be missing.
        length = len(data) - (-66 % 32 if extension == "gguf" else 0)
        for size in range(length):
            path.write_bytes(data[:size])
            with pytest.raises(PackageError):
                open_model(path)
            path.unlink()
