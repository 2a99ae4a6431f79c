"""What a device provides, method by method: `Device`, the programs that it loads, and its `Memory`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from openinfer.runtime.devices.description import PLAIN, DeviceDescription
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.slots import SlotKind

if TYPE_CHECKING:
    from openinfer.runtime.devices.compiled.executor import CompiledExecutor
    from openinfer.runtime.devices.compiled.quick_inputs import Row
    from openinfer.runtime.devices.compiled.quick_run import Follow, QuickRun, Workers
    from openinfer.runtime.devices.compiled.trace_events import Entries
    from openinfer.runtime.manifest import Manifest, VariableRow
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.program import Program
    from openinfer.runtime.storage import AnyArray
    from openinfer.runtime.target import TargetDescription

Record = Callable[[int, int, int], object]
"""What takes what a watched step shows: a node, one of its outputs and its address."""
Block = Any
"""What `Memory.allocate` gave. Only its memory looks inside; everybody may ask for its `nbytes`."""


class Box(NamedTuple):
    """A part of a block that is a dense grid of entries: some of them along each axis."""

    block: Block
    capacity: tuple[int, ...]
    """Entries of the grid along each axis."""
    entry: int
    """Bytes of an entry."""
    first: tuple[int, ...]
    extents: tuple[int, ...]

    @staticmethod
    def of_bytes(block: Block, start: int, count: int) -> Box:
        """Bytes that lie one behind the other."""
        return Box(block, (block.nbytes,), 1, (start,), (count,))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The part of the grid, for an array of it."""
        return tuple([slice(at, at + count) for at, count in zip(self.first, self.extents)])

    @property
    def nbytes(self) -> int:
        """Bytes of its entries."""
        return prod(self.extents) * self.entry

    @property
    def start(self) -> int:
        """Where its first entry begins in the block."""
        place = 0
        for at, extent in zip(self.first, self.capacity):
            place = place * extent + at
        return place * self.entry

    @property
    def dense(self) -> bool:
        """Whether its bytes lie one behind the other: whole axes behind one that is a part, if any."""
        partial = False
        for count, extent in zip(reversed(self.extents), reversed(self.capacity)):
            if partial and count != 1:
                return False
            partial = partial or count != extent
        return True


class DeviceCall(NamedTuple):
    """Something that a step asked of its device: to run a kernel, or to move bytes."""

    kernel: str
    buffers: tuple[tuple[str, int], ...]
    """Names and bytes, in the order in which the kernel takes them."""

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {nbytes} B" for name, nbytes in self.buffers)
        return f"{self.kernel}: {parts}" if parts else self.kernel


class Memory(ABC):
    """Where a device keeps the arena, the state and the undo log of an executor.

    State, growth and recovery are written over it, once for all devices. No step runs on the blocks that
    a method is given. What a method is asked to do is done when it returns.
    """

    @abstractmethod
    def allocate(self, nbytes: int) -> Block:
        """A block of zeros that starts at a cache line, and is freed when nobody holds it any more.

        Raises MemoryError.
        """

    @abstractmethod
    def address(self, block: Block) -> int:
        """What the frame of a step says of a block."""

    @abstractmethod
    def write(self, block: Block, start: int, data: AnyArray) -> None:
        """Puts bytes, an array of u8 with one axis, into a block."""

    @abstractmethod
    def read(self, block: Block, start: int, count: int) -> AnyArray:
        """Some bytes as an array of u8 with one axis: the block's own where the host can see it, so that
        a later step may change them; else a copy."""

    @abstractmethod
    def copy(self, source: Box, target: Box) -> None:
        """Copies entries between boxes of the same extents and entries, in blocks that differ."""

    @abstractmethod
    def fill(self, box: Box, entry: AnyArray) -> None:
        """Puts the bytes of an entry into every entry of a box."""

    def owner(self, block: Block) -> object | None:
        """What all arrays that `read` gives of a block refer to (`ndarray.base`), so that the references to
        it tell whether a caller holds one.

        Optional: None, the default, says that `read` gives copies. Results are never lent then.
        """
        del block
        return None

    # Made of the others: optional, where a device knows a shorter way

    def gather(self, box: Box) -> AnyArray:
        """The bytes of a box one behind the other; as `read`, they may be the block's own."""
        if not box.dense:
            whole = Box(self.allocate(box.nbytes), box.extents, box.entry, _start(box), box.extents)
            self.copy(box, whole)
            box = whole
        return self.read(box.block, box.start, box.nbytes)

    def scatter(self, box: Box, data: AnyArray) -> None:
        """Puts bytes that lie one behind the other into a box."""
        if box.dense:
            self.write(box.block, box.start, data)
            return
        whole = Box(self.allocate(box.nbytes), box.extents, box.entry, _start(box), box.extents)
        self.write(whole.block, 0, data)
        self.copy(whole, box)


