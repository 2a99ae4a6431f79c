"""`.oinf` packages: the original's files, our writer, and each refusal."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import pytest

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import PackageError, UnsupportedError
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.oinf_writer import OinfContent, to_oinf_bytes, write_oinf
from openinfer.runtime.packages.values import (
    Bitset,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    ScalarValue,
    SizeVar,
    TensorSpec,
    UninitializedTensor,
)
from openinfer.runtime.tensors import Tensor

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "oinf"
needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason=f"the original's sample files are not at {SAMPLES}"
)
VERSION_2 = [
    "empty",
    "f64",
    "kitchen",
    "kv_cache_decode",
    "mlp_regression",
    "moe_routing",
    "quant_last",
    "residual_mlp_stack",
    "stability_guard",
]

Write = Callable[[Any], Any]


@pytest.fixture
def reopen(tmp_path: Path) -> Write:
    """Writes content (or bytes) to a file and opens it."""

    def write(content: Any) -> Any:
        path = tmp_path / "model.oinf"
        path.unlink(missing_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            write_oinf(content, path)
        return open_model(path)

    return write


@needs_samples
@pytest.mark.parametrize("name", VERSION_2)
def test_files_of_the_original_are_rewritten_byte_for_byte(name: str) -> None:
    path = SAMPLES / f"{name}.oinf"
    with open_model(path) as package:
        assert to_oinf_bytes(package) == path.read_bytes()


@needs_samples
def test_version_1_is_read_and_rewritten_as_version_2(reopen: Write) -> None:
    old = open_model(SAMPLES / "v1_quantized_linear.oinf")
    assert old.format == "oinf 1"
    new = reopen(old)
    assert new.format == "oinf 2"
    assert new.sizes == old.sizes == {"B": 4, "D": 16, "O": 8}
    assert new.header_hash() == old.header_hash()
    assert new.tensors["w"].shape == (16, 8)
    for name in ("w", "x"):
        np.testing.assert_array_equal(new.read(name), old.read(name))
    assert old.tensor("x").values()[0, :2].tolist() == [7, 0]


@needs_samples
def test_the_corrupt_file_of_the_original_is_refused() -> None:
    with pytest.raises(PackageError, match="so 'a', 'z' point at the wrong bytes") as caught:
        open_model(SAMPLES / "malformed" / "quant_first.oinf")
    assert caught.value.code == "OI0413"


@needs_samples
def test_every_value_of_the_kitchen_file() -> None:
    package = open_model(SAMPLES / "kitchen.oinf")
    assert package.sizes == {"B": 3, "n": 7}
    assert package.metadata["bits"] == Bitset([1, 0, 1, 1, 0, 0, 0, 0, 1])
    assert package.metadata["cnt"] == ScalarValue(3, DTYPES["i64"])
    assert package.metadata["on"] == ScalarValue(True, DTYPES["bool"])
    assert package.metadata["packed"] == ScalarValue(-3, DTYPES["i4"])
    assert package.metadata["ratio"] == ScalarValue(0.25, DTYPES["f32"])
    assert package.metadata["title"] == "clamp_up"
    table = package.metadata["table"]
    assert isinstance(table, Tensor)
    assert table.dtype.name == "i16"
    assert table.values().tolist() == [1, 2, 300]
    values: dict[str, Any] = {
        "b16": [1.25, -2.0],
        "flagv": [True, False, True],
        "i1v": [0, -1, -1, 0, 0, -1, 0, 0, -1],
        "i2v": [-2, -1, 0, 1, 1],
        "i4v": [-8, -1, 0, 1, 7],
        "q8": [0.5, 2.0, -4.0],
        "scal": 2.5,
        "t1v": [-1, 1, 1, -1],
        "t2v": [-1, 0, 1, -1, 0],
        "u1v": [1, 0, 1, 1],
        "u2v": [0, 1, 2, 3, 3],
        "u4v": [0, 9, 15],
        "w": [[0, 1, 2], [3, 4, 5]],
    }
    for name, expected in values.items():
        assert package.tensor(name).values().tolist() == expected, name
    assert not package.tensors["later"].has_data
    assert set(package.tensors) == {*values, "later"}


def sample(name: str) -> np.ndarray:
    """Two alternating values that the dtype has, in three rows of five."""
    low, high = {"i1": (0, -1), "t1": (-1, 1)}.get(name, (0, 1))
    return np.where(np.arange(15).reshape(3, 5) % 2, high, low)


def everything() -> OinfContent:
    tensors: dict[str, Any] = {
        f"t.{name}": TensorSpec(sample(name), dtype=name)
        for name, row in DTYPES.items()
        if row.oinf_id is not None
    }
    tensors["scalar"] = np.array(3, np.int16)
    tensors["empty"] = np.zeros((0, 4), np.float32)
    tensors["later"] = UninitializedTensor("bf16", (2, 1 << 40))
    tensors["q"] = TensorSpec(
        np.arange(6, dtype=np.int8).reshape(2, 3),
        quant=QuantParams(
            "asymmetric",
            QuantScale.per_channel(1, [0.5, 1.5, 2.5]),
            QuantZeroPoint.per_channel(1, [1, -2, 3]),
        ),
    )
    tensors["q2"] = TensorSpec(
        np.zeros(4, np.uint8),
        quant=QuantParams("symmetric", QuantScale.per_tensor(0.25)),
    )
    metadata: dict[str, Any] = {
        "flag": True,
        "int": 300,
        "negative": -2,
        "float": 0.5,
        "text": "words, with spaces: é",
        "nothing": "",
        "bits": Bitset([1, 0, 1]),
        "ints": [1, 2, 300],
        "floats": [[1.0, 2.0]],
        "array": np.arange(3, dtype=np.uint64),
        "half": ScalarValue(1.5, "f16"),
        "packed": TensorSpec([1, -1, 1], dtype="t2"),
        "nan": ScalarValue(math.nan, "f64"),
    }
    return OinfContent({"B": 4, "zero": 0, "max": 2**63 - 1}, metadata, tensors)


def test_what_is_written_is_read(reopen: Write) -> None:
    package = reopen(everything())
    assert package.sizes == {"B": 4, "max": 2**63 - 1, "zero": 0}
    for name, row in DTYPES.items():
        if row.oinf_id is not None:
            values = package.tensor(f"t.{name}").values()
            assert values.shape == (3, 5)
            np.testing.assert_array_equal(values.astype(np.int64), sample(name))
    assert package.tensor("scalar").values() == 3
    assert package.read("empty").shape == (0, 4)
    assert package.tensors["later"].shape == (2, 1 << 40)
    quant = package.tensors["q"].quant
    assert quant.scale.values.tolist() == [0.5, 1.5, 2.5]
    assert quant.zero_point.values.tolist() == [1, -2, 3]
    assert package.tensors["q2"].quant.zero_point is None
    metadata = package.metadata
    assert metadata["int"] == ScalarValue(300, DTYPES["u16"])
    assert metadata["negative"] == ScalarValue(-2, DTYPES["i8"])
    assert metadata["float"] == ScalarValue(0.5, DTYPES["f32"])
    assert metadata["half"] == ScalarValue(1.5, DTYPES["f16"])
    assert metadata["text"] == "words, with spaces: é"
    assert metadata["nothing"] == ""
    assert metadata["bits"] == Bitset([1, 0, 1])
    assert metadata["ints"].dtype.name == "i16"
    assert metadata["floats"].dtype.name == "f32"
    assert metadata["array"].dtype.name == "u64"
    assert metadata["packed"].values().tolist() == [1, -1, 1]
    assert math.isnan(metadata["nan"].value)
    assert to_oinf_bytes(package) == to_oinf_bytes(everything())


def test_reads_are_views_of_the_file_and_outlive_it(reopen: Write) -> None:
    package = reopen(OinfContent(tensors={"w": np.arange(6, dtype=np.float32)}))
    first, again = package.read("w"), package.read("w")
    assert first.__array_interface__["data"] == again.__array_interface__["data"]
    assert not first.flags.writeable
    assert first.flags.aligned
    package.close()
    package.close()
    assert first.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(PackageError, match="closed") as caught:
        package.read("w")
    assert caught.value.code == "OI0411"


def test_names_that_are_absent(reopen: Write) -> None:
    package = reopen(OinfContent(tensors={"weight": UninitializedTensor("f32", (2,))}))
    with pytest.raises(PackageError, match="did you mean 'weight'") as caught:
        package.read("wieght")
    assert caught.value.code == "OI0407"
    with pytest.raises(PackageError, match="without data") as caught:
        package.read("weight")
    assert caught.value.code == "OI0408"


def test_header_hash_follows_the_header_alone(reopen: Write, tmp_path: Path) -> None:
    def content(**changes: Any) -> OinfContent:
        parts: dict[str, Any] = {"size": 3, "value": 1.5, "data": np.zeros(3, np.float32)}
        parts |= changes
        return OinfContent({"B": parts["size"]}, {"m": parts["value"]}, {"w": parts["data"]})

    plain = reopen(content())
    key, identity = plain.header_hash(), plain.data_identity()
    other = reopen(content(data=np.ones(3, np.float32)))
    assert other.header_hash() == key
    assert other.data_identity() != identity
    for change in (
        {"size": 4},
        {"value": 2.5},
        {"value": "1.5"},
        {"data": np.zeros(3, np.float16)},
        {"data": np.zeros((3, 1), np.float32)},
        {"data": UninitializedTensor("f32", (3,))},
    ):
        assert reopen(content(**change)).header_hash() != key


@dataclass
class Model:
    layers: int
    width: SizeVar
    heads: Annotated[int, "sizevar"]
    weight: np.ndarray
    bias: list[float] = field(default_factory=lambda: [0.5], metadata={"dtype": "bf16"})
    table: Annotated[list[int], {"dtype": "i4"}] = field(default_factory=lambda: [1, -2])
    plain: list[int] = field(default_factory=lambda: [1, 2])
    spec: TensorSpec = field(default_factory=lambda: TensorSpec([1.0, 2.0], name="attn.wq.0"))
    later: Any = field(default=None, metadata={"tensor": True, "dtype": "f16", "shape": (2, 3)})
    eps: float = 1e-5
    count: Any = field(default=7, metadata={"dtype": "i64"})
    label: str = "relu"
    on: bool = False
    maybe: int | None = 9


def test_a_dataclass_becomes_a_package(reopen: Write) -> None:
    model = Model(2, SizeVar(8), 4, np.ones((2, 2), np.float64))
    model.tensors = {"layer.0": np.zeros(1, np.int32)}  # pyright: ignore[reportAttributeAccessIssue]
    package = reopen(model)
    assert package.sizes == {"heads": 4, "layers": 2, "maybe": 9, "width": 8}
    dtypes = {name: f"{i.dtype_name}{list(i.shape)}" for name, i in package.tensors.items()}
    assert dtypes == {
        "attn.wq.0": "f64[2]",
        "bias": "bf16[1]",
        "later": "f16[2, 3]",
        "layer.0": "i32[1]",
        "table": "i4[2]",
        "weight": "f64[2, 2]",
    }
    assert not package.tensors["later"].has_data
    assert package.metadata["eps"].dtype.name == "f32"
    assert package.metadata["count"] == ScalarValue(7, DTYPES["i64"])
    assert package.metadata["label"] == "relu"
    assert package.metadata["on"].value is False
    assert package.metadata["plain"].values().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (OinfContent({"a b": 1}), "letters, digits"),
        (OinfContent({"": 1}), "letters, digits"),
        (OinfContent({"B": -1}), "0..2\\*\\*63 - 1"),
        (OinfContent({"B": True}), "an integer, found bool"),
        (OinfContent({"B": None}), "an integer, found NoneType"),
        (OinfContent({}, {"m": object()}), "no metadata value"),
        (OinfContent({}, {"m": 2**64}), "64 bits"),
        (OinfContent({}, {"m": [1, [2]]}), "inhomogeneous"),
        (OinfContent({}, {"m": ["a"]}), "no dtype"),
        (OinfContent({}, {"m": ScalarValue(8, "i4")}), "no value of i4"),
        (OinfContent({}, {"m": ScalarValue(1, "q9")}), "there is no dtype 'q9'"),
        (OinfContent({}, {}, {"t": np.zeros(2, np.complex64)}), "no dtype for complex64"),
        (OinfContent({}, {}, {"t": TensorSpec([0], "t1")}), "no value of t1"),
        (OinfContent({}, {}, {"t": TensorSpec([-2], "t2")}), "no value of t2"),
        (OinfContent({}, {}, {"t": TensorSpec([1.5], "i8")}), "no value of i8"),
        (OinfContent({}, {}, {"t": UninitializedTensor("f32", (-1,))}), "no shape"),
        (
            OinfContent({}, {}, {"a": TensorSpec([1], name="b"), "b": TensorSpec([1])}),
            "'b' occurs twice",
        ),
        (Model(cast(Any, None), SizeVar(1), 1, np.ones(1)), "an integer, found NoneType"),
        ({"W": np.ones(2), 3: 4}, "3 is no name of an entry"),
        ({"W": None}, "'W' is None"),
        ({"n": -1}, "a size lies in 0"),
        ({"W": {"inner": np.ones(2)}}, "'W' cannot be part"),
        (3, "cannot write 3"),
        (Model, "cannot write"),
    ],
)
def test_content_that_cannot_be_written(content: Any, message: str) -> None:
    with pytest.raises(PackageError, match=message) as caught:
        to_oinf_bytes(content)
    assert caught.value.code == "OI0412"


def test_a_mapping_becomes_a_package(reopen: Write) -> None:
    package = reopen(
        {
            "W": np.arange(6, dtype=np.float32).reshape(2, 3),
            "layers.0.b": Tensor.from_values("bf16", [1.0, 2.5]),
            "q": TensorSpec([-8, 7], "i4"),
            "zero_d": np.array(2.5),
            "width": 3,
            "depth": np.int64(2),
            "eps": 1e-5,
            "on": True,
            "mode": "tanh",
        }
    )
    assert package.sizes == {"depth": 2, "width": 3}
    np.testing.assert_array_equal(package.read("W"), [[0, 1, 2], [3, 4, 5]])
    assert {name: info.dtype.name for name, info in package.tensors.items()} == {
        "W": "f32",
        "layers.0.b": "bf16",
        "q": "i4",
        "zero_d": "f64",
    }
    assert package.metadata["eps"] == ScalarValue(float(np.float32(1e-5)), DTYPES["f32"])
    assert package.metadata["on"] == ScalarValue(True, DTYPES["bool"])
    assert package.metadata["mode"] == "tanh"


def test_the_order_of_a_mapping_does_not_matter() -> None:
    one = {"W": np.ones(2, np.float32), "n": 2}
    assert to_oinf_bytes(one) == to_oinf_bytes(dict(reversed(one.items())))
    assert to_oinf_bytes(one) == to_oinf_bytes(OinfContent({"n": 2}, {}, {"W": one["W"]}))


def test_a_dtype_without_an_id_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="f8e4m3 has no id"):
        to_oinf_bytes(OinfContent(tensors={"w": TensorSpec([1.0], "f8e4m3")}))


@pytest.mark.parametrize(
    ("quant", "message"),
    [
        (QuantParams("odd", QuantScale.per_tensor(1)), "scheme"),
        (QuantParams("symmetric", QuantScale.per_channel(2, [1, 1])), "axis 2 is outside"),
        (QuantParams("symmetric", QuantScale.per_channel(0, [1])), "takes 2 values"),
        (
            QuantParams("symmetric", QuantScale.per_tensor(1), QuantZeroPoint.per_tensor(1)),
            "no zero_point",
        ),
        (
            QuantParams(
                "asymmetric", QuantScale.per_channel(0, [1, 1]), QuantZeroPoint.per_tensor(1)
            ),
            "a per_tensor zero_point needs a per_tensor scale",
        ),
        (
            QuantParams(
                "asymmetric",
                QuantScale.per_channel(0, [1, 1]),
                QuantZeroPoint.per_channel(1, [1, 1, 1]),
            ),
            "zero_point must have the axis of scale, 0",
        ),
    ],
)
def test_quantisation_records_are_checked(quant: QuantParams, message: str) -> None:
    with pytest.raises(PackageError, match=message):
        to_oinf_bytes(
            OinfContent(tensors={"w": TensorSpec(np.zeros((2, 3), np.int8), quant=quant)})
        )


@pytest.mark.parametrize("value", [2**31, 1.5, "a", [1, 2]])
def test_zero_points_are_whole_numbers(value: Any) -> None:
    with pytest.raises(PackageError, match="no list of whole numbers of 32 bits"):
        QuantZeroPoint.per_channel(0, [value])


def test_scales_are_numbers() -> None:
    with pytest.raises(PackageError, match="no list of numbers"):
        QuantScale.per_tensor(cast(Any, "a"))
    with pytest.raises(PackageError, match="no list of numbers"):
        QuantScale.per_channel(0, np.ones((2, 2)))


def test_writing_is_atomic(tmp_path: Path) -> None:
    path = tmp_path / "model.oinf"
    write_oinf(OinfContent({"B": 1}), path)
    with pytest.raises(PackageError):
        write_oinf(OinfContent({"B": -1}), path)
    assert open_model(path).sizes == {"B": 1}
    write_oinf(open_model(path), path)
    assert open_model(path).sizes == {"B": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["model.oinf"]
    with pytest.raises(PackageError, match="cannot be written") as caught:
        write_oinf(OinfContent(), tmp_path / "absent" / "model.oinf")
    assert caught.value.code == "OI0401"


def small() -> bytearray:
    """Offsets used below: header 72, sizes 72, metadata 88, tensors 120, data 176, quant 192."""
    content = OinfContent(
        {"B": 2},
        {"m": True},
        {
            "t": TensorSpec(
                np.array([1, 2], np.int8),
                quant=QuantParams("symmetric", QuantScale.per_tensor(1.0)),
            )
        },
    )
    return bytearray(to_oinf_bytes(content))


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (0, "<B", 0, "magic"),
        (5, "<I", 3, "version is 3"),
        (9, "<I", 1, "flags"),
        (13, "<I", 0xFFFFFFFF, "n_sizevars is 4294967295"),
        (17, "<I", 2, "n_metadata is 2"),
        (21, "<I", 0x7FFFFFFF, "n_tensors is 2147483647"),
        (25, "<I", 1, "reserved"),
        (29, "<Q", 64, "offset_sizevars is 64"),
        (37, "<Q", 89, "offset_metadata is 89, must be a multiple"),
        (45, "<Q", 80, "offset_tensors is 80"),
        (53, "<Q", 1 << 63, "offset_data"),
        (61, "<Q", 100, "file_size is 100"),
        (72, "<I", 0xFFFFFFF0, "entry 0: name takes 4294967280 bytes"),
        (72, "<I", 0, "name is empty"),
        (76, "<B", 0xFF, "name is not UTF-8"),
        (80, "<Q", 1 << 63, "'B': value is 9223372036854775808"),
        (96, "<I", 26, "'m': value_type has the unknown id 26"),
        (100, "<I", 1, "'m': flags"),
        (104, "<Q", 2, "'m': value_nbytes is 2, the value takes 1"),
        (104, "<Q", 1 << 62, "'m': value_nbytes is 4611686018427387904 at offset"),
        (112, "<Q", 8, "'m': value_offset is 8, the data section"),
        (112, "<Q", 177, "'m': value_offset is 177, must be a multiple"),
        (128, "<I", 14, "'t': dtype has the unknown id 14"),
        (132, "<I", 0xFFFFFFFF, "'t': ndim is 4294967295, at most 64"),
        (132, "<I", 40, "'t': dims takes 320 bytes"),
        (136, "<I", 4, "'t': flags has unknown bits"),
        (136, "<I", 2, "'t': data_nbytes and data_offset must be 0"),
        (140, "<Q", 3, "'t': data_nbytes is 2, i8\\[3\\] takes 3"),
        (140, "<Q", (1 << 64) - 1, "'t': dims"),
        (148, "<Q", 1 << 40, "'t': data_nbytes is 1099511627776 at offset"),
        (156, "<Q", 1 << 40, "'t': data_offset is 1099511627776"),
        (164, "<Q", 40, "'t': quant_nbytes is 40, at least 48"),
        (164, "<Q", 48, "'t': quant_nbytes is 48, does not fit scale_count 1"),
    ],
)
def test_each_field_is_checked_and_named(
    reopen: Write, offset: int, layout: str, value: int, message: str
) -> None:
    data = small()
    struct.pack_into(layout, data, offset, value)
    with pytest.raises(PackageError, match=message) as caught:
        reopen(bytes(data))
    assert caught.value.code in ("OI0403", "OI0404")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (0, "<I", 9, "quant scheme is 9"),
        (4, "<I", 3, "quant scale_mode is 3"),
        (8, "<I", 3, "quant zp_mode is 3"),
        (12, "<I", 1, "quant reserved is 1"),
        (16, "<Q", 1, "per_tensor scale takes axis 0"),
        (24, "<Q", 2, "per_tensor scale takes axis 0 and one value"),
        (24, "<Q", 1 << 60, "does not fit scale_count"),
        (32, "<Q", 1, "zp_axis and zp_count must be 0"),
    ],
)
def test_the_quantisation_record_is_checked(
    reopen: Write, offset: int, layout: str, value: int, message: str
) -> None:
    data = small()
    struct.pack_into(layout, data, len(data) - 56 + offset, value)
    with pytest.raises(PackageError, match=message):
        reopen(bytes(data))


@pytest.mark.parametrize(
    ("value", "offset", "layout", "number", "message"),
    [
        ("text", 0, "<I", 5000, "value_nbytes is 8, the value takes 5008"),
        ("text", 4, "<B", 0xFF, "value is not UTF-8"),
        (Bitset([1]), 4, "<I", 2, "byte_count is 2, 1 bits take 1"),
        (Bitset([1]), 0, "<I", 0xFFFFFFFF, "byte_count"),
        ([1, 2], 0, "<I", 14, "element_type has the unknown id 14"),
        ([1, 2], 4, "<I", 9, "dims takes 72 bytes"),
        ([1, 2], 8, "<Q", 1 << 50, "value_nbytes is 24, the value takes"),
        (True, 0, "<B", 2, "neither 0 nor 1"),
    ],
)
def test_metadata_payloads_are_checked(
    reopen: Write, value: Any, offset: int, layout: str, number: int, message: str
) -> None:
    data = bytearray(to_oinf_bytes(OinfContent({}, {"m": value})))
    (start,) = struct.unpack_from("<Q", data, 53)
    struct.pack_into(layout, data, start + offset, number)
    with pytest.raises(PackageError, match=message):
        dict(reopen(bytes(data)).metadata)


def test_invalid_tensor_bytes_are_refused_when_read(reopen: Write) -> None:
    data = to_oinf_bytes(OinfContent(tensors={"b": np.array([True, False])}))
    package = reopen(data[:-8] + b"\x01\x07" + data[-6:])
    with pytest.raises(PackageError, match="data of tensor 'b': a bool byte") as caught:
        package.read("b")
    assert caught.value.code == "OI0405"


def test_duplicate_names_are_refused(reopen: Write) -> None:
    data = to_oinf_bytes(OinfContent({"a": 1, "b": 2}))
    with pytest.raises(PackageError, match="entry 'a': name occurs twice"):
        reopen(data.replace(b"\x01\0\0\0b", b"\x01\0\0\0a"))


def test_zero_extents_do_not_hide_absurd_ones(reopen: Write) -> None:
    data = bytearray(to_oinf_bytes(OinfContent(tensors={"e": np.zeros((0, 3), np.float32)})))
    at = data.index(struct.pack("<2Q", 0, 3))
    struct.pack_into("<2Q", data, at, 0, (1 << 64) - 1)
    with pytest.raises(PackageError, match="more than 2\\*\\*63 bytes"):
        reopen(bytes(data))
