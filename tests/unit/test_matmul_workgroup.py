"""Products by matrices of a workgroup: the kernels, run in NumPy, against products in f64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from test_spirv_dialect import parsed
from workgroup_kernels import run_kernel
from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from openinfer.compiler.registry import make_context
from openinfer.dialects.extensions.gpu import SubgroupMmaComputeOp
from openinfer.lowering.vulkan.schedules import matmul, matmul_workgroup
from openinfer.lowering.vulkan.schedules.lower_device_kernels import LowerDeviceKernels
from openinfer.lowering.vulkan.schedules.matmul_workgroup import WorkgroupTile, turn_of
from openinfer.runtime.errors import InputError

HEAD = (
    'openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, '
    "openinfer.shared_memory = 49152 : i64, openinfer.matrices, openinfer.workgroup_matrices"
)
TILE = WorkgroupTile(64, 32, 16, 128)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A product with its epilogue."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    turned: bool = True
    bias: bool = False
    residual: bool = False
    relu: bool = False
    result: str = "f16"

    @property
    def shape(self) -> tuple[int, ...]:
        batch = np.broadcast_shapes(self.left[:-2], self.right[:-2])
        return (*batch, self.left[-2], self.right[-2 if self.turned else -1])

    def extras(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and map of what the epilogue takes."""
        dims = ", ".join(f"d{n}" for n in range(len(self.shape)))
        last = f"d{len(self.shape) - 1}"
        found: list[tuple[str, tuple[int, ...], str]] = []
        if self.bias:
            found.append(("b", self.shape[-1:], f"affine_map<({dims}) -> ({last})>"))
        if self.residual:
            found.append(("r", self.shape, f"affine_map<({dims}) -> ({dims})>"))
        return found

    def body(self) -> str:
        """What the epilogue computes, as the passes in front write it."""
        names = [name for name, _, _ in self.extras()]
        arguments = "".join(f", %{name}e: f16" for name in names)
        lines, last = [f"^bb0(%s: f32{arguments}):"], "%s"
        for name in names:
            lines += [
                f"%{name}0 = arith.truncf {last} : f32 to f16",
                f"%{name}1 = arith.extf %{name}0 : f16 to f32",
                f"%{name}2 = arith.extf %{name}e : f16 to f32",
                f"%{name}3 = arith.addf %{name}1, %{name}2 : f32",
            ]
            last = f"%{name}3"
        if self.relu:
            lines += [
                f"%h = arith.truncf {last} : f32 to f16",
                "%wide = arith.extf %h : f16 to f32",
                "%zero = arith.constant 0.0 : f32",
                "%m = arith.maximumf %wide, %zero : f32",
            ]
            last = "%m"
        lines.append(f"%last = arith.truncf {last} : f32 to f16")
        if self.result == "f32":
            lines += ["%out = arith.extf %last : f16 to f32", "nn.yield %out : f32"]
        else:
            lines.append("nn.yield %last : f16")
        return "\n".join(lines)

    def text(self) -> str:
        """The module: a step that calls the kernel."""
        buffers = [("x", self.left, "f16"), ("w", self.right, "f16")]
        buffers += [(name, shape, "f16") for name, shape, _ in self.extras()]
        buffers.append(("y", self.shape, self.result))
        types = [f"memref<{'x'.join(map(str, shape))}x{kind}>" for _, shape, kind in buffers]
        names = [f"%{name}" for name, _, _ in buffers]
        listed = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types))
        made = "\n".join(
            f'{name} = memref.alloc() {{openinfer.memory = "device"}} : {type_}'
            for name, type_ in zip(names, types)
        )
        attributes = ["transpose_b"] if self.turned else []
        extras = ", ".join(names[2:-1])
        if extras or self.relu:
            attributes.append(f"maps = [{', '.join(one for _, _, one in self.extras())}]")
        given = f"{{{', '.join(attributes)}}}" if attributes else ""
        region = f"{{ {self.body()} }}" if extras or self.relu else ""
        more = f"extras({extras}) " if extras else ""
        return f"""builtin.module attributes {{{HEAD}}} {{
          func.func @step() {{
            {made}
            func.call @product_0({", ".join(names)}) : ({", ".join(types)}) -> ()
            func.return }}
          func.func private @product_0({listed}) {{
            nn.matmul(%x, %w) {more}outs(%y) {given} {region} : ({", ".join(types)}) -> ()
            func.return }} }}"""

    def known(self, buffers: Sequence[Array]) -> Array:
        """In f64."""
        x, w, *extras = (one.astype(np.float64) for one in buffers[:-1])
        y = x @ (np.swapaxes(w, -1, -2) if self.turned else w)
        for extra in extras:
            y = y + extra
        return np.maximum(y, 0) if self.relu else y


