"""Words of SPIR-V back into the dialect: files, drawn modules, shaders of `glslc`, damaged words."""

from __future__ import annotations

import io
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.printer import Printer

from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.vulkan.deserialize import deserialize
from openinfer.lowering.vulkan.serialize import serialize
from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.spirv.check_words import check_words
from tests.unit.spirv_modules import Drawn
from tests.unit.test_spirv_dialect import FILES, parsed

VALIDATOR = shutil.which("spirv-val")


def words_of(text: str) -> bytes:
    (module,) = (op for op in parsed(text).walk() if isinstance(op, SpirvModuleOp))
    return serialize(module)


def complaint(words: bytes) -> str:
    """What the validator says; nothing where it is content, or is not installed."""
    if VALIDATOR is None:
        return ""
    done = subprocess.run(
        [VALIDATOR, "--target-env", "vulkan1.3", "-"],
        input=words, capture_output=True, check=False,
    )  # fmt: skip
    return done.stderr.decode() if done.returncode else ""


def come_back(words: bytes) -> str:
    """The text of what words are read as, which a second round trip must not change."""
    module = deserialize(words)
    text, again = printed_module(module), serialize(module)
    assert printed_module(deserialize(again)) == text
    return text


def printed_module(module: SpirvModuleOp) -> str:
    stream = io.StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue()


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if "spirv.module" in path.read_text()],
    ids=lambda path: path.stem,
)
def test_files_come_back(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.stem == "constants":
        # A driver takes no module without an entry point.
        text = text.replace(
            "    spirv.Unreachable\n  }\n",
            '    spirv.Unreachable\n  }\n  spirv.EntryPoint "GLCompute" @m\n'
            '  spirv.ExecutionMode @m "LocalSize", 1, 1, 1\n',
        )
    words = words_of(text)
    text = come_back(words)
    # What is printed is read, too.
    assert words_of(text) == serialize(deserialize(words))
    before, after = complaint(words), complaint(serialize(deserialize(words)))
    assert bool(before) == bool(after), (before, after)


def test_drawn_modules_come_back() -> None:
    regions = 0
    for seed in range(300):
        words = words_of(Drawn(seed).text())
        text = come_back(words)
        regions += text.count("spirv.mlir.loop") + text.count("spirv.mlir.selection")
        if seed % 10 == 0:
            again = serialize(deserialize(words))
            assert words_of(text) == again
            assert not complaint(words)
            assert not complaint(again)
    assert regions > 300


SHADERS = {
    "calls": """
float f(float x) { return x > 1.0 && x < 3.0 ? x * 2.0 : -x; }
void main() {
  uint i = gl_GlobalInvocationID.x;
  float acc = 0.0;
  for (uint k = 0; k < n; ++k) {
    if (a[k] > 0.5) acc += f(a[k]); else acc -= 1.0;
    for (int j = 0; j < 4; ++j) acc *= 2.0;
  }
  s[gl_LocalInvocationIndex] = acc;
  barrier();
  if (i < n) b[i] = s[63 - gl_LocalInvocationIndex] + sqrt(acc);
}
""",
    "sums": """
void main() {
  uint i = gl_LocalInvocationIndex;
  s[i] = a[gl_GlobalInvocationID.x];
  for (uint step = 32; step > 0; step >>= 1) {
    barrier();
    if (i < step) s[i] += s[i + step];
  }
  if (i == 0) {
    vec4 v = vec4(s[0], 1.0, 2.0, 3.0);
    do { v = v.wzyx * 0.5; } while (v.x > 1.0);
    b[gl_WorkGroupID.x] = dot(v, v);
  }
}
""",
}
FRONT = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(push_constant) uniform P { uint n; };
shared float s[64];
"""


def compiled(shader: str, level: str, folder: Path) -> bytes:
    """The words that `glslc` makes, else a skip."""
    path = shutil.which("glslc")
    if path is None:
        pytest.skip("glslc is not installed")
    source, target = folder / "one.comp", folder / "one.spv"
    source.write_text(FRONT + shader, encoding="utf-8")
    command = [path, "--target-env=vulkan1.1", level, str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return target.read_bytes()


@pytest.mark.parametrize("level", ["-O0", "-O"])
@pytest.mark.parametrize("name", SHADERS)
def test_shaders_come_back(name: str, level: str, tmp_path: Path) -> None:
    words = compiled(SHADERS[name], level, tmp_path)
    text = come_back(words)
    assert "spirv.mlir.loop" in text
    assert "spirv.mlir.selection" in text
    assert 'spirv.ExecutionMode @main "LocalSize", 64, 1, 1' in text
    assert not complaint(serialize(deserialize(words)))


@pytest.mark.parametrize(
    ("shader", "says"),
    [
        ("void main() { for (uint k = 0; k < n; ++k) if (a[k] > 1.0) break; }", "out of its construct"),
        ("void main() { switch (n) { case 3: b[0] = 1.0; break; default: b[1] = 2.0; } }", "lacks it"),
    ],
)  # fmt: skip
def test_what_the_dialect_lacks_is_named(shader: str, says: str, tmp_path: Path) -> None:
    words = compiled(shader, "-O0", tmp_path)
    check_words(words)
    with pytest.raises(OpenInferError, match=says) as raised:
        deserialize(words)
    assert raised.value.code == "OI0763"


def nested(depth: int) -> bytes:
    """Words of selections in selections."""
    front = "".join(
        f"spirv.mlir.selection {{\nspirv.BranchConditional %c, ^t{i}, ^m{i}\n^t{i}:\n"
        for i in range(depth)
    )
    back = "".join(
        f"spirv.Branch ^m{i}\n^m{i}:\nspirv.mlir.merge\n}}\n" for i in reversed(range(depth))
    )
    return words_of(
        "spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader], []> {\n"
        'spirv.func @main() "None" {\n%c = spirv.Constant true\n'
        f'{front}{back}spirv.Return\n}}\nspirv.EntryPoint "GLCompute" @main\n'
        'spirv.ExecutionMode @main "LocalSize", 1, 1, 1\n}'
    )


def test_depth_has_a_limit() -> None:
    assert come_back(nested(40)).count("spirv.mlir.selection") == 40
    with pytest.raises(OpenInferError, match="deep in each other") as raised:
        deserialize(nested(70))
    assert raised.value.code == "OI0763"


def test_types_have_a_limit() -> None:
    """Structs of two structs each double with every one of them."""
    words = list(struct.unpack(f"<{len(nested(1)) // 4}I", nested(1)))
    start = words.index(2 << 16 | 20)  # The type of truth values.
    name, bound = words[start + 1], words[3]
    added: list[int] = []
    for index in range(40):
        added += [4 << 16 | 30, bound + index, name, name]
        name = bound + index
    words[start + 2 : start + 2] = added
    words[3] = bound + 40
    with pytest.raises(OpenInferError, match="parts") as raised:
        deserialize(struct.pack(f"<{len(words)}I", *words))
    assert raised.value.code == "OI0763"


@pytest.mark.parametrize(
    "make",
    [
        lambda: words_of(next(path for path in FILES if path.stem == "matrices").read_text()),
        lambda: words_of(Drawn(4).text()),
    ],
    ids=["matrices", "drawn"],
)
def test_mutated_words_are_modules_or_errors(make: Callable[[], bytes]) -> None:
    words, read, codes = make(), 0, set[str]()
    draw = random.Random(17)
    numbers = struct.unpack(f"<{len(words) // 4}I", words)
    for _ in range(1500):
        data = list(numbers)
        for _ in range(draw.randint(1, 2)):
            place = draw.randrange(5, len(data))
            bound = numbers[3]
            data[place] = draw.choice(
                [
                    draw.randrange(1, bound),
                    draw.randrange(16),
                    data[place] ^ 1 << draw.randrange(32),
                ]
            )
        try:
            module = deserialize(struct.pack(f"<{len(data)}I", *data))
        except OpenInferError as error:
            codes.add(error.code)
        else:
            read += 1
            assert printed_module(deserialize(serialize(module))) == printed_module(module)
    assert codes == {"OI0760", "OI0761", "OI0763"}
    assert read > 50
