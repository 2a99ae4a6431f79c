"""Writes a failing program as a test file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fuzzing.check import Defect
from fuzzing.tree import Program
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

_TEST = '''\
"""{why}"""

from __future__ import annotations

from both_executors import agree, tensor

TEXT = """
{text}"""


def test_seed_{seed}() -> None:
    steps = {steps}
    agree(TEXT, steps{options})
'''


def test_text(program: Program, defect: Defect) -> str:
    """A test of `tests/unit`: the program, its inputs, and how it is compiled."""
    steps: list[str] = []
    for step in program.steps:
        if step.action != "run":
            steps.append(f'        "{step.action}",\n')
            continue
        rows = [f'            "{name}": {_literal(t)},\n' for name, t in step.inputs.items()]
        steps.append("        {\n" + "".join(rows) + "        },\n")
    options: list[str] = []
    if program.content.tensors:
        rows = [f'"{n}": {_literal(_tensor(t))}' for n, t in program.content.tensors.items()]
        options.append(f"tensors={{{', '.join(rows)}}}")
    options += [f"{name}={value!r}" for name, value in defect.variant.options.items()]
    if defect.variant.threads != 1:
        options.append(f"threads={defect.variant.threads}")
    if defect.variant.iterated:
        options.append("watched=True")
    return _TEST.format(
        why=defect.why.replace("\\", "/").replace('"', "'")[:900],
        text=program.text.replace("\\", "\\\\"),
        seed=program.seed,
        steps="[\n" + "".join(steps) + "    ]",
        options="".join(f", {o}" for o in options),
    )


def write_test(program: Program, defect: Defect, folder: Path) -> Path:
    """The file of a failing program in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"test_fuzz_{program.seed}.py"
    path.write_text(test_text(program, defect))
    return path


def _tensor(value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    names = {"float32": "f32", "float64": "f64"}
    return Tensor.from_values(names[array.dtype.name], array)


def _literal(tensor: Tensor) -> str:
    values = np.asarray(tensor.values())
    listed = f"[{', '.join(_number(v) for v in values.reshape(-1))}]"
    shape = ", ".join(str(n) for n in values.shape)
    return f'tensor("{tensor.dtype}", [{shape}], {_folded(listed, values)})'


def _folded(listed: str, values: AnyArray) -> str:
    """One number for all when they are equal."""
    flat = values.reshape(-1)
    if flat.size > 1 and all(_number(v) == _number(flat[0]) for v in flat):
        return f"[{_number(flat[0])}] * {flat.size}"
    return listed


def _number(value: object) -> str:
    if isinstance(value, np.bool_ | bool):
        return str(bool(value))
    if isinstance(value, np.integer):
        return str(int(value))
    number = float(np.asarray(value))
    if number != number:
        return 'float("nan")'
    if number in (float("inf"), float("-inf")):
        return f'float("{number}")'
    return repr(number)
