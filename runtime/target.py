"""What the code generator knows about a processor: one description, decided in one place.

A description is data: it names the instruction set, the vector width and the number of registers,
and nothing in a pass asks the host for them. `host_target` in `runtime/devices/cpu/codegen.py`
makes the one of this machine; `named_target` gives fixed ones, so that tests can compile for
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.host import USUAL_CACHE
from openinfer.runtime.microarchitecture import DEFAULT, Microarchitecture, microarchitecture_of
from openinfer.runtime.quick_dataclass import dataclass

BF16_DOT = "avx512bf16"
"""LLVM's name of the feature that `TargetDescription.bf16_dot` asks for."""


@dataclass(frozen=True)
class TargetDescription:
    """One processor that machine code is made for."""

    name: str
    """The kind: "avx512", "avx2" or "generic"."""
    triple: str
    """LLVM's name of architecture, vendor, system."""
    cpu: str
    """LLVM's name of the processor, for scheduling and its instruction set."""
    features: str
    """LLVM's feature list: "+avx2,+fma,...", sorted."""
    vector_bits: int
    """Width of the vectors that kernels use."""
    registers: int
    """Number of vector registers."""
    last_cache: int = USUAL_CACHE
    """Bytes of the last cache that a core reaches; others may share it."""
    measured: Microarchitecture = DEFAULT
    """Numbers that schedules choose by."""

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits one vector holds."""
        return self.vector_bits // bits

    @property
    def bf16_dot(self) -> bool:
        """Whether one instruction multiplies pairs of bf16 and adds them up in f32."""
        return f"+{BF16_DOT}" in self.features.split(",")

    @property
    def byte_dot(self) -> bool:
        """Whether one instruction adds up four products of bytes in each lane of 32 bits."""
        features = set(self.features.split(","))
        if {"+avx512vnni", "+avx512vl"} <= features:
            return True
        return "+avxvnni" in features and self.vector_bits <= 256

    def with_bf16_dot(self) -> TargetDescription:
        """The same processor, which has that instruction."""
        if self.bf16_dot:
            return self
        others = [f for f in self.features.split(",") if f and f != f"-{BF16_DOT}"]
        features = ",".join(sorted([*others, f"+{BF16_DOT}"], key=lambda name: name[1:]))
        return replace(self, features=features)

    @property
    def key(self) -> str:
        """A text that differs wherever machine code for the target may differ."""
        parts = (self.name, self.triple, self.cpu, self.features, self.vector_bits, self.last_cache)
        parts += tuple(f"{name}={value}" for name, value in self.measured.numbers.items())
        return ";".join(map(str, parts))


_TRIPLE = "x86_64-unknown-linux-gnu"

TARGETS = {
    target.name: target
    for target in (
        TargetDescription("avx512", _TRIPLE, "x86-64-v4", "", 512, 32),
        TargetDescription("avx2", _TRIPLE, "x86-64-v3", "", 256, 16),
        TargetDescription("generic", _TRIPLE, "x86-64", "", 128, 16),
    )
}
"""The fixed targets, best first: the psABI levels of x86-64."""

_REQUIRED_FEATURES = {
    "avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "fma", "f16c"),
    "avx2": ("avx2", "bmi2", "fma", "f16c"),
}


_LEVEL_FEATURES = {
    "generic": "64bit cmov cx8 fxsr mmx sse sse2 x87",
    "avx2": "avx avx2 bmi bmi2 crc32 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 "
    "xsave",
    "avx512": "avx512bw avx512cd avx512dq avx512f avx512vl",
}
"""What each psABI level adds to the one before it, least first, in LLVM's names."""


def within_level(kind: str, features: Mapping[str, bool]) -> dict[str, bool]:
    """The features of a processor, without what the fixed target `kind` does not have."""
    allowed: set[str] = set()
    for level, added in _LEVEL_FEATURES.items():
        allowed.update(added.split())
        if level == kind:
            break
    return {name: on and name in allowed for name, on in features.items()}


def named_target(name: str) -> TargetDescription:
    """The fixed target called `name`; raises UnsupportedError (OI0710) when there is none."""
    if name not in TARGETS:
        raise UnsupportedError(
            "OI0710",
            f"there is no target {name!r}",
            hint=f"choose one of {', '.join(TARGETS)} or host",
        )
    return TARGETS[name]


def describe_target(
    triple: str, cpu: str, features: Mapping[str, bool], last_cache: int = USUAL_CACHE
) -> TargetDescription:
    """The description of a processor that LLVM calls `cpu` and that has `features`."""
    kind = "generic"
    for candidate, required in _REQUIRED_FEATURES.items():
        if all(features.get(feature) for feature in required):
            kind = candidate
            break
    base = TARGETS[kind]
    flags = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    return TargetDescription(
        kind,
        triple,
        cpu,
        flags,
        base.vector_bits,
        base.registers,
        last_cache,
        microarchitecture_of(cpu),
    )
