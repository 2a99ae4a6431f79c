"""Diagnostics codes of ONNX files: code → (title, explanation)."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI1550": (
        "no ONNX file",
        "The bytes are no ONNX model: no protocol buffer, cut off, nested too deeply, with a text not in "
        "UTF-8, or without a graph.",
    ),
    "OI1551": (
        "version of ONNX",
        "The IR version or an operator set is missing, named twice, too old, or newer than the installed "
        "package `onnx`.",
    ),
    "OI1552": (
        "damaged ONNX graph",
        "Names contradict each other: a value is defined twice, or used and never (or only later) defined; "
        "the message names graph, node and value.",
    ),
    "OI1553": (
        "damaged ONNX tensor",
        "Dimensions, dtype and data of a tensor contradict each other; nothing is allocated for such a "
        "tensor.",
    ),
    "OI1554": (
        "unusable external data of an ONNX file",
        "Tensors outside of the file lie in regular files below its folder, named by a relative path without "
        "`..` and without symbolic links, and the part that the tensor names lies in the file.",
    ),
    "OI1555": (
        "bad ONNX node",
        "An attribute has another type than its operator asks for, is there twice, unknown or missing, or "
        "the number of inputs or outputs is wrong.",
    ),
    "OI1556": (
        "ONNX functions without end",
        "Functions of a model call each other in a circle, or make more nodes than anybody wants.",
    ),
    "OI1557": (
        "ONNX data that openinfer does not have",
        "Sparse tensors, texts, complex numbers, and floats of 4, 6 and 8 bits other than E4M3FN and E5M2.",
    ),
    "OI1558": (
        "no form in ONNX",
        "A program that keeps something from step to step, or whose way depends on data, and ops that ONNX "
        "does not have; all of them are listed, with their places.",
    ),
}
