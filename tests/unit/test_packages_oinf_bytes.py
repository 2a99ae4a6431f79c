"""`.oinf` bytes against a second writer, kept apart from ours: `build` follows the format's text.

It lays files out from plain tuples, and wrongly where asked to: with the offsets that the original's
Python writer computes, with lengths that lack their padding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages import open_model
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


@dataclass(frozen=True)
class Stored:
    """A tensor entry by its numbers."""

    name: str
    kind: int
    dims: tuple[int, ...]
    data: bytes | None = None
    quant: bytes | None = None


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def text(value: str) -> bytes:
    raw = value.encode()
    return padded(struct.pack("<I", len(raw)) + raw)


def record(
    scheme: int,
    modes: tuple[int, int],
    axes: tuple[int, int],
    scales: Sequence[float],
    points: Sequence[int] = (),
) -> bytes:
    head = struct.pack("<4I", scheme, *modes, 0)
    head += struct.pack("<4Q", axes[0], len(scales), axes[1], len(points))
    return padded(head + struct.pack(f"<{len(scales)}f{len(points)}i", *scales, *points))


def build(
    sizes: dict[str, int],
    metadata: dict[str, tuple[int, bytes]],
    tensors: Sequence[Stored],
    interleaved: bool = False,
) -> bytes:
    """A file; with `interleaved`, its offsets alternate while its bytes do not."""
    size_table = b"".join(text(name) + struct.pack("<Q", sizes[name]) for name in sorted(sizes))
    entries = sorted(tensors, key=lambda tensor: tensor.name)
    metadata_length = sum(len(text(name)) + 24 for name in metadata)
    tensor_length = sum(len(text(t.name)) + 12 + 8 * len(t.dims) + 32 for t in entries)
    at_metadata = len(padded(bytes(72 + len(size_table))))
    at_tensors = len(padded(bytes(at_metadata + metadata_length)))
    at_data = len(padded(bytes(at_tensors + tensor_length)))

    body = b""
    metadata_table = b""
    for name in sorted(metadata):
        kind, payload = metadata[name]
        metadata_table += text(name)
        metadata_table += struct.pack("<IIQQ", kind, 0, len(payload), at_data + len(body))
        body += padded(payload)
    wanted = [(t, what) for t in entries for what in ("data", "quant")]
    offsets: dict[tuple[str, str], int] = {}
    order = wanted if interleaved else sorted(wanted, key=lambda item: item[1])
    position = at_data + len(body)
    for tensor, what in order:
        payload = getattr(tensor, what)
        if payload is not None:
            offsets[tensor.name, what] = position
            position += len(padded(payload))
    for tensor, what in sorted(wanted, key=lambda item: item[1]):
        body += padded(getattr(tensor, what) or b"")
    tensor_table = b""
    for tensor in entries:
        flags = (tensor.data is not None) + 2 * (tensor.quant is not None)
        tensor_table += text(tensor.name)
        tensor_table += struct.pack("<3I", tensor.kind, len(tensor.dims), flags)
        tensor_table += struct.pack(f"<{len(tensor.dims)}Q", *tensor.dims)
        for what in ("data", "quant"):
            length = len(getattr(tensor, what) or b"")
            tensor_table += struct.pack("<2Q", length, offsets.get((tensor.name, what), 0))

    counts = (2, 0, len(sizes), len(metadata), len(entries), 0)
    header = struct.pack(
        "<5s6I5Q", b"OINF\0", *counts, 72, at_metadata, at_tensors, at_data, at_data + len(body)
    )
    data = padded(padded(header) + size_table)
    data = padded(data + metadata_table)
    return padded(data + tensor_table) + body


WORKED_DUMP = """
4f494e4600 02000000 00000000 00000000 00000000 02000000 00000000
4800000000000000 4800000000000000 4800000000000000 c800000000000000 1001000000000000 000000
01000000 61000000 05000000 01000000 01000000 0400000000000000
0400000000000000 c800000000000000 0000000000000000 0000000000000000
01000000 7a000000 01000000 02000000 03000000 0200000000000000 0200000000000000
0400000000000000 d000000000000000 3800000000000000 d800000000000000
01020304 00000000 01020304 00000000
01000000 02000000 00000000 00000000
0000000000000000 0200000000000000 0000000000000000 0000000000000000 cdcccc3d cdcc4c3e
"""
"""A small file, number by number: u8[4] and a quantised i8[2, 2]."""


def worked() -> OinfContent:
    scale = QuantScale.per_channel(0, [0.1, 0.2])
    values = np.array([[1, 2], [3, 4]], np.int8)
    return OinfContent(
        tensors={
            "a": np.array([1, 2, 3, 4], np.uint8),
            "z": TensorSpec(values, quant=QuantParams("symmetric", scale)),
        }
    )


def test_a_file_number_by_number() -> None:
    assert to_oinf_bytes(worked()) == bytes.fromhex(WORKED_DUMP)


def test_both_writers_agree_on_the_worked_file() -> None:
    quant = record(1, (2, 0), (0, 0), [0.1, 0.2])
    tensors = [Stored("z", 1, (2, 2), bytes([1, 2, 3, 4]), quant)]
    tensors.append(Stored("a", 5, (4,), bytes([1, 2, 3, 4])))
    assert build({}, {}, tensors) == bytes.fromhex(WORKED_DUMP)


PATTERNS: dict[str, tuple[list[Any], bytes]] = {
    "i8": ([-128, 127], b"\x80\x7f"),
    "i16": ([-2, 300], struct.pack("<2h", -2, 300)),
    "i32": ([-2, 1 << 30], struct.pack("<2i", -2, 1 << 30)),
    "i64": ([-2, 1 << 62], struct.pack("<2q", -2, 1 << 62)),
    "u8": ([0, 255], b"\x00\xff"),
    "u16": ([1, 65535], struct.pack("<2H", 1, 65535)),
    "u32": ([1, (1 << 32) - 1], struct.pack("<2I", 1, (1 << 32) - 1)),
    "u64": ([1, (1 << 64) - 1], struct.pack("<2Q", 1, (1 << 64) - 1)),
    "f16": ([1.5, -math.inf], struct.pack("<2e", 1.5, -math.inf)),
    "f32": ([1.5, -0.0], struct.pack("<2f", 1.5, -0.0)),
    "f64": ([1.5, 1e-310], struct.pack("<2d", 1.5, 1e-310)),
    "bool": ([True, False], b"\x01\x00"),
    "bitset": ([0, 0b10100101], b"\x00\xa5"),
    "bf16": ([1.0, -2.0], b"\x80\x3f\x00\xc0"),
    "f8": ([1.0, -2.0], b"\x3c\xc0"),
    "i4": ([-8, 7, -1], b"\x78\x0f"),
    "i2": ([-2, 1, -1, 0, 1], b"\x36\x01"),
    "i1": ([-1, 0, -1], b"\x05"),
    "u4": ([0, 15, 9], b"\xf0\x09"),
    "u2": ([3, 0, 2, 1, 1], b"\x63\x01"),
    "u1": ([1, 0, 1, 1, 0, 0, 0, 0, 1], b"\x0d\x01"),
    "t2": ([-1, 0, 1, 1, -1], b"\x53\x03"),
    "t1": ([1, -1, 1], b"\x05"),
}
"""Values of each dtype and the bytes that stand for them."""


def test_every_dtype_has_a_pattern() -> None:
    assert set(PATTERNS) == {name for name, row in DTYPES.items() if row.oinf_id is not None}


@pytest.mark.parametrize("name", PATTERNS)
def test_tensors_scalars_and_arrays_of_each_dtype(name: str, tmp_path: Path) -> None:
    values, data = PATTERNS[name]
    kind = DTYPES[name].oinf_id
    assert kind is not None
    shape = (1, len(values))
    one = to_oinf_bytes(OinfContent(tensors={"t": TensorSpec(values[:1], name)}))[-8:]
    array = struct.pack("<2I2Q", kind, 2, *shape) + data
    metadata = {"array": (15, padded(array))}
    scalar: dict[str, Any] = {}
    if name != "bitset":
        metadata["one"] = (kind, one[: DTYPES[name].nbytes(1)])
        scalar["one"] = ScalarValue(values[0], name)
    expected = build({"n": 3}, metadata, [Stored("t", kind, shape, data), Stored("u", kind, (2,))])
    content = OinfContent(
        {"n": 3},
        {"array": TensorSpec([values], name), **scalar},
        {"t": TensorSpec([values], name), "u": UninitializedTensor(name, (2,))},
    )
    assert to_oinf_bytes(content) == expected
    path = tmp_path / "m.oinf"
    path.write_bytes(expected)
    with open_model(path) as package:
        assert package.tensor("t").values().tolist() == [values]
        assert package.tensor("array").values().tolist() == [values]
        if scalar:
            assert getattr(package.metadata["one"], "value", None) == values[0]
        assert to_oinf_bytes(package) == expected


def test_texts_bits_and_records(tmp_path: Path) -> None:
    words = "né ü \N{SNOWMAN} \N{GRINNING FACE}\n\0 end"
    asymmetric = record(2, (1, 2), (0, 0), [0.5], [1, -2])
    metadata = {
        "none": (14, text("")),
        "words": (14, text(words)),
        "bits": (13, padded(struct.pack("<2I", 9, 2) + b"\x0d\x01")),
        "no-bits": (13, padded(struct.pack("<2I", 0, 0))),
    }
    tensors = [
        Stored("q", 1, (2, 3), bytes(6), asymmetric),
        Stored("q.later", 5, (2,), None, record(2, (1, 1), (0, 0), [2.0], [7])),
    ]
    content = OinfContent(
        metadata={
            "none": "",
            "words": words,
            "bits": Bitset([1, 0, 1, 1, 0, 0, 0, 0, 1]),
            "no-bits": Bitset([]),
        },
        tensors={
            "q": TensorSpec(
                np.zeros((2, 3), np.int8),
                quant=QuantParams(
                    "asymmetric", QuantScale.per_tensor(0.5), QuantZeroPoint.per_channel(0, [1, -2])
                ),
            ),
            "q.later": UninitializedTensor(
                "u8",
                (2,),
                quant=QuantParams(
                    "asymmetric", QuantScale.per_tensor(2.0), QuantZeroPoint.per_tensor(7)
                ),
            ),
        },
    )
    expected = build({}, metadata, tensors)
    assert to_oinf_bytes(content) == expected
    path = tmp_path / "m.oinf"
    path.write_bytes(expected)
    with open_model(path) as package:
        assert package.metadata["words"] == words
        assert to_oinf_bytes(package) == expected


def test_names_beyond_the_character_set_are_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "m.oinf"
    path.write_bytes(build({"größe": 2}, {}, [Stored("layer/0 w", 5, (2,), b"\x01\x02")]))
    with open_model(path) as package:
        assert package.sizes == {"größe": 2}
        assert package.tensor("layer/0 w").values().tolist() == [1, 2]
        with pytest.raises(PackageError, match="letters, digits"):
            to_oinf_bytes(package)


# Defects of the original's writers


def quantised(*names: str) -> list[Stored]:
    quant = record(2, (1, 1), (0, 0), [0.125], [128])
    return [Stored(name, 5, (4,), bytes([1, 2, 3, 4]), quant) for name in names]


@pytest.mark.parametrize(
    ("tensors", "wrong"),
    [
        ([*quantised("a"), Stored("z", 1, (2, 2), bytes(4))], "'a', 'z'"),
        ([*quantised("a", "b"), Stored("c", 5, (1,), b"\x01")], "'a', 'b', 'c'"),
        ([Stored("a", 5, (9,), bytes(9)), *quantised("b", "c")], "'b', 'c'"),
        ([*quantised("a"), Stored("b", 5, (2,)), *quantised("c")], "'a', 'c'"),
    ],
)
@pytest.mark.parametrize("metadata", [{}, {"m": (12, b"\x01")}])
def test_interleaved_offsets_are_named(
    tensors: list[Stored], wrong: str, metadata: dict[str, tuple[int, bytes]], tmp_path: Path
) -> None:
    path = tmp_path / "m.oinf"
    path.write_bytes(build({}, metadata, tensors, interleaved=True))
    message = f"so {wrong} point at the wrong bytes: a defect of the original's Python writer"
    with pytest.raises(PackageError, match=message) as caught:
        open_model(path)
    assert caught.value.code == "OI0413"
    assert "openinfer pack" in str(caught.value.hint)


@pytest.mark.parametrize(
    "tensors",
    [quantised("a"), [Stored("a", 5, (1,), b"\x01"), *quantised("b")], [*quantised("a")] * 1],
)
def test_the_defect_needs_a_tensor_behind_the_record(tensors: list[Stored], tmp_path: Path) -> None:
    path = tmp_path / "m.oinf"
    path.write_bytes(build({}, {}, tensors, interleaved=True))
    with open_model(path) as package:
        assert to_oinf_bytes(package) == path.read_bytes() == build({}, {}, tensors)


def test_a_damaged_record_is_not_taken_for_the_defect(tmp_path: Path) -> None:
    path = tmp_path / "m.oinf"
    tensors = [*quantised("a"), Stored("b", 5, (1,), b"\x01")]
    data = bytearray(build({}, {}, tensors, interleaved=True))
    struct.pack_into("<I", data, len(data) - 56, 9)
    path.write_bytes(data)
    with pytest.raises(PackageError) as caught:
        open_model(path)
    assert caught.value.code == "OI0404"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (15, struct.pack("<2IQ3h", 2, 1, 3, 1, 2, 300)),
        (14, struct.pack("<I3s", 3, b"abc")),
        (13, struct.pack("<2IB", 5, 1, 0x15)),
    ],
)
def test_lengths_without_padding_are_named(kind: int, payload: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.oinf"
    path.write_bytes(build({}, {"m": (kind, payload)}, []))
    message = f"value_nbytes is {len(payload)}, without the padding that makes it"
    with pytest.raises(PackageError, match=message):
        open_model(path)
    path.write_bytes(build({}, {"m": (kind, padded(payload))}, []))
    open_model(path).close()


def test_a_t2_of_minus_two_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.oinf"
    array = struct.pack("<2IQ", 24, 1, 3) + b"\x02"
    path.write_bytes(build({}, {"m": (15, padded(array))}, [Stored("t", 24, (5,), b"\x00\x02")]))
    with open_model(path) as package:
        for read in (lambda: package.read("t"), lambda: package.metadata["m"]):
            with pytest.raises(PackageError, match="a t2 value is -2, outside") as caught:
                read()
            assert "original's Python writer" in str(caught.value.hint)
    assert main(["inspect", str(path)]) == 1
    assert "a t2 value is -2" in capsys.readouterr().err


def test_bits_behind_the_last_packed_value_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "m.oinf"
    path.write_bytes(
        build({}, {}, [Stored("t", 24, (1,), b"\xff"), Stored("u", 21, (1,), b"\xf3")])
    )
    with open_model(path) as package:
        assert package.tensor("t").values().tolist() == [-1]
        assert package.tensor("u").values().tolist() == [3]
        clean = [Stored("t", 24, (1,), b"\x03"), Stored("u", 21, (1,), b"\x03")]
        assert to_oinf_bytes(package) == build({}, {}, clean)
