"""The `spirv` dialect: the twin of MLIR's of the same name, in text and in words.

The generic form of a module is the same in both, and what MLIR prints is read here.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from openinfer.dialects.spirv.composite_ops import COMPOSITE_OPS
from openinfer.dialects.spirv.control_flow_ops import CONTROL_FLOW_OPS
from openinfer.dialects.spirv.enums import ENUMS
from openinfer.dialects.spirv.memory_ops import MEMORY_OPS
from openinfer.dialects.spirv.structure_ops import STRUCTURE_OPS, VersionAttr
from openinfer.dialects.spirv.tensor_ops import TENSOR_OPS
from openinfer.dialects.spirv.types import TYPES
from openinfer.dialects.spirv.value_ops import VALUE_OPS

SPIRV = Dialect(
    "spirv",
    [
        *STRUCTURE_OPS,
        *CONTROL_FLOW_OPS,
        *MEMORY_OPS,
        *COMPOSITE_OPS,
        *TENSOR_OPS,
        *VALUE_OPS.values(),
    ],
    [*TYPES, *ENUMS, VersionAttr],
)
