"""The compiler's plan: named pipelines, their phases in order, every pass with its reason.

Phase X's steps produce level X, so `run(…, start="nn")` takes a module of level nn and goes on with
the phase after it. After each phase the module is verified, dominance is checked, and
nothing may remain but what the phase says that it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from openinfer.compiler.passes import PassCallback, build_passes, check_after, run_pass
from openinfer.compiler.suggest import near
from openinfer.compiler.timings import Timings, at_stage
from openinfer.lowering.level import Level
from openinfer.lowering.options import PipelineOptions, current, using
from openinfer.runtime.errors import InputError
from openinfer.runtime.quick_dataclass import dataclass

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Step:
    """One pass of a phase and why it stands there."""

    spec: str
    """As on the command line: `name` or `name{option=value}`."""
    reason: str
    optional: bool = False
    """Whether it makes a program faster and nothing else: no program needs it to compile."""
    needs: str | None = None
    """An optional pass that finishes what this one begins: both are left out together."""
    by_function: bool = False
    """Whether it looks at one function at a time: another process does it for some kernels (`Division`)."""
    asks_kernels: bool = False
    """Whether it must know what kernels ask of the step that calls them."""

    @property
    def name(self) -> str:
        return self.spec.partition("{")[0]


def faster(spec: str, reason: str, needs: str | None = None) -> Step:
    """A step that programs compile without: what the ablation leaves out."""
    return Step(spec, reason, optional=True, needs=needs)


@dataclass(frozen=True)
class Phase:
    """The steps that turn the level before it into the level of its name."""

    name: str
    steps: tuple[Step, ...]
    leaves: Level | None = None
    """What may remain when it ends: what the next phase may rely on; None for anything."""
    verify: bool = True
    """Whether the module is checked when the phase ends, also where the next one follows at once."""
    by_llvm: bool = False
    """Whether all that the check would look at is converted in the next phase, and then verified by LLVM:
    it is left out where the module becomes machine code at once."""


VERIFY_EMITTED = False
"""Whether a phase that is `by_llvm` is checked like the others: so in tests."""

_BELOW_KERNELS = (
    "nn.interface nn.leave_if nn.dot_pairs nn.round_pairs nn.dot_bytes nn.dot_words "
    "nn.look_up_bytes nn.subview"
)
"""Ops of ours that schedules build, and the program's interface: they end in `convert-to-llvm`."""

