"""`docs/onnx.md`: its table is made from the results of ONNX's tests, `tests/onnx_suite/expected.txt`."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
LIST = _ROOT / "tests" / "onnx_suite" / "expected.txt"
PAGE = _ROOT / "docs" / "onnx.md"

_HEAD = """# ONNX

Made by `make docs`; the table comes from ONNX's own tests of operators.

```python
import openinfer as oi

graph, package = oi.from_onnx("model.onnx")  # a path, bytes, or a ModelProto
print(graph)  # the program
executor = oi.compile(graph, package).make_executor()
```

`openinfer import model.onnx -o model/` writes both as files. Or as in ONNX Runtime:

```python
from openinfer.onnx import InferenceSession

session = InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
(y,) = session.run(["y"], {"x": x})
```

A script for `onnxruntime` runs with `import openinfer.onnx as ort`: `get_inputs`, `get_outputs`,
`get_modelmeta`, `get_providers`, `SessionOptions` (its `intra_op_num_threads` counts, what only tunes ONNX
Runtime changes nothing), `RunOptions`. The first of `providers` that can run here is taken:
`VulkanExecutionProvider` is the device `vulkan`. Bound buffers, profiles and files of optimised models are
refused (OI1530).

- Operator sets 7 to 28; a node of an older set where its operator has not changed since.
- Shapes are arithmetic in ONNX (`Shape`, `Gather`, `Mul`, `Concat`, `Reshape`); here they are done while the
  model is read, with the names of open dimensions as sizes of the program.
- What shapes follow from must be known then. If such a tensor is an input of the model, give it once:
  `from_onnx(model, values={"shape": [2, 3]})`. A session does so by itself, with a program for each value.
- Functions of the model, and of operators that have no op of ours, are put in.
- Weights that PyTorch's exporter turned and renamed (`val_90`) have the name of the module that uses them, so
  that layers become a loop.
- Sequences of known length are lists while the model is read (`SplitToSequence`, `SequenceAt`, …); as inputs
  and results of a model they are refused.
- `If` becomes a branch; `Loop` and `Scan` of a known number of rounds are written out, or become a loop;
  so does a `Scan` along an open axis.
- Everything that cannot be imported is reported at once, with operator and attribute (`OI1522` to `OI1529`
  in [diagnostics.md](diagnostics.md)); a damaged file with its place (`OI1550` to `OI1557`).

"""
_TABLE = """## Quantised models

What a file of ONNX Runtime's quantiser holds becomes integer arithmetic in the text
(`recognize-quantized-linear`):

```
q = op quantize(x, 0.028, 11, dtype=i8);
n = op linear(q, w, b, acc=i32);        // b: the bias less the zero point of q times the sums of w
f = op cast(n, to=f32);
f = op mul(f, 1.38e-05);                // scale of x, times that of w, over that of the result
p = op quantize(f, 1.0, -128, dtype=i8);
```

- `DequantizeLinear`, `MatMul`, `Gemm` or `Conv`, `QuantizeLinear` give exactly the codes of
  `QLinearMatMul` and `QLinearConv`. The floats that they replace round every product, and differ by one
  code where a value lies next to a half; ONNX Runtime makes the same choice. Codes of u8 are stored as
  i8, 128 less.
- The bias must be i32 with the product of both scales; another one is added as a float, behind the sum.
- Products of two activations, scales that the run computes, and weights of convolutions with a zero
  point stay as the file has them.
- `DynamicQuantizeLinear` with `MatMulInteger` is the same product; its zero point is known to the run.

## Operators of ONNX Runtime

Of `com.microsoft`, each held against ONNX Runtime where its CPU has it
(`tests/unit/test_onnx_contrib*.py`): `Attention`,
`BiasAdd`, `BiasGelu`, `BiasSplitGelu`, `DequantizeLinear`, `DynamicQuantizeMatMul`,
`EmbedLayerNormalization`, `FastGelu`, `FusedConv`, `FusedGemm`, `FusedMatMul`,
`GatherBlockQuantized`, `Gelu`, `GroupQueryAttention`, `MatMulIntegerToFloat`, `MatMulNBits`, `MoE`,
`MultiHeadAttention`, `NhwcConv`,
`QAttention`, `QEmbedLayerNormalization`, `QGemm`, `QLinearAdd`, `QLinearAveragePool`, `QLinearConcat`,
`QLinearConv`, `QLinearGlobalAveragePool`, `QLinearLeakyRelu`, `QLinearMul`, `QLinearReduceMean`,
`QLinearSigmoid`, `QLinearSoftmax`, `QLinearWhere`, `QMoE`, `QuantizeLinear`, `QuickGelu`,
`RotaryEmbedding`, `SimplifiedLayerNormalization`, `SkipLayerNormalization`,
`SkipSimplifiedLayerNormalization`, `TransposeMatMul`. Elementwise ones of integers round twice, as there;
a code may differ by one. `QMoE` takes weights without zero points and `normalize_routing_weights=1`,
without which ONNX Runtime's devices differ.

## Operators

`onnx {version}` has {cases} tests, {plain} of an operator and {bodies} of the body of one. {passed}
of the plain ones pass and {body_passed} of the bodies; each other is refused, none gives a wrong number.
Results that are drawn at random are compared by shape and dtype, f16 and bf16 within two units in the last
place. The list is `tests/onnx_suite/expected.txt`; `make onnx` runs all of it, compiled programs too.

| operator | tests | pass | refused |
|---|---|---|---|
"""


def onnx_page() -> str:
    """The text of the page."""
    version, rows = _rows()
    operators: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, operator, result in rows:
        operators[operator].append((name, result))
    plain = [result for name, _, result in rows if "_expanded" not in name]
    bodies = [result for name, _, result in rows if "_expanded" in name]
    table = _TABLE.format(
        version=version,
        cases=len(rows),
        plain=len(plain),
        bodies=len(bodies),
        passed=plain.count("pass"),
        body_passed=bodies.count("pass"),
    )
    lines = [_line(name, found) for name, found in sorted(operators.items())]
    return _HEAD + table + "".join(lines)


def _rows() -> tuple[str, list[tuple[str, str, str]]]:
    lines = LIST.read_text().splitlines()
    rows = [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]
    return lines[0].split()[2], [(row[0], row[1], row[2]) for row in rows]


def _line(operator: str, found: list[tuple[str, str]]) -> str:
    passed = sum(result == "pass" for _, result in found)
    reasons = dict.fromkeys(
        result.removeprefix("refused: ") for _, result in found if result != "pass"
    )
    shown = [_shown(one) for one in reasons]
    text = "; ".join(shown[:3]) + ("; …" if len(shown) > 3 else "")
    return f"| {operator} | {len(found)} | {passed} | {text} |\n"


def _shown(reason: str) -> str:
    code, _, message = reason.partition(" ")
    return f"{message.replace('|', '/')} ({code})"


if __name__ == "__main__":
    PAGE.write_text(onnx_page())
    sys.exit(0)
