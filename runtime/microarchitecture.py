"""What was measured of a processor, in one table by microarchitecture, with a default that is safe.

`openinfer tune --machine` measures a row on the processor that it runs on; what it finds goes to a tuning
file, or, with its measurement, into `MEASURED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from openinfer.runtime.quick_dataclass import dataclass

MOST = 1 << 20
"""The largest number of a row."""


@dataclass(frozen=True)
class Microarchitecture:
    """Numbers that schedules choose by. The defaults were first measured on a Zen 5, whose row has a later
    `ahead` (`docs/performance-log.md`). None of them changes a result, but for the order in which `panels`
    adds up a row.

    The first five are of products with one or two rows, whose time is that of reading panels of weights.
    """

    panels: int = 1
    """Panels that are read at once, side by side."""
    ahead: int = 512
    """Bytes ahead at which f32 weights are asked for that the last cache keeps; 0: the processor alone
    reads ahead."""
    ahead_streamed: int = 0
    """The same for f32 weights that it does not keep (`stream-weights`)."""
    ahead_line: int = 2048
    """The same where a row of a panel is one line, as with AVX2, wherever the weights are."""
    ahead_narrow: int = 8192
    """The same for elements of less than 32 bits, wherever they are."""
    kept: int = 50
    """Percent of the last cache: weights of a step that fill more of it are streamed."""
    chunks: int = 2
    """Chunks that each thread has of a loop, where there are several threads."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers that are not the default's."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    @staticmethod
    def of(numbers: Mapping[str, object]) -> Microarchitecture:
        """The row with these numbers. Raises ValueError, with a sentence, for what is none."""
        known = {field.name: field.default for field in fields(Microarchitecture)}
        for name, value in numbers.items():
            if name not in known:
                raise ValueError(f"`{name}` is none of {', '.join(known)}")
            least = 1 if name in ("panels", "chunks") else 0
            most = LIMITS.get(name, MOST)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not least <= value <= most:  # pyright: ignore[reportOperatorIssue]
                raise ValueError(f"`{name}` is {value!r}, not {least}..{most}")
        return Microarchitecture(**{**known, **numbers})  # pyright: ignore[reportArgumentType]


LIMITS = {"panels": 4, "kept": 1000, "chunks": 64}
"""The largest of those whose limit is not `MOST`."""
DEFAULT = Microarchitecture()


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    numbers: Microarchitecture
    measured: Mapping[str, str]
    """How each number was found that is not the default's; "" is for those that are."""


MEASURED: Mapping[str, Row] = {
    "znver4": Row(
        Microarchitecture(ahead_line=0),
        {
            "ahead_line": "AVX2 code, 1 x 4096 by 512 and by 5120 f32 (8 and 80 MiB), processor time of one "
            "thread beside other work; of the time with 2048: 0: 0.87, 512: 1.13, 1024: 1.18, 4096: 0.95, "
            "8192: 0.92",
            "": "AVX-512 code, twice, beside other work: no distance and no number of panels was quicker "
            "both times (ahead 0: 0.94 and 1.00 of the time with 512, ahead_streamed 512: 1.05 and 1.04 of "
            "that with 0, ahead_narrow 0: 0.98 and 0.99 of that with 8192, panels 2: 1.01 and 1.04)",
        },
    ),
    "znver5": Row(
        Microarchitecture(ahead=2048),
        {
            "ahead": "weights that the caches keep, in silence, in turns; of the time with 512, one thread "
            "(two): MLP 784-512-512-10 0.85 (0.99), MLP 3 x 512 0.84 (0.99), 768 x 3072 0.98 (0.82), 3072 x "
            "768 0.99 (0.82); beside 2048: 1024 0.05 less to 0.02 more, 4096 0.04 less to 0.01 more, 8192 "
            "0.01 less to 0.04 more; 0: 1.01 (0.96), 0.98 (1.03), 0.99 (0.98), 1.13 (0.99)",
            "": "AVX-512 code, three times, in silence: no other number was quicker each time "
            "(ahead_streamed 512: 1.01, 1.02, 1.03 of the time with 0; ahead_narrow 4096: 1.06, 1.09, 1.06 "
            "of that with 8192; panels 4: 0.99, 1.02, 0.99; chunks 4: 1.01, 0.95, 0.99; streams of half of "
            "the last cache 1.01, 1.09, 1.09)",
        },
    ),
}
"""By LLVM's name of the processor. One that is not here has the defaults."""


def microarchitecture_of(cpu: str) -> Microarchitecture:
    """What is known of the processor that LLVM calls `cpu`."""
    row = MEASURED.get(cpu)
    return DEFAULT if row is None else row.numbers