PIPELINES: dict[str, tuple[Phase, ...]] = {
    "cpu": (
        Phase(
            "graph",
            (Step("bind-model", "what the package says becomes IR: no later pass opens it"),),
            Level.of("builtin graph"),
        ),
        Phase(
            "nn",
            (
                Step("graph-to-nn", "names become values, so that uses and lifetimes are plain"),
                faster(
                    "version-rows", "the version is simplified and fused as the body it is made of"
                ),
                faster("merge-equal", "equal weights' members and sizes are one value"),
                faster("narrow-state-reads", "a view where a slice would be a copy"),
                faster("absorb-transposes", "before attention, which matches operands"),
                faster("recognize-attention", "scores never reach memory"),
                faster("absorb-transposes", "of attentions that were only just recognised"),
                faster(
                    "absorb-conversions", "products and attention read narrow operands themselves"
                ),
                faster("recognize-layer-norm", "one pass over a row instead of seven"),
                faster(
                    "drop-carried",
                    "uses are final; before hoisting, which looks at what is carried",
                ),
                faster("hoist-invariants", "whole operations are found, what is left is expensive"),
                faster(
                    "split-formats",
                    "loops are final, whose bodies it doubles",
                    needs="keep-blocks",
                ),
                faster("keep-blocks", "who reads a weight is final", needs="choose-layouts"),
                faster("keep-narrow", "what is left has no kernel that reads blocks"),
                Step("dce", "what nobody reads or watches goes before it costs anything"),
            ),
            Level.of("builtin func scf nn arith", ops="tensor.extract"),
        ),
        Phase(
            "linalg",
            (
                Step(
                    "expand-composites", "what the machine wants in parts is rounded and fused so"
                ),
                Step("lower-precision", "products are final; what rounds operands can be fused"),
                faster(
                    "mark-byte-products", "before bodies, and before weights are laid out for it"
                ),
                Step("split-concats", "a kernel has so many buffers; before places are chosen"),
                Step("nn-to-linalg", "functions of elements become loops that can be merged"),
                Step(
                    "choose-places", "ops are kernels now; before fusion, which keeps places apart"
                ),
                Step("dce", "constants that moved into bodies are dead"),
                faster("fuse-elementwise", "chains first, so that an epilogue takes a whole chain"),
                faster("fuse-epilogue", "bias, activation, residual run on accumulators"),
                faster(
                    "fuse-pooling", "after bias and activation, a quarter of the sums is stored"
                ),
                faster("fuse-epilogue", "what follows pooling"),
                faster(
                    "fuse-matvec", "bodies are final: what one product reads of another is known"
                ),
                faster("choose-layouts", "products have their final operands now"),
                faster("join-products", "one start for Q, K and V; before rounds are moved"),
                faster("delay-norms", "norms and the products of the next round in one block"),
                faster("fuse-norms", "layouts say which products hold whole rows"),
                faster("store-squares", "who reads what a product gives is final"),
                faster("stream-weights", "panels are what a step reads; their sum is known now"),
                faster("merge-products", "their bodies are final, their panels have their places"),
                Step("dce", "members of weights that are read in a layout now"),
            ),
            # Decided by then: what each element is.
            Level.of(
                "builtin func scf linalg tensor arith math nn",
                forbidden="nn.elementwise nn.transpose nn.broadcast nn.fill nn.iota",
            ),
        ),
        Phase(
            "buffers",
            (
                Step("bufferize", "tensors to buffers, with every copy that meaning needs"),
                faster("elide-copies", "results go straight where a copy would bring them"),
                faster(
                    "prepare-constants", "constants are weights before anything may overwrite them"
                ),
                faster("write-states", "a buffer that a state takes is no buffer of its own"),
                faster("tile-batch", "whole chains are there; before buffers are one another's"),
                faster("reuse-buffers", "needs final lifetimes, so after copies are gone"),
                Step("outline-kernels", "equal operations become one function, compiled once"),
                Step(
                    "place-buffers",
                    "calls say who uses a buffer; mirrors are planned as others are",
                ),
                faster("join-calls", "who uses a buffer is final; before calls are stamped"),
                Step("plan-memory", "all buffers are known and used by calls only"),
                Step("stamp-kernels", "calls are final, and still say which nodes they compute"),
                Step("lower-views", "places of buffers are known now"),
            ),
            Level.of("builtin func scf arith math memref linalg nn", tensors=False),
        ),
        Phase(
            "kernels",
            (
                Step("partition-kernels", "all kernels are there; before the first is lowered"),
                Step(
                    "lower-kernels",
                    "views are plain buffers: an op becomes its schedule's loops",
                    by_function=True,
                ),
                Step(
                    "block-sums",
                    "all sums are loops, and no loop is cut for threads yet",
                    by_function=True,
                ),
                Step("clear-tails", "all stores into packed buffers are there", by_function=True),
                Step(
                    "poll-loops", "kernels and copies are no loops of the step; states come later"
                ),
                Step("lower-state", "before sizes: offsets into states are expressions of them"),
                Step("lower-checks", "the step's own checks; kernels have theirs by now"),
                Step("lower-sizes", "after all that asks for sizes", asks_kernels=True),
            ),
            # Sections, stamps and the number of a thread wait for the machine that runs them.
            Level.of(
                "builtin func scf memref vector arith math",
                ops=f"{_BELOW_KERNELS} nn.sections nn.end_section nn.stamp nn.thread",
                tensors=False,
            ),
            # Nearly all of a program's ops are there now: what shares them among threads is checked.
            verify=False,
        ),
        Phase(
            "threads",
            (
                Step("share-loops", "ticket and thread are the last things a step is called with"),
                Step("lower-stamps", "only now is known which thread writes the record"),
                Step("split-kernels", "functions are final; what is large is compiled in parts"),
                Step(
                    "cse",
                    "LLVM would do it as well; printed kernels are a fifth shorter",
                    by_function=True,
                ),
                Step("dce", "dead index arithmetic", by_function=True),
            ),
            Level.of(
                "builtin func scf memref vector arith math", ops=_BELOW_KERNELS, tensors=False
            ),
            by_llvm=True,
        ),
        Phase(
            "llvm",
            (
                Step(
                    "expand-f8",
                    "8-bit floats become bytes; before functions of them expand",
                    by_function=True,
                ),
                Step(
                    "expand-math",
                    "exp, erf and tanh as polynomials that vectorise",
                    by_function=True,
                ),
                Step(
                    "convert-to-llvm",
                    "one walk: every op of the level has its conversion",
                    by_function=True,
                ),
                Step("add-entry", "what the host calls takes one packed frame"),
                Step("add-team", "jobs call kernels in their last form"),
                Step("add-trace", "a traced step writes its record"),
                Step("add-poll", "long loops ask whether they were interrupted"),
            ),
            Level.of("builtin llvm", ops="nn.interface", tensors=False),
        ),
    ),
}


