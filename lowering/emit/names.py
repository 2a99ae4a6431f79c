"""Names of a shader: those of the program, made unique and legal."""

from __future__ import annotations

import re
from typing import Final

_KEYWORDS: Final = frozenset(
    "active asm atomic_uint attribute bool break buffer case cast centroid class coherent common const "
    "continue default demote discard do double else enum extern external false filter fixed flat float for "
    "fvec2 goto half highp hvec2 if image in inline inout input int interface invariant layout long lowp "
    "main mediump namespace noinline noperspective out output packed partition patch precise precision "
    "public readonly resource restrict return sample sampler shared short sizeof smooth static struct "
    "subroutine superp switch template texture this true typedef uint uniform union unsigned using varying "
    "void volatile while writeonly mat2 mat3 mat4 vec2 vec3 vec4 ivec2 ivec3 ivec4 uvec2 uvec3 uvec4 "
    "abs acos all any asin atan barrier ceil clamp cos cosh cross degrees distance dot equal exp exp2 "
    "floor fma fract inverse isinf isnan length log log2 max min mix mod modf normalize not pow radians "
    "reflect refract round sign sin sinh sqrt step tan tanh transpose trunc NAN INFINITY "
    "parameters first".split()
)
"""Words that mean something else in GLSL, or in the shaders that are written here."""


class Names:
    """The names that a shader has used so far."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def new(self, wanted: str) -> str:
        """A name like the wanted one that nothing else has."""
        # Names with two underscores, and those that begin with `gl_`, belong to GLSL.
        base = re.sub(r"_+", "_", re.sub(r"\W", "_", wanted, flags=re.ASCII)).strip("_")
        if not base or base[0].isdigit() or base.startswith("gl_"):
            base = f"v{base}"
        if base in _KEYWORDS:
            base = f"{base}_"
        found, count = base, 0
        while found in self._used:
            count += 1
            found = f"{base.rstrip('_')}_{count}"
        self._used.add(found)
        return found
