"""Level 1: the program as written. Variables are names, sizes expressions, nothing is inferred.

A module holds `graph.variable` declarations and `graph.block`s. After `bind-model` it also holds
what the program may know of its package: `graph.package_size`, `graph.package_tensor` and
`graph.package_value`, so that every later level is independent of the package file.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from openinfer.dialects.graph.attributes import (
    KINDS,
    LiteralAttr,
    NameAttr,
    Operand,
    RefAttr,
    SizeAttr,
    SliceAttr,
    parse_size,
    print_size,
)
from openinfer.dialects.graph.control_flow import (
    AwaitOp,
    BarrierOp,
    BranchOp,
    CallOp,
    DepOp,
    LoopOp,
    ReturnOp,
    ScopeOp,
    YieldOp,
)
from openinfer.dialects.graph.declarations import (
    BlockOp,
    PackageSizeOp,
    PackageTensorOp,
    PackageValueOp,
    SizeBoundOp,
    SizeOp,
    VariableOp,
)
from openinfer.dialects.graph.nodes import (
    AssignOp,
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    OpOp,
    TransferOp,
)
from openinfer.dialects.graph.syntax import GraphOp

__all__ = [
    "KINDS",
    "AssignOp",
    "AwaitOp",
    "BarrierOp",
    "BlockOp",
    "BranchOp",
    "CacheReadOp",
    "CacheResetOp",
    "CacheStepOp",
    "CacheWriteOp",
    "CallOp",
    "DepOp",
    "Graph",
    "GraphOp",
    "LiteralAttr",
    "LoopOp",
    "NameAttr",
    "OpOp",
    "Operand",
    "PackageSizeOp",
    "PackageTensorOp",
    "PackageValueOp",
    "RefAttr",
    "ReturnOp",
    "ScopeOp",
    "SizeAttr",
    "SizeBoundOp",
    "SizeOp",
    "SliceAttr",
    "TransferOp",
    "VariableOp",
    "YieldOp",
    "parse_size",
    "print_size",
]

Graph = Dialect(
    "graph",
    [
        VariableOp,
        SizeOp,
        SizeBoundOp,
        PackageSizeOp,
        PackageTensorOp,
        PackageValueOp,
        BlockOp,
        AssignOp,
        OpOp,
        LoopOp,
        ScopeOp,
        BranchOp,
        CallOp,
        BarrierOp,
        DepOp,
        TransferOp,
        ReturnOp,
        YieldOp,
        AwaitOp,
        CacheReadOp,
        CacheWriteOp,
        CacheStepOp,
        CacheResetOp,
    ],
    [SizeAttr, SliceAttr, RefAttr, LiteralAttr, NameAttr],
)