def _null(phase: Phase) -> Phase:
    """The same phase for the device `null`: what is the CPU's alone goes, and device kernels are recorded."""
    without = ("stream-weights", "tile-batch", "partition-kernels", "share-loops")
    steps = [step for step in phase.steps if step.name not in without]
    if phase.name == "kernels":
        steps[:0] = [
            Step("record-calls", "the rest of the step is the host's; kernels are not lowered"),
            Step("lower-transfers", "device memory reads as zeros where the host looks"),
        ]
    if phase.name == "threads":
        steps.insert(0, Step("share-loops{alone=true}", "the calling thread runs the host half"))
    return replace(phase, steps=tuple(steps))


PIPELINES["null"] = tuple(map(_null, PIPELINES["cpu"]))


def _vulkan(phase: Phase) -> Phase:
    """The same phase for Vulkan: from `buffers` on, kernels of the device have a way of their own."""
    without = ("stream-weights", "tile-batch", "partition-kernels", "share-loops")
    steps = [step for step in phase.steps if step.name not in without]
    more = {"kernels": "gpu", "threads": "gpu", "llvm": "spirv"}.get(phase.name)
    if phase.name == "kernels":
        first = [
            Step("poll-loops", "the only loops of the step are the program's"),
            Step("lower-state", "what it asks of the device is seen by the passes behind it"),
            Step("outline-moves", "states are lowered: all copies of device memory are there"),
            Step("lower-device-kernels", "views are plain buffers: an op becomes its shader"),
            Step("block-device-sums", "all sums of the device are loops"),
            Step("lower-dispatches", "launches are there; the sizes that they ask for still are"),
        ]
        names = {step.name for step in first}
        steps = first + [step for step in steps if step.name not in names]
    if phase.name == "threads":
        steps[:0] = [
            Step("share-loops{alone=true}", "the calling thread runs the host half"),
            Step("expand-packed", "the device has no memory of less than a byte"),
            Step("expand-narrow-floats", "what the device only stores; its conversions are shifts"),
        ]
    if phase.name == "llvm":
        after = [step.name for step in steps].index("expand-math") + 1
        steps.insert(after, Step("convert-to-spirv", "functions are expanded; the rest is LLVM's"))
    leaves = phase.leaves
    if more is not None and leaves is not None:
        leaves = replace(leaves, dialects=leaves.dialects | {more})
    # No LLVM looks at the kernels of the device.
    return replace(phase, steps=tuple(steps), leaves=leaves, by_llvm=False)


PIPELINES["vulkan"] = tuple(map(_vulkan, PIPELINES["cpu"]))

SPEED_ONLY = frozenset(
    step.name
    for pipeline in PIPELINES.values()
    for phase in pipeline
    for step in phase.steps
    if step.optional
)
"""Passes that make a program faster and nothing else: no program needs them to compile."""

for _name, _phases in list(PIPELINES.items()):
    # Every node of a program by itself: what `compile(…, optimise=False)` runs.
    PIPELINES[f"{_name}-plain"] = tuple(
        replace(phase, steps=tuple(step for step in phase.steps if not step.optional))
        for phase in _phases
    )


PhaseCallback = Callable[[str, "ModuleOp"], None]
"""Called with the phase's name and its module when the phase has ended and was checked."""
OnModule = Callable[["ModuleOp"], None]
Rest = Callable[["ModuleOp", OnModule, OnModule], None]
"""What another process does: it lowers a module as far as the last step that looks at one function at a time.
It calls its second argument when kernels are loops, its third when nothing is left to do for the step."""


@dataclass(frozen=True)
class Division:
    """Who lets other processes lower some of the kernels of a module."""

    begin: Callable[[ModuleOp, Rest], None]
    """Called in front of the first step that looks at one function at a time."""
    meet: OnModule
    """Called in front of the step that must know what kernels ask for."""


def phases(pipeline: str, start: str | None = None, stop: str | None = None) -> tuple[Phase, ...]:
    """The phases after level `start` (None: all) up to and with level `stop` (None: all).

    Raises InputError OI0510 for an unknown pipeline and OI0511 for an unknown or misplaced phase.
    """
    if pipeline not in PIPELINES:
        raise InputError(
            "OI0510",
            f"there is no pipeline '{pipeline}'",
            hint=near(pipeline, PIPELINES, "pipelines"),
        )
    known = PIPELINES[pipeline]
    names = [phase.name for phase in known]
    for name in (start, stop):
        if name is not None and name not in names:
            raise InputError(
                "OI0511",
                f"pipeline '{pipeline}' has no phase '{name}'",
                hint=near(name, names, "phases"),
            )
    first = names.index(start) + 1 if start is not None else 0
    last = names.index(stop) + 1 if stop is not None else len(names)
    if start is not None and stop is not None and last < first:
        raise InputError(
            "OI0511",
            f"phase '{stop}' stands before phase '{start}'",
            hint=f"the order is {' → '.join(names)}",
        )
    return known[first:last]


