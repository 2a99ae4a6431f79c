"""`openinfer quantize`: `.gguf` models in block formats, written whole or not at all."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.quantizing import TYPES
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_fields import Array

Capture = pytest.CaptureFixture[str]
KINDS = gguf.GGMLQuantizationType
GENERATOR = np.random.default_rng(2)
WIDE = GENERATOR.standard_normal((6, 64)).astype(np.float32)
EXPERTS = GENERATOR.standard_normal((2, 3, 32)).astype(np.float32)
ODD = GENERATOR.standard_normal((3, 40)).astype(np.float32)
NORM = GENERATOR.standard_normal(64).astype(np.float32)


def source(path: Path, extra: dict[str, Any] | None = None, **options: Any) -> Path:
    writer = gguf.GGUFWriter(path, "llama", **options)
    writer.add_block_count(2)
    writer.add_file_type(1)
    writer.add_token_list(["a", "b", "ü"])
    writer.add_tensor("a.weight", WIDE)
    writer.add_tensor("b.weight", WIDE.astype(np.float16))
    bits = gguf.quantize(WIDE, KINDS.BF16)
    writer.add_tensor("c.weight", bits, raw_dtype=KINDS.BF16)
    writer.add_tensor("blk.0.ffn_up_exps.weight", EXPERTS)
    writer.add_tensor("odd.weight", ODD)
    writer.add_tensor("blk.0.attn_norm.weight", NORM)
    writer.add_tensor("blk.0.ffn_gate_inp.weight", WIDE)
    writer.add_tensor("blk.0.attn_q.bias", WIDE)
    for name, data in (extra or {}).items():
        kind = KINDS.Q8_0 if data.dtype == np.uint8 else None
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", [kind for kind in TYPES if not kind.endswith("_k")])
def test_weights_get_the_type(tmp_path: Path, capsys: Capture, kind: str) -> None:
    path, out = source(tmp_path / "m.gguf"), tmp_path / "out.gguf"
    assert main(["quantize", str(path), str(out), "--type", kind]) == 0
    text = capsys.readouterr().out
    assert f"  {kind}: 4 tensors" in text
    assert "  odd.weight is f16: its rows have 40 values, no multiple of 32" in text
    made = KINDS[kind.upper()]
    bf16 = gguf.dequantize(gguf.quantize(WIDE, KINDS.BF16), KINDS.BF16)
    with open_model(out) as package:
        assert isinstance(package, GgufPackage)
        for name, values in {
            "a.weight": WIDE,
            "b.weight": WIDE.astype(np.float16).astype(np.float32),
            "c.weight": bf16,
            "blk.0.ffn_up_exps.weight": EXPERTS,
        }.items():
            assert package.info(name).dtype_name == kind
            assert package.info(name).shape == values.shape
            np.testing.assert_array_equal(package.read(name), gguf.quantize(values, made))
        np.testing.assert_array_equal(package.read("odd.weight"), ODD.astype(np.float16))
        np.testing.assert_array_equal(package.read("blk.0.attn_norm.weight"), NORM)
        for name in ("blk.0.ffn_gate_inp.weight", "blk.0.attn_q.bias"):
            np.testing.assert_array_equal(package.read(name), WIDE)
        assert package.sizes["block_count"] == 2
        assert package.sizes["general.quantization_version"] == 2
        assert package.sizes["general.file_type"] == gguf.LlamaFileType[_file_type(kind)]
        tokens = package.fields["tokenizer.ggml.tokens"]
        assert isinstance(tokens, Array)
        assert tokens.texts() == ["a", "b", "ü"]


def _file_type(kind: str) -> str:
    return "MOSTLY_MXFP4_MOE" if kind == "mxfp4" else f"MOSTLY_{kind.upper()}"


@pytest.mark.parametrize("kind", ["q4_k", "q6_k"])
def test_blocks_of_256(tmp_path: Path, capsys: Capture, kind: str) -> None:
    """Rows that they do not divide get `q8_0`, or `f16`."""
    long = GENERATOR.standard_normal((5, 512)).astype(np.float32)
    path, out = source(tmp_path / "m.gguf", {"long.weight": long}), tmp_path / "out.gguf"
    assert main(["quantize", str(path), str(out), "--type", kind]) == 0
    text = capsys.readouterr().out
    assert "  a.weight is q8_0: its rows have 64 values, no multiple of 256" in text
    assert "  odd.weight is f16: its rows have 40 values, no multiple of 256" in text
    with open_model(out) as package:
        assert package.info("long.weight").dtype_name == kind
        data = np.array(package.read("long.weight"))
        found = gguf.dequantize(data, KINDS[kind.upper()])
        assert np.sqrt(np.mean((found - long) ** 2)) < {"q4_k": 0.075, "q6_k": 0.02}[kind]
        np.testing.assert_array_equal(package.read("a.weight"), gguf.quantize(WIDE, KINDS.Q8_0))


def test_other_readers_read_it(tmp_path: Path) -> None:
    path, out = source(tmp_path / "m.gguf"), tmp_path / "out.gguf"
    assert main(["quantize", str(path), str(out), "--type", "q4_0"]) == 0
    reader = gguf.GGUFReader(out)
    assert [tensor.name for tensor in reader.tensors][:2] == ["a.weight", "b.weight"]
    found = gguf.dequantize(reader.tensors[0].data, KINDS.Q4_0)
    wanted = gguf.dequantize(gguf.quantize(WIDE, KINDS.Q4_0), KINDS.Q4_0)
    np.testing.assert_array_equal(found, wanted)


def test_parts_become_one_file(tmp_path: Path, capsys: Capture) -> None:
    source(tmp_path / "m.gguf", split_max_tensors=3)
    first = tmp_path / "m-00001-of-00003.gguf"
    out = tmp_path / "out.gguf"
    assert main(["quantize", str(first), str(out), "--type", "q8_0", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bytes"] == out.stat().st_size
    assert facts["dtypes"]["q8_0"] == {"tensors": 4, "nbytes": 3 * 6 * 68 + 6 * 34}
    assert facts["others"][0]["tensor"] == "odd.weight"
    with open_model(out) as package:
        assert len(package.tensors) == 8
        assert not [name for name in package.sizes if name.startswith("split.")]


def test_many_rows_are_written_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = source(tmp_path / "m.gguf")
    assert main(["quantize", str(path), str(tmp_path / "one.gguf"), "--type", "q5_1"]) == 0
    monkeypatch.setattr("openinfer.compiler.tools.quantizing._PIECE", 130)
    assert main(["quantize", str(path), str(tmp_path / "two.gguf"), "--type", "q5_1"]) == 0
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_a_file_takes_its_own_place(tmp_path: Path) -> None:
    path = source(tmp_path / "m.gguf")
    assert main(["quantize", str(path), str(path), "--type", "q8_0"]) == 0
    with open_model(path) as package:
        assert package.info("a.weight").dtype_name == "q8_0"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"q.weight": np.zeros((2, 34), np.uint8)}, "'q.weight' is q8_0"),
        ({"n.weight": np.full((1, 32), np.nan, np.float32)}, "'n.weight' holds nan"),
        ({"n.weight": np.full((1, 40), 1e6, np.float32)}, "'n.weight' holds 1000000"),
    ],
)
def test_what_cannot_be_quantised(
    tmp_path: Path, capsys: Capture, extra: dict[str, Any], message: str
) -> None:
    """An error in the middle of the file leaves what was there before."""
    path, out = source(tmp_path / "m.gguf", extra), tmp_path / "out.gguf"
    out.write_bytes(b"before")
    assert main(["quantize", str(path), str(out), "--type", "q8_0"]) == 1
    error = capsys.readouterr().err
    assert "OI0744" in error
    assert message in error
    assert out.read_bytes() == b"before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gguf", "out.gguf"]


def test_mistakes(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = str(source(tmp_path / "m.gguf")), str(tmp_path / "out.gguf")
    assert main(["quantize", path, out, "--type", "q9_9"]) == 2
    assert main(["quantize", path, str(tmp_path / "no" / "o.gguf"), "--type", "q8_0"]) == 1
    assert "OI0401" in capsys.readouterr().err
    other = tmp_path / "m.oinf"
    assert main(["pack", path, "-o", str(other), "--dtype", "f16"]) == 0
    assert main(["quantize", str(other), out, "--type", "q8_0"]) == 2
    assert "m.oinf is no .gguf model" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert main(["quantize", path, out, "--type", "q8_0"]) == 1
    assert "openinfer[llm]" in capsys.readouterr().err
    assert not Path(out).exists()
