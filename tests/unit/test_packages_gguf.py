"""`.gguf` models: names, values, parts, and each rule of the format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf_files import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    I64,
    TEXT,
    U8,
    U16,
    U32,
    U64,
    gguf_bytes,
    tensor,
    write,
)

from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import PackageError, UnsupportedError
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_fields import Array
from openinfer.runtime.packages.inspect import inspect_json, inspect_text
from openinfer.runtime.packages.values import ScalarValue

F32_TYPE, F16_TYPE, Q8_0_TYPE = 0, 1, 8


def opened(path: Path) -> GgufPackage:
    package = open_model(path)
    assert isinstance(package, GgufPackage)
    return package


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file as the `gguf` package writes it."""
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_name("Tiny")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([f"t{i}" for i in range(30)])
    writer.add_token_scores([float(i) for i in range(30)])
    writer.add_chat_template("\n".join(f"line {i}" for i in range(20)))
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    writer.add_tensor("blk.0.a.weight", x)
    writer.add_tensor("blk.1.a.weight", (x + 1).astype(np.float16))
    wide = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("q.weight", gguf.quantize(wide, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


# What is there


def test_sizes_metadata_and_tensors(model: Path) -> None:
    with opened(model) as package:
        assert (package.format, package.architecture) == ("gguf 3", "llama")
        assert package.sizes == {"block_count": 2, "attention_head_count": 4}
        eps = float(np.float32(1e-5))
        name = "attention_layer_norm_rms_epsilon"
        assert package.metadata[name] == ScalarValue(eps, DTYPES["f32"])
        assert package.metadata["tokenizer.ggml.add_bos_token"] == ScalarValue(True, DTYPES["bool"])
        assert package.metadata["general.name"] == "Tiny"
        scores: Any = package.metadata["tokenizer.ggml.scores"]
        np.testing.assert_array_equal(scores.values(), np.arange(30))
        assert "tokenizer.ggml.tokens" not in package.metadata
        tokens = package.fields["tokenizer.ggml.tokens"]
        assert isinstance(tokens, Array)
        assert tokens.texts() == [f"t{i}" for i in range(30)]
        shapes = {name: (info.dtype.name, info.shape) for name, info in package.tensors.items()}
        assert shapes == {
            "blk.0.a.weight": ("f32", (3, 4)),
            "blk.1.a.weight": ("f16", (3, 4)),
            "q.weight": ("q8_0", (3, 64)),
        }
        assert package.info("q.weight").nbytes == 3 * 2 * 34


def test_values_are_views_of_the_file(model: Path) -> None:
    with opened(model) as package:
        found = package.read("blk.0.a.weight")
        np.testing.assert_array_equal(found, np.arange(12).reshape(3, 4))
        assert not found.flags.writeable
        assert not found.flags.owndata
        blocks = package.read("q.weight")
        assert (blocks.shape, blocks.dtype) == ((3, 68), np.uint8)
        wanted = gguf.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0)
        np.testing.assert_array_equal(package.tensor("q.weight").values(), wanted)
        half = package.tensor_as("q.weight", DTYPES["f16"])
        np.testing.assert_array_equal(half.values(), wanted.astype(np.float16))
        with pytest.raises(BufferError):
            package.tensor("q.weight").__dlpack__()
    np.testing.assert_array_equal(found, np.arange(12).reshape(3, 4))


def test_names_of_programs(tmp_path: Path) -> None:
    """Short names for keys of the architecture, unless they would hide another key."""
    keys = [
        ("general.architecture", TEXT, "a-b"),
        ("a-b.x.y", U32, 1),
        ("a-b.u.v", U32, 2),
        ("a-b.u_v", U32, 3),
        ("plain", U64, 4),
        ("a-b.plain", U32, 5),
        ("a-b.2nd", U32, 6),
        ("other.x", I32, -7),
        ("big", U64, 1 << 63),
        ("wide", F64, 0.1),
    ]
    with opened(write(tmp_path / "m.gguf", keys)) as package:
        assert package.sizes == {
            **{"x_y": 1, "a-b.u.v": 2, "a-b.u_v": 3, "plain": 4, "a-b.plain": 5, "a-b.2nd": 6}
        }
        assert package.keys["x_y"] == "a-b.x.y"
        assert package.metadata["other.x"] == ScalarValue(-7, DTYPES["i32"])
        assert package.metadata["big"] == ScalarValue(1 << 63, DTYPES["u64"])
        assert package.metadata["wide"] == ScalarValue(0.1, DTYPES["f64"])
    with opened(write(tmp_path / "n.gguf", keys[1:])) as package:
        assert package.architecture is None
        assert package.sizes["a-b.x.y"] == 1


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64"])
def test_plain_dtypes(tmp_path: Path, dtype: str) -> None:
    row = DTYPES[dtype]
    stored = np.array([[1, 2, 3], [4, 5, 6]], row.storage)
    assert row.gguf_id is not None
    path = write(tmp_path / "m.gguf", (), [tensor("t", (3, 2), row.gguf_id, 0)], stored.tobytes())
    with opened(path) as package:
        assert package.info("t").dtype == row
        np.testing.assert_array_equal(package.read("t"), stored)


@pytest.mark.parametrize("name", BLOCKS)
def test_block_dtypes(tmp_path: Path, name: str) -> None:
    block = BLOCKS[name]
    data = np.random.default_rng(1).integers(0, 40, (2, 3, block.nbytes), np.uint8)
    row = tensor("t", (3 * block.elements, 2), block.gguf_id, 0)
    with opened(write(tmp_path / "m.gguf", (), [row], data.tobytes())) as package:
        info = package.info("t")
        assert (info.dtype.name, info.nbytes) == (name, data.size)
        wanted = gguf.dequantize(data.reshape(2, -1), gguf.GGMLQuantizationType(block.gguf_id))
        np.testing.assert_array_equal(package.tensor("t").values(), wanted)


def test_types_that_nothing_computes_with(tmp_path: Path) -> None:
    """They are shown by number and name, and refused when they are used; the others work."""
    rows = [
        tensor("a", (256, 2), 16, 0),
        tensor("b", (5,), 99, 160),
        tensor("c", (2,), F32_TYPE, 192),
    ]
    data = bytes(192) + np.array([1, 2], np.float32).tobytes()
    with opened(write(tmp_path / "m.gguf", (), rows, data)) as package:
        assert package.tensors["a"].dtype_name == "iq2_xxs (ggml type 16)"
        assert package.tensors["b"].dtype_name == "ggml type 99"
        assert [package.tensors[n].nbytes for n in "abc"] == [132, 32, 8]
        np.testing.assert_array_equal(package.read("c"), [1, 2])
        text = inspect_text(package)
        assert "b: ggml type 99[5] -- 32 bytes, a type that openinfer does not compute with" in text
        for name in "ab":
            with pytest.raises(UnsupportedError, match=r"OI0742.*ggml type") as error:
                package.read(name)
            assert "q4_k" in str(error.value.hint)


def test_what_ggml_accepts_too(tmp_path: Path) -> None:
    """No padding behind the last tensor, an alignment of 1, scalars, version 2, and no tensors at all."""
    rows = [tensor("s", (), F32_TYPE, 0), tensor("b", (3,), 24, 4)]
    keys = [("general.alignment", U32, 1)]
    path = write(tmp_path / "m.gguf", keys, rows, bytes(4) + b"abc", version=2, alignment=1)
    with opened(path) as package:
        assert package.format == "gguf 2"
        assert package.info("s").shape == ()
        assert package.read("b").tobytes() == b"abc"
    path = write(tmp_path / "n.gguf", (), [tensor("b", (3,), 24, 0)], b"abc" + bytes(70))
    with opened(path) as package:
        assert package.parts[0].trailing == 41
        assert "; 41 bytes after the last tensor belong to nothing" in inspect_text(package)
    assert dict(opened(write(tmp_path / "o.gguf")).tensors) == {}


# The view


def test_text(model: Path) -> None:
    with opened(model) as package:
        lines = inspect_text(package).splitlines()
    assert lines[:4] == [
        "; gguf 3: llama, 2 sizes, 8 metadata, 3 tensors of 276 bytes",
        '; tokenizer: "gpt2" (pre "qwen2"), 30 tokens',
        "; template: 20 lines, 149 characters",
        ";   line 0",
    ]
    assert lines[11:13] == [";   …", "block_count := 2"]
    assert 'tokenizer.ggml.tokens: str[30] = { "t0", "t1", "t2", "t3", "t4", … }' in lines
    assert (
        "tokenizer.ggml.scores: f32[30] = { 0.0, 1.0, 2.0, 3.0, 4.0, ..., 25.0, 26.0, 27.0, 28.0, 29.0 }"
        in lines
    )
    assert "attention_layer_norm_rms_epsilon: f32 = 1e-05" in lines
    assert "q.weight: q8_0[3, 64] -- 204 bytes" in lines


def test_json(model: Path) -> None:
    with opened(model) as package:
        found = inspect_json(package)
    assert found["architecture"] == "llama"
    assert found["keys"]["block_count"] == "llama.block_count"
    assert found["tokenizer"] == {"model": "gpt2", "pre": "qwen2", "tokens": 30, "merges": None}
    assert found["metadata"]["tokenizer.ggml.tokens"] == {
        "type": "str",
        "shape": [30],
        "first": ["t0", "t1", "t2", "t3", "t4"],
    }
    assert found["tensors"]["q.weight"] == {
        "dtype": "q8_0",
        "shape": [3, 64],
        "nbytes": 204,
        "supported": True,
    }


def test_texts_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    keys = [
        ("tokenizer.chat_template", TEXT, "a\x1b[31m\n" + "x" * 500),
        ("k\x1b", TEXT, "v\x1b"),
        ("general.architecture", TEXT, "a\x1b\n"),
        ("list", ARRAY, (TEXT, ["\x1b"])),
    ]
    with opened(write(tmp_path / "m.gguf", keys)) as package:
        text = inspect_text(package)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 200


# Parts


def parts(folder: Path) -> list[Path]:
    writer = gguf.GGUFWriter(folder / "m.gguf", "llama", split_max_tensors=2)
    writer.add_block_count(5)
    for number in range(5):
        writer.add_tensor(f"t{number}", np.full((2, 3), number, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.iterdir())


def test_a_model_in_parts(tmp_path: Path) -> None:
    files = parts(tmp_path)
    assert [file.name for file in files] == [f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    for path in (files[0], files[2], tmp_path):
        with opened(path) as package:
            assert package.sizes["block_count"] == 5
            assert len(package.tensors) == 5
            assert len(package.parts) == 3
            for number in range(5):
                assert (package.read(f"t{number}") == number).all()
            assert "5 tensors of 120 bytes in 3 files" in inspect_text(package)
            guard = package.guard()
            assert guard is not None
            guard()


def test_parts_that_disagree(tmp_path: Path) -> None:
    first, second, third = parts(tmp_path)
    data = second.read_bytes()
    second.unlink()
    with pytest.raises(PackageError, match=r"OI0401.*m-00002-of-00003"):
        open_model(first)
    second.write_bytes(third.read_bytes())
    with pytest.raises(PackageError, match=r"OI0419.*do not say that it is part 2 of 3"):
        open_model(first)
    second.write_bytes(data.replace(b"t2", b"t1"))
    with pytest.raises(PackageError, match=r"OI0419.*'t1' lies in m-00001-of-00003.gguf, too"):
        open_model(first)
    second.write_bytes(data)
    head = first.read_bytes()
    key = head.index(b"split.tensors.count") + len("split.tensors.count") + 4
    first.write_bytes(head[:key] + struct.pack("<i", 6) + head[key + 4 :])
    with pytest.raises(PackageError, match=r"OI0419.*has 6 tensors, its parts have 5"):
        open_model(first)
    first.write_bytes(head)
    first.rename(tmp_path / "renamed.gguf")
    with pytest.raises(PackageError, match=r"OI0419.*one of 3 parts.*its name does not say"):
        open_model(tmp_path / "renamed.gguf")


# What is refused

ONE = ("k", U8, 1)
BAD_FILES: list[tuple[bytes, str]] = [
    (b"GGUX" + bytes(40), "magic"),
    (b"GG", "magic"),
    (gguf_bytes()[:20], "takes 24 bytes"),
    (gguf_bytes(version=0), "version is 0"),
    (gguf_bytes(counts=(0, 1 << 40)), "number of keys is 1099511627776"),
    (gguf_bytes(counts=(0, -1)), "number of keys is -1"),
    (gguf_bytes(counts=(1 << 40, 0)), "number of tensors is 1099511627776"),
    (gguf_bytes(counts=(-1, 0)), "number of tensors is -1"),
    (gguf_bytes([ONE, ONE]), "'k': key occurs twice"),
    (gguf_bytes([("", U8, 1)]) + bytes(9), "key is empty"),
    (gguf_bytes([("a\0", U8, 1)]), "zero byte"),
    (gguf_bytes([("k", BOOL, 2)]), "the bool 2"),
    (gguf_bytes([ONE]).replace(b"k\0\0\0\0", b"k\x0d\0\0\0"), "type is 13"),
    (gguf_bytes([("k", ARRAY, (ARRAY, []))]), "arrays of arrays"),
    (gguf_bytes([("k", ARRAY, (U8, b"abc"))])[:-1], "count is 3"),
    (gguf_bytes([("k", ARRAY, (TEXT, ["abc"]))])[:-1], "element 0 ends beyond"),
    (gguf_bytes([("k", TEXT, "abc")])[:-1], "value takes 3 bytes"),
    (gguf_bytes([("k", TEXT, b"\xff" * 3)]), "not UTF-8"),
    (gguf_bytes([("general.architecture", U8, 1)]), "is no text"),
    (gguf_bytes([("general.alignment", U32, 0)]), "value is 0, must be a power of two"),
    (gguf_bytes([("general.alignment", U32, 24)]), "value is 24"),
    (gguf_bytes([("general.alignment", U64, 32)]), "value is no u32"),
]
F4 = bytes(64)
BAD_TENSORS: list[tuple[list[bytes], str]] = [
    ([tensor("", (1,), 0, 0) + b"12"], "name is empty"),
    ([tensor("x" * 64, (1,), 0, 0)], "at most 63"),
    ([tensor("t", (1,), 0, 0), tensor("t", (1,), 0, 32)], "'t': name occurs twice"),
    ([tensor("t", (1, 1, 1, 1, 1), 0, 0)], "is 5, at most 4"),
    ([tensor("t", (2, 0), 0, 0)], "not all 1 or more"),
    ([tensor("t", (2, -1), 0, 0)], "not all 1 or more"),
    ([tensor("t", (1 << 32, 1 << 32), 0, 0)], "more than 2"),
    ([tensor("t", (1,), 4, 0)], "type is 4"),
    ([tensor("t", (1,), -1, 0)], "type is -1"),
    ([tensor("t", (33,), Q8_0_TYPE, 0)], "a multiple of 32"),
    ([tensor("t", (), Q8_0_TYPE, 0)], "a multiple of 32"),
    ([tensor("t", (8, 32), 16, 0)], "a multiple of 256"),
    ([tensor("t", (1,), 0, 4)], "offset is 4, the data before it ends at 0"),
    ([tensor("t", (1,), 0, 0), tensor("u", (1,), 0, 4)], "offset is 4, .* ends at 32"),
    ([tensor("t", (1,), 0, 0), tensor("u", (1,), 0, 0)], "offset is 0, .* ends at 32"),
    ([tensor("t", (1,), 0, 32), tensor("u", (1,), 0, 0)], "offset is 32, .* ends at 0"),
    ([tensor("t", (17,), 0, 0)], "ends 4 bytes beyond the end of the file"),
    ([tensor("t", (1,), 99, 0), tensor("u", (1,), 0, 96)], "'t': data ends 32 bytes beyond"),
]


@pytest.mark.parametrize(
    ("data", "message"),
    [*BAD_FILES, *((gguf_bytes((), rows, F4), message) for rows, message in BAD_TENSORS)],
)
def test_damaged_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(PackageError, match=message) as error:
        open_model(path)
    assert error.value.code == "OI0418"
    assert error.value.hint


@pytest.mark.parametrize(
    ("version", "message"),
    [(1, "version 1"), (4, "version 4"), (3 << 24, "big-endian"), (2 << 24, "big-endian")],
)
def test_other_versions(tmp_path: Path, version: int, message: str) -> None:
    with pytest.raises(UnsupportedError, match=f"OI0741.*{message}"):
        open_model(write(tmp_path / "m.gguf", version=version))


def test_damage_inside_of_arrays_shows_when_they_are_read(tmp_path: Path) -> None:
    keys = [("flags", ARRAY, (BOOL, [0, 2])), ("words", ARRAY, (TEXT, ["ab", b"\xff\xff"]))]
    with opened(write(tmp_path / "m.gguf", keys)) as package:
        with pytest.raises(PackageError, match=r"OI0405.*'flags'"):
            package.metadata["flags"]
        words = package.fields["words"]
        assert isinstance(words, Array)
        with pytest.raises(PackageError, match=r"OI0418.*'words': element 1 is not UTF-8"):
            words.texts()


def test_a_file_of_the_name_alone(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"not one")
    with pytest.raises(PackageError, match=r"OI0418.*magic"):
        open_model(tmp_path / "m.gguf")
    write(tmp_path / "n.bin", [("x", F32, 1.0), ("y", U16, 2), ("z", I64, 3)])
    assert opened(tmp_path / "n.bin").sizes == {"y": 2, "z": 3}
