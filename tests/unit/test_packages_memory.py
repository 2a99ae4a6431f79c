"""Weights from memory: mappings, other libraries' arrays by DLPack, and what compiles from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import content_of, to_oinf_bytes
from openinfer.runtime.packages.values import ScalarValue
from openinfer.runtime.tensors import Tensor, taken

PROGRAM = """
dynamic { x: f32[B, K]; }
constant { W: f32[K, N]; b: f32[N]; }
volatile { y: f32[B, N]; }
block entry {
    assign h: f32[B, N];
    op matmul(x, W) >> h;
    op add(h, b) >> y;
    return y;
}
"""


class Exporter:
    """An array of a library that we know nothing of."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, **options: Any) -> object:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


def weights(seed: int = 0) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    random = np.random.default_rng(seed)
    return {
        "W": random.standard_normal((8, 5)).astype(np.float32),
        "b": random.standard_normal(5).astype(np.float32),
    }


X = np.random.default_rng(9).standard_normal((3, 8)).astype(np.float32)


def test_a_program_compiles_from_arrays() -> None:
    given = weights()
    wanted = X @ given["W"] + given["b"]
    for made in (oi.compile(PROGRAM, given), oi.Simulator(PROGRAM, given)):
        with made.make_executor() as executor:
            np.testing.assert_allclose(executor.run(x=X)["y"], wanted, rtol=1e-5, atol=1e-5)


def test_arrays_of_other_libraries_and_strides() -> None:
    given = weights()
    turned = np.asfortranarray(given["W"])
    model = {"W": Exporter(turned), "b": Exporter(np.repeat(given["b"], 2)[::2])}
    with oi.compile(PROGRAM, model).make_executor() as executor:
        wanted = X @ given["W"] + given["b"]
        np.testing.assert_allclose(executor.run(x=X)["y"], wanted, rtol=1e-5, atol=1e-5)


def test_a_program_from_the_cache_takes_the_weights_that_it_is_given() -> None:
    """What weights hold is no part of the code: the second program comes from the cache."""
    text = PROGRAM.replace("add(h, b)", "sub(h, b)")
    first, second = weights(1), weights(2)
    with oi.compile(text, first).make_executor() as executor:
        np.testing.assert_allclose(
            executor.run(x=X)["y"], X @ first["W"] - first["b"], rtol=1e-5, atol=1e-5
        )
    again = oi.compile(text, second)
    assert not again.compiled
    with again.make_executor() as executor:
        np.testing.assert_allclose(
            executor.run(x=X)["y"], X @ second["W"] - second["b"], rtol=1e-5, atol=1e-5
        )


def test_another_shape_or_size_is_another_program() -> None:
    text = PROGRAM.replace("add(h, b)", "max(h, b)")
    given = weights()
    oi.compile(text, given)
    assert oi.compile(text, {**given, "width": 4}).compiled
    narrow = {"W": given["W"][:, :3], "b": given["b"][:3]}
    program = oi.compile(text, narrow)
    assert program.compiled
    with program.make_executor() as executor:
        assert executor.run(x=X)["y"].shape == (3, 3)


def test_a_package_of_a_mapping_says_what_a_file_of_it_says(tmp_path: Path) -> None:
    content = {
        "W": np.arange(6, dtype=np.float16).reshape(2, 3),
        "n": Tensor.from_values("bf16", [1.5, -2.0]),
        "packed": oi.TensorSpec([1, -1, 0, -2, 3], "i4"),
        "later": oi.UninitializedTensor("f32", (2, 2)),
        "hidden": 64,
        "eps": 1e-5,
        "flag": True,
        "mode": "gelu",
        "axes": [1, 2],
        "bits": oi.Bitset([1, 0, 1]),
    }
    oi.write_oinf(content, tmp_path / "m.oinf")
    with oi.open_model(tmp_path / "m.oinf") as file, oi.open_model(content) as memory:
        assert memory.header_hash() == file.header_hash()
        assert memory.sizes == file.sizes == {"hidden": 64}
        assert memory.metadata["eps"] == file.metadata["eps"]
        assert isinstance(memory.metadata["eps"], ScalarValue)
        for name in ("W", "n", "packed"):
            assert memory.read(name).tobytes() == file.read(name).tobytes()
        with pytest.raises(oi.PackageError, match="without data"):
            memory.read("later")
        assert to_oinf_bytes(content_of(memory)) == (tmp_path / "m.oinf").read_bytes()