def removable(names: Iterable[str]) -> frozenset[str]:
    """These passes, when programs compile without each of them.

    Raises InputError OI0512 for a name that is none of `SPEED_ONLY`.
    """
    for name in (chosen := frozenset(names)):
        if name not in SPEED_ONLY:
            raise InputError(
                "OI0512",
                f"'{name}' is no pass that can be left out",
                hint=near(name, sorted(SPEED_ONLY), "passes that only make programs faster"),
            )
    return chosen


def run(
    module: ModuleOp,
    context: Context,
    pipeline: str = "cpu",
    start: str | None = None,
    stop: str | None = None,
    options: PipelineOptions | None = None,
    *,
    on_phase: PhaseCallback | None = None,
    on_pass: PassCallback | None = None,
    verify: bool = True,
    verify_each: bool = False,
    timings: Timings | None = None,
    emitted: bool = False,
    division: Division | None = None,
) -> None:
    """Lowers a module in place, from level `start` (None: as the frontend built it) to `stop`.

    Raises InputError OI0524 for options that contradict a module that is bound, what the passes find
    wrong with the program (ProgramError and others, unchanged), and
    CompileError for a failure of the compiler itself, wrapped once with phase, pass and op.
    `timings` takes down what each pass and check cost. `emitted` says that the module becomes LLVM
    IR at once: what LLVM's own verifier then finds is not looked for here (`Phase.by_llvm`). `division`
    may give kernels to other processes.
    """
    timings = timings if timings is not None else Timings()
    if options is not None:
        from openinfer.compiler.start_level import settle_options

        settle_options(module, options, binds=start is None)
    with using(options if options is not None else current()):
        ahead, divided = phases(pipeline, start, stop), False
        for number, phase in enumerate(ahead, 1):
            at_stage(f"{phase.name}, {number} of {len(ahead)}")
            for step in phase.steps:
                if division is not None:
                    if step.by_function and not divided:
                        rest = partial(_of_others, phases=ahead, context=context, options=current())
                        division.begin(module, rest)
                        divided = True
                    if step.asks_kernels:
                        with timings.measured(phase.name, "(wait for other processes)"):
                            division.meet(module)
                if any(name in current().without for name in _with_needs(step, phase)):
                    continue
                for item in build_passes(step.spec):
                    run_pass(item, module, context, phase.name, on_pass, timings)
                    if verify and verify_each:
                        check_after(module, f"after pass '{item.name}' of phase '{phase.name}'")
            if verify and (phase.verify or phase.name == stop or on_phase is not None):
                from openinfer.lowering.legality import check_legality

                with timings.measured(phase.name, "(verify)"):
                    again = phase.name == "llvm" or (phase.by_llvm and not VERIFY_EMITTED)
                    if not (emitted and again):
                        check_after(module, f"after phase '{phase.name}'")
                    check_legality(module, phase.name, phase.leaves)
            if on_phase is not None:
                on_phase(phase.name, module)


def _of_others(
    module: ModuleOp,
    tell: OnModule,
    narrow: OnModule,
    *,
    phases: Sequence[Phase],
    context: Context,
    options: PipelineOptions,
) -> None:
    """What another process does: all steps from the first to the last that look at one function at a time.
    See `Division.begin`."""
    steps = [(phase, step) for phase in phases for step in phase.steps]
    places = [place for place, (_, step) in enumerate(steps) if step.by_function]
    alone = True
    with using(options):
        for phase, step in steps[places[0] : places[-1] + 1]:
            if step.by_function is not alone:
                (narrow if step.by_function else tell)(module)
                alone = step.by_function
            if any(name in options.without for name in _with_needs(step, phase)):
                continue
            for item in build_passes(step.spec):
                run_pass(item, module, context, phase.name)


def _with_needs(step: Step, phase: Phase) -> list[str]:
    """A step and what finishes what it begins."""
    names = [step.name]
    if step.needs is not None:
        names.append(step.needs)
        found = [other for other in phase.steps if other.name == step.needs]
        names += [name for other in found for name in _with_needs(other, phase)]
    return names