def _start(box: Box) -> tuple[int, ...]:
    return (0,) * len(box.extents)


class Team(Protocol):
    """The threads of a context. A step may go on in them when the native call has returned."""

    address: int
    """What the frame says of it."""

    def call(self, frame: Any) -> Callable[[], object]:
        """The native call that runs a step with everybody, with a frame, which is an array of ctypes."""
        ...

    def forget(self) -> None:
        """Sizes have changed: what steps took says nothing about those to come."""
        ...

    def keep(self, given: Mapping[str, Any], more: Callable[[], list[AnyArray]]) -> None:
        """Holds on to the inputs of the step that just ended until no thread reads them any more; `more` is
        asked for what else they lie in, where that is so."""
        ...

    def workers(self) -> Workers:
        """Where to see whether threads are inside of a step, for machine code that asks `keep` only then."""
        ...

    def quiesce(self) -> None:
        """Waits until no thread is inside of a step."""
        ...

    def close(self) -> None:
        """Ends the threads."""
        ...


class TraceRecord(Protocol):
    """Where a traced step writes its stamps and their times."""

    enabled: bool
    """Whether steps write anything."""

    @property
    def address(self) -> int:
        """What the frame says of it."""
        ...

    def begin(self) -> None:
        """A step starts, or starts again with more memory."""
        ...

    def take(self) -> tuple[Entries, int]:
        """The entries of the step that ended, and how many more found no room."""
        ...


class LoadedProgram(ABC):
    """The parts of a program on a device, and its weights where steps read them; executors share it.

    The host part of a step is native code for every device: it is called with a frame of 64-bit words in
    the memory of the process, which `runtime/devices/compiled/context.py` fills in.
    """

    manifest: Manifest
    package: Package | None
    variables: dict[str, VariableRow]
    """Those of the manifest, by name."""
    memory: Memory
    """Where the arena of the host half is, and the state."""
    watched: bool
    """Whether this is the build that shows its values (`watched_by`)."""
    shared: bool
    """Whether several threads can run a step."""
    guard: Callable[[], object] | None
    """What raises once the file of mapped weights has changed; None where no step reads a file."""
    mapped_bytes: int = 0
    """Bytes of weights that are read where the package file is mapped."""
    packed_bytes: int = 0
    """Those that were laid out anew, and of constants that were filled."""
    copied_bytes: int = 0
    """Those of small weights that were copied as they are."""

    @property
    def job_words(self) -> int:
        """Words of a job that a step hands out; 0 when threads share whole steps."""
        jobs = (slot.number for slot in self.manifest.frame if slot.kind == SlotKind.JOB)
        return next(jobs, 0)

    @property
    def device_memory(self) -> Memory | None:
        """Where the arena of the device kernels is, in contexts that are made now. Optional: None, the
        default, for a device without memory of its own."""
        return None

    @abstractmethod
    def weight_address(self, number: int) -> int:
        """What the frame says of a weight."""

    def device_weight_address(self, number: int) -> int:
        """What the frame says of a weight that device kernels read. Optional: by default they read what the
        host reads."""
        return self.weight_address(number)

    @abstractmethod
    def call(self, frame: Any) -> Callable[[], object]:
        """The native call that runs a step on the calling thread; it keeps the frame alive."""

    def calls(self, frame: Any) -> list[DeviceCall]:
        """What the last step with a frame asked of the device, in order. Optional: by default nobody writes
        that down."""
        del frame
        return []

    def kept_log(self, frame: Any) -> int | None:
        """Up to where the undo log of the last step with a frame is true of states of the device, where the
        device failed to do what it was asked: of what the log says behind that, it has kept nothing and
        changed nothing. Optional: None, the default, where the device has not failed."""
        del frame
        return None

    def make_team(self, threads: int) -> Team | None:
        """The threads of a context. Optional: None, the default, where steps run on the calling thread."""
        del threads
        return None

    @abstractmethod
    def make_record(self) -> TraceRecord:
        """Where the steps of a context write their stamps; asked of traced builds."""

    @abstractmethod
    def watched_by(self, record: Record) -> AbstractContextManager[None]:
        """Shows the values of the step that this thread runs inside of a `with` block; asked of watched
        builds. What `record` raises, the step raises when it has ended."""

    def place(
        self, rows: Sequence[Row], inputs: int, held: object
    ) -> Callable[[Mapping[str, Any]], bool] | None:
        """Native code that checks the arrays of a call and puts their addresses into the frame, if a dict of
        `inputs` inputs has all of them and they certainly fit; `held` owns the memory that the addresses
        go to. Optional: without it, None, Python does the same in five times the time.
        """
        del rows, inputs, held
        return None

    def follow(self, run: QuickRun) -> Follow | None:
        """Native code that does all of a `run` like the last one. Optional: without it, None, Python does the
        same in more time."""
        del run
        return None


