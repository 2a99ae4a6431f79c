"""What tests of imports from PyTorch share: a module against its program, on both executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.importers.graph_writer import Imported
from openinfer.compiler.importers.torch.export import import_module

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: scripts/install-extras.sh")


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any) -> Any:
        return self.function(x, y)


def arrays(values: Any) -> list[Any]:
    """The tensors of a result, in order, as arrays; narrow floats as f32."""
    leaves = [one for one in torch.utils._pytree.tree_leaves(values) if one is not None]
    wide = [one.float() if one.dtype in (torch.bfloat16, torch.float16) else one for one in leaves]
    return [one.detach().numpy() for one in wide]


def assert_same(found: Any, want: Any, name: str, tolerance: float = 1e-5) -> None:
    """Equal shapes, dtypes and values: the error is at most `tolerance` of the largest number."""
    found = np.asarray(found)
    assert found.shape == want.shape, name
    if want.dtype.kind == "f":
        finite = want[np.isfinite(want)]
        atol = tolerance * max(float(np.abs(finite).max(initial=0)), 1e-3)
        np.testing.assert_allclose(
            found.astype(np.float64),
            want.astype(np.float64),
            rtol=tolerance,
            atol=atol,
            err_msg=name,
        )
        return
    assert found.dtype == want.dtype, name
    np.testing.assert_array_equal(found, want, err_msg=name)


def check(
    module: Any,
    inputs: Mapping[str, Any],
    dynamic: Mapping[str, Any] | None = None,
    others: Sequence[Mapping[str, Any]] = (),
    *,
    compiled: bool = True,
    tolerance: float = 1e-5,
) -> Imported:
    """Imports a module with example inputs and compares it with PyTorch: with these, and with others."""
    imported = import_module(module, inputs, dynamic)
    graph = oi.graph(print_program(imported.module))
    executors = [oi.Simulator(graph, imported.tensors).make_executor()]
    if compiled:
        executors.append(oi.compile(graph, imported.tensors).make_executor())
    for given in (inputs, *others):
        with torch.no_grad():
            want = arrays(module(**given))
        for executor in executors:
            found = executor.run(**{name: torch_input(value) for name, value in given.items()})
            assert len(found) == len(want)
            for (name, one), other in zip(found.items(), want):
                assert_same(one, other, f"{name} of {type(executor).__name__}", tolerance)
    return imported


def torch_input(value: Any) -> Any:
    """A tensor as executors take it."""
    return value if value.dtype == torch.bfloat16 else value.numpy()


def ops_of(imported: Imported) -> list[str]:
    """The names of the ops of a program, in order."""
    from openinfer.dialects.graph import OpOp

    return [op.op_name.data for op in imported.module.walk() if isinstance(op, OpOp)]
