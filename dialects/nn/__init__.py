"""Level 2: the program as whole-tensor operations on SSA values."""

from xdsl.ir import Dialect

from openinfer.dialects.nn.attributes import (
    DimsAttr,
    dims_of,
    element_of,
    tensor_type,
    with_element,
)
from openinfer.dialects.nn.base import NNOp, YieldOp
from openinfer.dialects.nn.elementwise_ops import ElementwiseOp, FillOp, IotaOp
from openinfer.dialects.nn.interface import InterfaceOp, interface_of, update_interface
from openinfer.dialects.nn.line_ops import LayerNormOp, ReduceOp, RmsNormOp, SoftmaxOp
from openinfer.dialects.nn.step_ops import (
    BarrierOp,
    CheckIndexOp,
    MemberOp,
    ObserveOp,
    PublishOp,
    SizeOp,
    ThreadOp,
    ViewOp,
)
from openinfer.dialects.nn.structured_ops import AttentionOp, MatmulOp
from openinfer.dialects.nn.tensor_ops import (
    BroadcastOp,
    ConcatOp,
    GatherOp,
    PackOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    int_setting,
    ints_setting,
)

NN = Dialect(
    "nn",
    [
        InterfaceOp,
        SizeOp,
        ThreadOp,
        MemberOp,
        CheckIndexOp,
        ElementwiseOp,
        FillOp,
        IotaOp,
        ReshapeOp,
        TransposeOp,
        BroadcastOp,
        SliceOp,
        ConcatOp,
        GatherOp,
        PackOp,
        MatmulOp,
        ReduceOp,
        SoftmaxOp,
        LayerNormOp,
        RmsNormOp,
        AttentionOp,
        ObserveOp,
        PublishOp,
        ViewOp,
        BarrierOp,
        YieldOp,
    ],
    [DimsAttr],
)

__all__ = [
    "NN",
    "AttentionOp",
    "BarrierOp",
    "BroadcastOp",
    "CheckIndexOp",
    "ConcatOp",
    "DimsAttr",
    "ElementwiseOp",
    "FillOp",
    "GatherOp",
    "InterfaceOp",
    "IotaOp",
    "LayerNormOp",
    "MatmulOp",
    "MemberOp",
    "NNOp",
    "ObserveOp",
    "PackOp",
    "PublishOp",
    "ReduceOp",
    "ReshapeOp",
    "RmsNormOp",
    "SizeOp",
    "SliceOp",
    "SoftmaxOp",
    "ThreadOp",
    "TransposeOp",
    "ViewOp",
    "YieldOp",
    "dims_of",
    "element_of",
    "int_setting",
    "interface_of",
    "ints_setting",
    "tensor_type",
    "update_interface",
    "with_element",
]
