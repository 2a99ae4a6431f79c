"""Where an op runs: on the device that the program is compiled for, or on the host.

`choose-places` marks what leaves the device, `%y = nn.softmax(%x) … attrs {openinfer.place = "host"}`, and
`outline-kernels` hands the mark on to the calls. An op without it runs on the device. Programs for the CPU
have no marks: device and host are one machine, with one memory.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, StringAttr
from xdsl.dialects.func import CallOp
from xdsl.ir import Operation

from openinfer.lowering.facts import Facts
from openinfer.runtime.devices import DEFAULT_DEVICE

PLACE = "openinfer.place"
"""On an op, and on the call of its kernel; absent for the device."""
MEMORY = "openinfer.memory"
"""On an allocation: the memory that it is in; absent for that of the host."""
HOST, DEVICE = "host", "device"
KNOWN_BLOCK_SIZE = "gpu.known_block_size"
"""On the function of a kernel that is lowered for the device: the invocations of a workgroup."""

EXACT = "openinfer.exact"
"""On the function of a kernel of the device: its arguments that are bound where they begin. Of the others the
host says how far behind the place of the binding."""


def on_host(op: Operation) -> bool:
    """Whether `choose-places` has sent an op to the host."""
    return op.attributes.get(PLACE) == StringAttr(HOST)


def to_host(op: Operation) -> None:
    """Sends an op to the host."""
    op.attributes[PLACE] = StringAttr(HOST)


def as_hosts(call: CallOp, step: Operation) -> CallOp:
    """A call of a function of the host in a step; where there is a device, the call says so."""
    if Facts.of(step).device != DEFAULT_DEVICE:
        to_host(call)
    return call


def keep_place(source: Operation, target: Operation) -> None:
    """`target`, which replaces `source` or calls it, runs where that would."""
    if on_host(source):
        to_host(target)


def is_device_kernel(op: Operation) -> bool:
    """Whether an op is the function of a kernel that is lowered for the device: passes for the host leave
    it alone."""
    return KNOWN_BLOCK_SIZE in op.attributes


def exact_arguments(function: Operation) -> frozenset[int]:
    """The arguments of a kernel that are bound where they begin, by number."""
    said = function.attributes.get(EXACT)
    if not isinstance(said, DenseArrayBase):
        return frozenset()
    return frozenset(int(number) for number in said.get_values())
