"""The scratch buffers of a kernel's op, by name."""

from __future__ import annotations

from xdsl.ir import SSAValue

from openinfer.dialects.nn import NNOp
from openinfer.runtime.errors import CompileError


def scratch_of(op: NNOp, *names: str) -> list[SSAValue]:
    """The scratch buffers that a schedule cannot do without. Raises CompileError OI0955."""
    found = [op.room(name) for name in names]
    missing = [name for name, value in zip(names, found) if value is None]
    if missing:
        raise CompileError(
            "OI0955",
            f"{op.name} stands without the scratch buffers that its schedule needs: "
            + ", ".join(missing),
            hint="bufferise for the target that the kernels are lowered for",
        )
    return [value for value in found if value is not None]
