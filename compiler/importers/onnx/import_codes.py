"""Codes of what an ONNX model asks for that an import does not give."""

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI1522": (
        "ONNX operator that is not supported",
        "openinfer has neither an op nor a function body for the operator, or not for the version that "
        "the model uses. `docs/onnx.md` lists the operators. Every such node is reported at once.",
    ),
    "OI1523": (
        "form of an ONNX operator that is not supported",
        "The operator is there, but not with this attribute, value or result. The message names it; "
        "`fix` says how the model can be exported without it, where there is a way.",
    ),
    "OI1524": (
        "element or value type that openinfer lacks",
        "Texts, complex numbers, sequences and optional values are no tensors of ours, nor are floats "
        "of 8 bits with unsigned zeros and those of 4 bits.",
    ),
    "OI1525": (
        "content that must be known when the model is imported",
        "A shape follows from the values of a tensor that only a run knows. If they come from inputs of "
        "the model, `from_onnx(model, values={name: array})` gives them for good, and the program is made "
        "for them. `NonZero`, `Unique` and `Compress` have results whose shapes depend on the data, which "
        "no program has.",
    ),
    "OI1526": (
        "ONNX graph that contradicts itself",
        "A node lacks an input, has axes or attributes that do not fit its tensors, or reads what "
        "nothing defines.",
    ),
    "OI1527": (
        "operands that an op does not take",
        "The operator became an op of ours whose rule refuses these shapes or dtypes; the message is that "
        "of the op. A common reason is a pair of open dimensions that ONNX leaves to the run: they must have "
        "one name.",
    ),
    "OI1528": (
        "ONNX model beyond a limit of the import",
        "Functions too deep in each other, or loops whose rounds would be too many when they are "
        "written out.",
    ),
    "OI1529": (
        "wrong feeds of an ONNX session",
        "A name that is no input or output of the model, an input that is missing, or one of another type.",
    ),
    "OI1530": (
        "part of ONNX Runtime that a session lacks",
        "`openinfer.onnx.InferenceSession` has the inputs, outputs, options and runs of ONNX Runtime's "
        "session, with arrays in the memory of the processor. It binds no buffers, writes no profiles and no "
        "optimised models; `fix` says what there is instead.",
    ),
}
