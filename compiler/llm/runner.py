"""Steps of a language model: several sequences at once, each in a slot of the program's tables.

This is the low level below `Engine`, and what the server builds on. A step takes parts of sequences, a
prompt, a chunk of one or single tokens, and gives the logits of the rows that were asked for. What a program
must be for that stands in `docs/language-models.md`; it gets the inputs that it declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openinfer.runtime.errors import InputError, UnsupportedError
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.state import State

Floats: TypeAlias = "NDArray[np.float32]"

INPUTS: Final = ("tokens", "positions", "slots", "firsts", "counts", "rows")
"""What a program may ask for; `tokens` it must."""
LOGITS: Final = "logits"
HIDDEN: Final = "hidden"
_INTEGERS: Final = {"i32": np.int32, "i64": np.int64}
_BATCHED: Final = ("positions", "slots", "firsts", "counts")
"""A program with all of these serves several sequences."""


@dataclass(frozen=True)
class Part:
    """Tokens of one sequence that a step computes."""

    slot: int
    """Where the sequence lies, from 0."""
    ids: Sequence[int]
    position: int
    """Of the first of `ids` in the sequence: what stands in the slot from there on is forgotten."""
    wants: Literal["all", "last", "none"] = "last"
    """The rows whose logits are wanted."""


@dataclass(frozen=True)
class Scores:
    """What a step says about a part: a row for each token that was asked for."""

    logits: Floats
    """[rows, vocabulary], f32."""
    hidden: Floats | None
    """[rows, width] behind the last norm, None where the program does not give it."""


@dataclass(frozen=True)
class RunnerState:
    """What a runner has computed: the state of its executor, and which tokens lie in each slot."""

    state: State
    slots: tuple[tuple[int, ...], ...]


@dataclass
class Runner:
    """A program of a language model and what lies in its slots. For one thread at a time."""

    executor: BaseExecutor
    context: int
    """Most positions of a sequence."""
    vocabulary: int
    """Token ids are below it."""
    slots: int = 1
    chunk: int = 128
    """Most tokens of a prompt in one step."""
    held: list[list[int]] = field(default_factory=list)
    """The tokens whose keys and values each slot has, in the order of their positions."""

    def __post_init__(self) -> None:
        check_contract(self.executor)
        names = self.executor.variables
        self._inputs = {name: names[name] for name in INPUTS if name in names}
        self.batched = all(name in self._inputs for name in _BATCHED)
        """Whether a step takes several sequences."""
        if self.slots > 1 and not self.batched:
            raise UnsupportedError(
                "OI0794",
                f"the program serves one sequence at a time, not {self.slots}",
                hint=f"declare the inputs {', '.join(_BATCHED)}, as the programs of "
                "docs/language-models.md do",
            )
        self.held = [[] for _ in range(self.slots)]

    def step(self, parts: Sequence[Part]) -> list[Scores]:
        """Computes the parts, each of another slot, and gives the scores of each.

        Raises InputError OI0795 for tokens beyond the context, OI0796 for a token that is none or a part
        that does not fit what its slot holds; then nothing was computed.
        """
        self._check(parts)
        if not self.batched:
            return [self._single(part) for part in parts]
        counts = [len(part.ids) for part in parts]
        firsts = [sum(counts[:i]) for i in range(len(parts))]
        rows = [_wanted(part, first) for part, first in zip(parts, firsts)]
        values = {
            "tokens": [i for part in parts for i in part.ids],
            "positions": [
                part.position + i for part, count in zip(parts, counts) for i in range(count)
            ],
            "slots": [part.slot for part in parts],
            "firsts": firsts,
            "counts": counts,
            "rows": [row for of_part in rows for row in of_part],
        }
        found = self._run(values)
        logits = _matrix(found[LOGITS])
        hidden = _matrix(found[HIDDEN]) if HIDDEN in found else None
        if "rows" not in self._inputs:
            logits = logits[values["rows"]]
            hidden = None if hidden is None else hidden[values["rows"]]
        ends = np.cumsum([len(of_part) for of_part in rows])
        scores: list[Scores] = []
        for part, of_part, end in zip(parts, rows, ends):
            span = slice(end - len(of_part), end)
            scores.append(Scores(logits[span], None if hidden is None else hidden[span]))
            self._hold(part)
        return scores

    def feed(self, slot: int, ids: Sequence[int], wants: Literal["all", "last"] = "last") -> Scores:
        """The scores of a sequence that begins with what its slot holds, or with anything else.

        The longest beginning that the slot has already is not computed again, unless all rows are
        wanted; the rest is computed in chunks. Raises InputError as `step`.
        """
        self.check_prompt(ids)
        begin = 0 if wants == "all" else self.reusable(slot, ids)
        found: list[Scores] = []
        for start in range(begin, len(ids), self.chunk):
            stop = min(start + self.chunk, len(ids))
            want = wants if wants == "all" or stop == len(ids) else "none"
            found += self.step([Part(slot, ids[start:stop], start, want)])
        if wants == "last":
            return found[-1]
        hidden = [one.hidden for one in found if one.hidden is not None]
        return Scores(
            np.concatenate([one.logits for one in found]),
            np.concatenate(hidden) if hidden else None,
        )

    def reusable(self, slot: int, ids: Sequence[int]) -> int:
        """How many tokens at the beginning of `ids` need not be computed: never the last one."""
        held = self.held[slot]
        if held == ids[: len(held)]:
            common = len(held)
        else:
            pairs = enumerate(zip(held, ids))
            common = next((n for n, (a, b) in pairs if a != b), len(ids))
        common = min(common, len(ids) - 1)
        if "positions" in self._inputs or common == len(held):
            return common
        # The program counts its positions itself: it goes on, or begins again.
        return 0

    def check_prompt(self, ids: Sequence[int]) -> None:
        """Raises InputError OI0796 where there is no token, OI0795 for more than the context has room for."""
        if len(ids) == 0:
            raise InputError(
                "OI0796", "there is no token", hint="give a prompt of one token at least"
            )
        self.check_fits(len(ids))

    def check_fits(self, count: int) -> None:
        """Raises InputError OI0795 where a sequence of `count` tokens is longer than the context."""
        if count > self.context:
            raise InputError(
                "OI0795",
                f"the sequence has {count} tokens, the context has room for {self.context}",
                hint="shorten the prompt, or ask for a longer context (-c, context=) where the model "
                "was made for one",
            )

    def snapshot(self) -> RunnerState:
        """What all slots hold, as a copy."""
        return RunnerState(self.executor.snapshot(), tuple(tuple(held) for held in self.held))

    def restore(self, saved: RunnerState) -> None:
        """As it was at the snapshot. Raises InputError for one of other slots or another program."""
        if len(saved.slots) != self.slots:
            raise InputError(
                "OI0796",
                f"the snapshot has {len(saved.slots)} slots, this engine has {self.slots}",
                hint="restore it in an engine with as many",
            )
        self.executor.restore(saved.state)
        self.held = [list(held) for held in saved.slots]

    def _check(self, parts: Sequence[Part]) -> None:
        taken: set[int] = set()
        for part in parts:
            if not 0 <= part.slot < self.slots or part.slot in taken:
                _refuse(f"slot {part.slot} is none of the {self.slots}, or is given twice")
            taken.add(part.slot)
            held = len(self.held[part.slot])
            if not part.ids or not 0 <= part.position <= held:
                _refuse(
                    f"{len(part.ids)} tokens at position {part.position} of slot {part.slot}, which "
                    f"holds {held}"
                )
            self.check_fits(part.position + len(part.ids))
            wrong = [i for i in part.ids if not 0 <= i < self.vocabulary]
            if wrong:
                raise InputError(
                    "OI0796",
                    f"token {wrong[0]} is none: the model has {self.vocabulary} tokens",
                    hint="token ids count from 0; the tokenizer of the same model gives them",
                )

    def _single(self, part: Part) -> Scores:
        """A part on a program that has one sequence, and perhaps counts its positions itself."""
        held = self.held[part.slot]
        if "positions" not in self._inputs and part.position != len(held):
            if part.position:
                _refuse(
                    f"the program counts positions itself and stands at {len(held)}, not at "
                    f"{part.position}"
                )
            self.executor.reset()
        rows = _wanted(part, 0)
        count = len(part.ids)
        values: dict[str, Sequence[int]] = {
            "tokens": part.ids,
            "positions": range(part.position, part.position + count),
            "slots": [0],
            "firsts": [0],
            "counts": [count],
            "rows": rows,
        }
        found = self._run(values)
        logits = _matrix(found[LOGITS])
        hidden = _matrix(found[HIDDEN]) if HIDDEN in found else None
        self._hold(part)
        if "rows" not in self._inputs:
            # Programs of one row score what follows the last token.
            chosen = rows if len(logits) == count else [len(logits) - 1] * min(1, len(rows))
            if len(chosen) != len(rows):
                raise UnsupportedError(
                    "OI0794",
                    "the program scores the last token only, but all are wanted",
                    hint="return logits of all tokens, or of those in an input `rows: i32[R]`",
                )
            logits = logits[chosen]
            hidden = hidden[chosen] if hidden is not None and len(hidden) == count else None
        return Scores(logits, hidden)

    def _run(self, values: Mapping[str, Sequence[int]]) -> Mapping[str, Any]:
        """A step; each input in the dtype that the program declares."""
        given = {
            name: np.array(values[name], _INTEGERS[info.dtype])
            for name, info in self._inputs.items()
        }
        return self.executor.run(**given)

    def _hold(self, part: Part) -> None:
        held = self.held[part.slot]
        del held[part.position :]
        held.extend(part.ids)


def check_contract(executor: BaseExecutor) -> None:
    """Raises UnsupportedError OI0794 for a program that is none of a language model."""
    dynamic = [info for info in executor.variables.values() if info.memory == "dynamic"]
    names = {info.name for info in dynamic}
    strange = sorted(names - set(INPUTS))
    wrong: str | None = None
    if "tokens" not in names:
        wrong = "has no input `tokens`"
    elif strange:
        wrong = f"asks for {', '.join(strange)}, which no engine gives"
    elif LOGITS not in executor.results:
        wrong = f"does not return `{LOGITS}`"
    else:
        for info in dynamic:
            if info.dtype not in _INTEGERS or len(info.dims) != 1:
                wrong = f"declares {info.text}, which is no list of i32 or i64"
        if wrong is None and len(executor.variables[LOGITS].dims) != 2:
            wrong = f"returns {executor.variables[LOGITS].text}, which is no row for each token"
    if wrong is not None:
        raise UnsupportedError(
            "OI0794",
            f"the program {wrong}",
            hint=f"a program of a language model takes `tokens: i32[N]` (and {', '.join(INPUTS[1:])}, as it "
            f"needs them) and returns `{LOGITS}`: docs/language-models.md",
        )


def _wanted(part: Part, first: int) -> list[int]:
    last = first + len(part.ids)
    return {"all": list(range(first, last)), "last": [last - 1], "none": []}[part.wants]


def _matrix(value: Any) -> Floats:
    """Results as rows of f32, whatever float dtype and leading dimensions they have."""
    found = np.asarray(value.values() if hasattr(value, "values") else value, np.float32)
    return found.reshape(-1, found.shape[-1])


def _refuse(message: str) -> None:
    raise InputError(
        "OI0796", message, hint="a part continues its slot or begins within what it holds"
    )
