"""Writes the package that `bind-model.mlir` is bound to: `python make_package.py FILE`."""

import sys

import numpy as np

from openinfer import write_oinf
from openinfer.runtime.packages.oinf_writer import OinfContent

matrix = np.ones((4, 4), np.float32)
write_oinf(
    OinfContent(
        sizevars={"depth": 2, "unused": 3},
        metadata={"eps": 0.5, "name": "tiny", "other": 4},
        tensors={"W.0": matrix, "W.1": matrix, "b": matrix[0], "unrelated": matrix},
    ),
    sys.argv[1],
)
