"""Words of SPIR-V back into the dialect: files, drawn modules, shaders of `glslc`, damaged words."""

from __future__ import annotations

import io
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.printer import Printer

from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.vulkan.deserialize import deserialize
from openinfer.lowering.vulkan.serialize import serialize
from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.spirv.check_words import check_words
from openinfer.runtime.spirv.words import Part, number, read_words, write_words
from tests.sweeps import sweep
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
    for seed in range(sweep(60, 300)):
        words = words_of(Drawn(seed).text())
        text = come_back(words)
        regions += text.count("spirv.mlir.loop") + text.count("spirv.mlir.selection")
        if seed % 10 == 0:
            again = serialize(deserialize(words))
            assert words_of(text) == again
            assert not complaint(words)
            assert not complaint(again)
    assert regions > 60


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
    "cases": """
layout(constant_id = 3) const float k = 2.0;
layout(constant_id = 4) const int which = 1;
void main() {
  vec2 pair = vec2(k, 3.0);
  vec2 again = vec2(3.0, k);
  float table[3] = float[3](k, 1.0, k);
  for (uint i = 0; i < n; ++i) {
    switch (int(n) - which) {
      case -2: b[i] = pair.x; break;
      case 0:
      case 7: a[i] = 1.0;
      case 3: if (a[i] > 0.5) { b[i] = table[i % 3]; } else { b[i] = again.y; } break;
      default: break;
    }
    if (a[i] > 2.0) { switch (i) { case 1: a[i] = 0.0; break; default: a[i] = 5.0; } }
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


COMPUTED = "layout(constant_id = 3) const int k = 2; void main() { b[0] = float(k + 1); }"


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
        ("void main() { for (uint k = 0; k < n; ++k) switch (k) { case 3: continue; } }", "of its construct"),
        ("layout(local_size_x_id = 7) in; void main() { b[0] = gl_WorkGroupSize.x; }", "decorated constants"),
        (COMPUTED, "lacks this instruction"),
    ],
)  # fmt: skip
def test_what_the_dialect_lacks_is_named(shader: str, says: str, tmp_path: Path) -> None:
    words = compiled(shader, "-O0", tmp_path)
    check_words(words)
    with pytest.raises(OpenInferError, match=says) as raised:
        deserialize(words)
    assert raised.value.code == "OI0763"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        # Of the constant: the sum becomes a comparison or a sum of floats, and no instruction of values.
        ((6 << 16 | 52, 128), (6 << 16 | 52, 184), "OI0761"),
        ((6 << 16 | 52, 128), (6 << 16 | 52, 129), "OI0761"),
        ((6 << 16 | 52, 128), (6 << 16 | 52, 52), "OI0760"),
        ((6 << 16 | 52, 128), (6 << 16 | 52, 999), "OI0760"),
    ],
)
def test_computed_constants_are_checked(
    old: tuple[int, int], new: tuple[int, int], says: str, tmp_path: Path
) -> None:
    words = compiled(COMPUTED, "-O0", tmp_path)
    assert write_words(check_words(words)) == words
    given = list(struct.unpack(f"<{len(words) // 4}I", words))
    (place,) = (n for n, word in enumerate(given) if word == old[0] and given[n + 3] == old[1])
    given[place + 3] = new[1]
    with pytest.raises(OpenInferError) as raised:
        check_words(struct.pack(f"<{len(given)}I", *given))
    assert raised.value.code == says


def test_a_switch_selects_by_an_integer(tmp_path: Path) -> None:
    words = compiled(SHADERS["cases"], "-O", tmp_path)
    module = check_words(words)
    kind = next(one.result for one in module.instructions if one.row.name == "TypeFloat")
    zero = next(
        one for one in module.instructions if one.row.name == "Constant" and one.type == kind
    )
    changed = [
        replace(one, parts=(Part("id", zero.of("result")[0]), *one.parts[1:]))
        if one.row.name == "Switch"
        else one
        for one in module.instructions
    ]
    with pytest.raises(OpenInferError, match="is no integer of up to 32 bits") as raised:
        check_words(write_words(replace(module, instructions=tuple(changed))))
    assert raised.value.code == "OI0761"


def switches(words: bytes) -> list[tuple[int, ...]]:
    """The numbers of the cases of each switch."""
    found = (one for one in read_words(words).instructions if one.row.name == "Switch")
    return [tuple(one.of("word")) for one in found]


def spec_composites(words: bytes) -> list[str]:
    """Specialization constants of several parts: each part with its number, if it may be given."""
    module = read_words(words)
    ids = {
        number(one.parts[0]): number(one.parts[2])
        for one in module.instructions
        if one.row.name == "Decorate" and len(one.parts) == 3 and number(one.parts[1]) == 1
    }
    made = {one.result: one for one in module.instructions}
    return [
        ", ".join(
            f"{ids.get(part, '-')}: {number(made[part].parts[-1]):#x}" for part in one.of("id")
        )
        for one in module.instructions
        if one.row.name == "SpecConstantComposite"
    ]


@pytest.mark.parametrize("level", ["-O0", "-O"])
def test_cases_and_composites_keep_their_numbers(level: str, tmp_path: Path) -> None:
    words = compiled(SHADERS["cases"], level, tmp_path)
    again = serialize(deserialize(words))
    assert switches(again) == switches(words)
    assert ((-2) % (1 << 32), 0, 7, 3) in switches(words)
    assert spec_composites(again) == spec_composites(words)
    assert "3: 0x40000000, -: 0x40400000" in spec_composites(words)
    text = printed_module(deserialize(words))
    assert re.search(r"spirv.Switch %\w+ : si32, \[\s+default: \S+,\s+-2: ", text)
    assert "spec_id(3) = 2.000000e+00 : f32" in text


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
