"""The words of a kernel, held against the rules of modules and against the device of the program."""

from __future__ import annotations

from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.facts import Facts
from openinfer.lowering.vulkan.serialize import serialize
from openinfer.runtime.devices.description import MOST_BUFFERS, DeviceDescription
from openinfer.runtime.spirv.check_limits import Limits, check_limits
from openinfer.runtime.spirv.check_words import check_words

_DEVICE = "the device that the program is compiled for"
_FIX = (
    "ask for less; `openinfer.shared_memory` and `openinfer.invocations` of the module say what "
    "its device has"
)


def checked_words(kernel: SpirvModuleOp) -> bytes:
    """The words of a kernel, as a driver takes them.

    Raises ArtefactError OI0761 where they are no module that a driver takes, UnsupportedError OI0773 where
    they ask for more than the module around it says that its device has.
    """
    words = serialize(kernel)
    module, facts = check_words(words), Facts.of(kernel)
    if facts.device == "vulkan":
        name = kernel.sym_name.data if kernel.sym_name is not None else "without a name"
        check_limits(module, limits_of(facts.device_description), name, _DEVICE, _FIX)
    return words


def limits_of(described: DeviceDescription) -> Limits:
    """What a described device gives a kernel."""
    threads = described.invocations
    return Limits(threads, (threads, threads, 64), described.shared_memory, MOST_BUFFERS + 1)