def test_arrays_are_borrowed_or_copied() -> None:
    array = np.ones(4, np.float32)
    borrowed, copied = oi.open_model({"W": array}), oi.open_model({"W": array}, copy=True)
    array[0] = 7
    assert borrowed.read("W")[0] == 7
    assert copied.read("W")[0] == 1
    assert not borrowed.read("W").flags.writeable
    assert array.flags.writeable


def test_a_saved_program_takes_arrays_again(tmp_path: Path) -> None:
    given = weights(3)
    program = oi.compile(PROGRAM, given)
    program.save(tmp_path / "p.oip")
    with pytest.raises(oi.ArtefactError, match=r"OI0804(.|\n)*model=\{NAME: array\}"):
        oi.load(tmp_path / "p.oip").make_executor()
    with pytest.raises(oi.ArtefactError, match="OI0805"):
        oi.load(tmp_path / "p.oip", {"W": given["W"]})
    with oi.load(tmp_path / "p.oip", given).make_executor() as executor:
        wanted = executor.run(x=X)["y"]
    program.save(tmp_path / "all.oip", embed_weights=True)
    with oi.load(tmp_path / "all.oip").make_executor() as executor:
        np.testing.assert_array_equal(executor.run(x=X)["y"], wanted)


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ({"W": object()}, "OI0412", "no metadata value can be made of object"),
        ({3: np.ones(2)}, "OI0412", "3 is no name of an entry"),
        ({"W": np.array(["a"])}, "OI0412", "there is no dtype"),
        ({"W": np.ones(2, np.complex64)}, "OI0412", "there is no dtype for complex64"),
        ({"W": None}, "OI0412", "is None"),
        ({"n": -1}, "OI0412", "a size lies in"),
        (7, "OI0401", "the path of a package is a int"),
    ],
)
def test_what_is_no_model_is_refused(content: Any, code: str, message: str) -> None:
    with pytest.raises(oi.PackageError, match=message) as caught:
        oi.open_model(content)
    assert caught.value.code == code


def test_modules_are_sent_for_their_state_dict() -> None:
    class Module:
        def state_dict(self) -> dict[str, Any]:
            return {}

    with pytest.raises(oi.InputError, match=r"model\.state_dict\(\)") as caught:
        oi.compile(PROGRAM, Module())  # pyright: ignore[reportArgumentType]
    assert caught.value.code == "OI0525"


@pytest.mark.parametrize("dtype", ["bf16", "f8", "f8e4m3", "f32", "f16", "i64", "u8", "bool"])
def test_tensors_go_out_and_come_in_by_dlpack(dtype: str) -> None:
    tensor = Tensor.from_values(dtype, [[1, 0], [0, 1]])
    back = taken(Exporter(tensor))
    assert (back.dtype, back.shape) == (tensor.dtype, (2, 2))
    assert back.storage.ctypes.data == tensor.storage.ctypes.data
    np.testing.assert_array_equal(back.values(), tensor.values())
    assert tensor.__dlpack_device__() == (1, 0)


def test_packed_tensors_have_no_dlpack() -> None:
    with pytest.raises(BufferError, match=r"i4 values share bytes(.|\n)*\.storage"):
        Tensor.from_values("i4", [1, 2]).__dlpack__()


def test_results_in_bf16_leave_without_a_copy() -> None:
    text = "dynamic { x: bf16[N]; } volatile { y: bf16[N]; } block entry { op add(x, x) >> y; return y; }"
    with oi.compile(text).make_executor() as executor:
        found = executor.run(x=Tensor.from_values("bf16", [1.5, -3.0]))["y"]
        assert isinstance(found, Tensor)
        assert taken(Exporter(found)).storage.ctypes.data == found.storage.ctypes.data
        np.testing.assert_array_equal(taken(Exporter(found)).values(), [3.0, -6.0])


def test_pytorch() -> None:
    """The real thing, where it is installed: every dtype, with strides, parameters, results."""
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(8, 5)
    model = {"W": linear.weight.t(), "b": linear.bias}
    with oi.compile(PROGRAM, model).make_executor() as executor:
        found = torch.from_dlpack(executor.run(x=torch.from_numpy(X))["y"])
    torch.testing.assert_close(found, linear(torch.from_numpy(X)).detach())
    for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn", "float16", "int32", "bool"):
        values = torch.tensor([[1.0, 0.0], [2.0, 1.0]]).to(getattr(torch, name))
        tensor = taken(values.t())
        np.testing.assert_array_equal(
            np.asarray(tensor.values(), np.float64), values.t().to(torch.float64).numpy()
        )
        back = torch.from_dlpack(tensor)
        assert back.dtype == values.dtype
        assert back.data_ptr() == tensor.storage.ctypes.data