def constant(value: SSAValue) -> int:
    owner = value.owner
    assert isinstance(owner, arith.ConstantOp)
    assert isinstance(owner.value, IntegerAttr)
    return owner.value.value.data


def lowered(text: str) -> tuple[FuncOp, int, int]:
    """The kernel, and how many workgroups of how many invocations a step starts."""
    module = parsed(text)
    LowerDeviceKernels().apply(make_context(), module)
    module.verify()
    (launch,) = (op for op in module.walk() if isinstance(op, gpu.LaunchFuncOp))
    kernel = next(
        op for op in module.body.ops if isinstance(op, FuncOp) and op.sym_name.data != "step"
    )
    return kernel, constant(launch.gridSizeX), constant(launch.blockSizeX)


CASES = {
    "whole tiles": Case((128, 64), (64, 64)),
    "whole tiles, [K, N]": Case((128, 64), (64, 64), turned=False),
    "one column of tiles": Case((192, 32), (32, 32)),
    "more rows of tiles than a block": Case((64 * 18, 16), (96, 16), bias=True),
    "edges": Case((130, 72), (72, 72), bias=True, residual=True),
    "edges, [K, N]": Case((130, 72), (72, 72), turned=False, bias=True, residual=True),
    "steps that are left": Case((64, 200), (32, 200), relu=True),
    "fewer steps than a matrix": Case((64, 24), (32, 24)),
    "many steps": Case((64, 1024), (32, 1024), residual=True),
    "batches": Case((3, 70, 40), (3, 40, 48), turned=False, residual=True, relu=True),
    "batches that share": Case((3, 70, 40), (1, 48, 40), bias=True, residual=True),
    "rows of batches": Case((3, 70, 40), (48, 40), bias=True, residual=True, relu=True),
    "two axes of batches": Case((2, 3, 64, 32), (1, 3, 32, 32), bias=True),
    "f32": Case((70, 40), (48, 40), result="f32"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_kernels_compute_products(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "workgroup_tile", lambda found, rows: TILE)
    monkeypatch.setattr(matmul_workgroup, "STEPS", 64)
    kernel, groups, size = lowered(case.text())
    assert size == TILE.size
    random = np.random.default_rng(3)
    shapes = [case.left, case.right, *(shape for _, shape, _ in case.extras())]
    buffers: list[Array] = [random.standard_normal(one).astype(np.float16) for one in shapes]
    buffers.append(np.full(case.shape, np.nan, np.float32 if case.result == "f32" else np.float16))
    run_kernel(kernel, groups, buffers)
    known = case.known(buffers)
    error = np.abs(buffers[-1] - known)
    assert np.isfinite(buffers[-1]).all()
    assert (error <= 2e-3 + 1e-3 * np.abs(known)).all()


@pytest.mark.parametrize(
    ("whole", "most", "together"),
    [
        (0, 16, 1),
        (1, 16, 1),
        (6, 16, 6),
        (24, 16, 8),
        (32, 16, 16),
        (20, 16, 4),
        (17, 16, 8),
        (9, 4, 2),
    ],
)
def test_turns_of_a_loop_are_long(whole: int, most: int, together: int) -> None:
    assert turn_of(whole, most) == together


LARGE = Case((4096, 64), (4096, 64))
PRODUCT = "4096x64x4096 f16 transposed"


def with_row(case: Case, product: str, *numbers: int) -> str:
    """The module of a device with a measured tile."""
    row = f'{{"{product}" = array<i64: {", ".join(map(str, numbers))}>}}'
    head = f"{HEAD}, openinfer.invocations = 1024 : i64"
    return case.text().replace(HEAD, f"{head}, openinfer.device_tiles = {row}")


def matrices_of(kernel: FuncOp) -> set[str]:
    """The shapes of the sums of a kernel."""
    return {
        f"{op.result.type.rows.data}x{op.result.type.columns.data}"
        for op in kernel.walk()
        if isinstance(op, SubgroupMmaComputeOp)
    }


def test_a_measured_tile_is_taken() -> None:
    default, _, _ = lowered(with_row(LARGE, f"{PRODUCT} matrices", 64, 64, 32, 32, 32))
    assert matrices_of(default) == {"16x16"}, "tiles of subgroups win where they were measured"
    kernel, groups, size = lowered(with_row(LARGE, f"{PRODUCT} workgroup", 64, 128, 16, 32, 64))
    assert matrices_of(kernel) == {"64x128"}
    assert (groups, size) == (64 * 32, 128)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((64, 128, 24, 32, 64), "24 is no multiple of 16"),
        ((48, 128, 16, 24, 64), "48 is no multiple of 32"),
        ((512, 128, 16, 256, 64), "512 is no multiple of 32 up to 256"),
        ((64, 128, 16, 32, 32), None),
        ((64, 128, 16, 64, 64), "its 64 invocations are none of 128, 256"),
        ((64, 128, 16, 32, 64, 2), "a workgroup holds all sums"),
        ((64, 128, 16, 48, 64), "no multiples of 48x64"),
    ],
)
def test_a_tile_that_cannot_be_is_refused(numbers: tuple[int, ...], says: str | None) -> None:
    text = with_row(LARGE, f"{PRODUCT} workgroup", *numbers)
    if says is None:
        assert lowered(text)[2] == 256
        return
    with pytest.raises(InputError, match=says) as caught:
        lowered(text)
    assert caught.value.code == "OI0532"


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((8192, 384, 1152), (128, 192)),
        ((8192, 1536, 384), (128, 192)),
        ((4096, 4096, 4096), (128, 256)),
        ((128, 384, 1536), None),
    ],
)
def test_tiles_keep_a_device_busy(
    shape: tuple[int, int, int], tile: tuple[int, int] | None
) -> None:
    rows, depth, columns = shape
    kernel, _, _ = lowered(Case((rows, depth), (columns, depth)).text())
    assert matrices_of(kernel) == ({f"{tile[0]}x{tile[1]}"} if tile else {"16x16"})


def test_batches_are_rows() -> None:
    """A tile goes on in the next batch, where all of them have the right operand."""
    kernel, groups, _ = lowered(Case((64, 100, 384), (384, 384), residual=True).text())
    assert matrices_of(kernel) == {"128x192"}
    assert groups == 64 * 100 // 128 * 2
    own, groups, _ = lowered(Case((64, 100, 384), (64, 384, 384)).text())
    assert matrices_of(own) == {"128x192"}
    assert groups == 64 * 2


def test_what_is_rounded_stays_so() -> None:
    """A result of f32 that the program rounds to f16 on its way: sums that are one matrix are not."""
    shapes = (4096, 64), (4096, 64)
    plain, _, _ = lowered(Case(*shapes, result="f32").text())
    assert matrices_of(plain) == {"128x256"}
    rounded, _, _ = lowered(Case(*shapes, bias=True, result="f32").text())
    assert matrices_of(rounded) == {"16x16"}
