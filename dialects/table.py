"""Name → "module:Dialect" of every dialect; importing this imports none of them."""

from __future__ import annotations

DIALECTS: dict[str, str] = {
    # Ours.
    "graph": "openinfer.dialects.graph:Graph",
    "nn": "openinfer.dialects.nn:NN",
    # xDSL's, some of them replaced by a dialect of the same name that adds what it lacks.
    "affine": "xdsl.dialects.affine:Affine",
    "arith": "openinfer.dialects.extensions.arith:Arith",
    "bufferization": "xdsl.dialects.bufferization:Bufferization",
    "builtin": "xdsl.dialects.builtin:Builtin",
    "cf": "xdsl.dialects.cf:Cf",
    "func": "xdsl.dialects.func:Func",
    "gpu": "openinfer.dialects.extensions.gpu:GPU",
    "linalg": "openinfer.dialects.extensions.linalg:Linalg",
    "llvm": "openinfer.dialects.extensions.llvm:LLVM",
    "math": "openinfer.dialects.extensions.math:Math",
    "memref": "openinfer.dialects.extensions.memref:MemRef",
    "spirv": "openinfer.dialects.spirv:SPIRV",
    "scf": "xdsl.dialects.scf:Scf",
    "tensor": "xdsl.dialects.tensor:Tensor",
    "test": "xdsl.dialects.test:Test",
    "vector": "openinfer.dialects.extensions.vector:Vector",
}