class Device(ABC):
    """A machine that runs compiled programs. There is one object of it in a process, and one for each
    device of its kind that somebody names (`vulkan:1`); it holds nothing of any program.

    Its module is imported when somebody names the device, and may import no library of the device:
    whether the machine can run at all is asked first, on machines that lack the library.
    """

    name: str
    """As `--device` and `compile(device=…)` name it, and as manifests say it."""

    # Which one

    def one(self, which: str) -> Device:
        """The device that `NAME:which` means, there or not. Optional: by default there is one of a kind.

        Raises UnsupportedError OI0730 where it cannot be chosen.
        """
        raise UnsupportedError(
            "OI0730",
            f"there is no device '{self.name}:{which}'",
            hint=f"'{self.name}' is all there is of its kind",
        )

    def each(self) -> Sequence[str]:
        """The names of all devices of its kind, those included that plain `NAME` never means. Optional: by
        default none has a name of its own."""
        return ()

    # What it is

    @abstractmethod
    def unavailable_reason(self) -> str | None:
        """Why nothing can be compiled for it or run on it here; None where it can. Cheap: asked before
        every compilation of the command line. Raises UnsupportedError for a chosen device that does not
        exist."""

    @abstractmethod
    def facts(self) -> Mapping[str, str]:
        """What `openinfer devices` shows of it. Raises UnsupportedError where its library is missing."""

    @abstractmethod
    def host_target(self) -> TargetDescription:
        """What the target "host" means here. Raises UnsupportedError where nothing can run."""

    def describe(self) -> DeviceDescription:
        """What kernels of a program that is compiled now may use. Optional: by default what every device
        has; a device that is missing here is described like that, too."""
        return PLAIN

    def identity(self) -> tuple[str, str] | None:
        """The device and its driver, as tables of measured tiles name them (`runtime/tuning_device.py`).
        Optional: None, the default, where no tiles are measured. Raises UnsupportedError where it is
        missing."""
        return None

    def expect(self) -> None:
        """A program will be compiled for it: what takes its time may begin. Optional: by default nothing
        does. What fails is said to those who ask for it."""
        return

    def expecting(self, weights: int) -> AbstractContextManager[None]:
        """In it a program is compiled, and loaded at once, whose weights take about so many bytes: memory
        may be found for them meanwhile. Optional: by default nothing is done."""
        return nullcontext()

    # Which builds it can run

    @abstractmethod
    def obstacle(self, target: str) -> str | None:
        """Why code for a target (its key, as in the manifest) cannot run here; None when it can."""

    def rank(self, target: str) -> tuple[int, ...]:
        """Sorts the builds of a program by their target: those that run here first, the best of them
        before the others. Optional: by default those that can run keep their order."""
        return (self.obstacle(target) is not None,)

    # Running

    @abstractmethod
    def load(self, program: Program) -> LoadedProgram:
        """The parts of a program ready to run, and its weights: made once for a program.

        Raises ArtefactError for parts that cannot run here, PackageError for a weight that cannot be
        read, MemoryError.
        """

    def make_executor(
        self, program: Program, build: Program, threads: int, max_state_bytes: int | None
    ) -> CompiledExecutor:
        """A fresh executor, with state of its own.

        It runs `build.loaded()`: `build` is the program itself, or its traced build. `threads` is how
        many CPUs a step may use; `max_state_bytes` bounds what its persistent variables take (None: half
        of the memory of the machine). Optional: by default the executor of `compiled/`.
        """
        from openinfer.runtime.devices.compiled.executor import CompiledExecutor

        return CompiledExecutor(program, build.loaded(), threads, max_state_bytes)
