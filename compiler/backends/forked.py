"""A second process that takes some kernels of a program from level `buffers` to machine code.

Python lowers on one processor however many there are. A child made by `fork` has the whole module without
anything being written or read; it gives back what the step must know of its kernels, names and objects,
through a pipe. What is lost with it, this process compiles again: the program is the same, bit for bit.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from openinfer.compiler.backends import HelperError
from openinfer.compiler.tools.progress import PROGRESS_THREAD
from openinfer.runtime.devices.cpu.early_memory import EARLY_MEMORY_THREAD

if TYPE_CHECKING:
    from openinfer.lowering.cpu.emit_llvm import Elsewhere
    from openinfer.lowering.kernels.units import KernelFacts
    from openinfer.runtime.devices.cpu.compilation import ModuleCost

Objects = tuple[dict[str, bytes], list["ModuleCost"]]
Work = Callable[[Callable[[object], None]], Objects]
"""What a child does: calls what it is given with what its parent waits for, then returns the objects."""

NATIVE_THREADS = (
    "torch",
    "tensorflow",
    "jax",
    "cupy",
    "onnxruntime",
    "vulkan",
    "xllamacpp",
    "triton",
)
"""Modules behind which there may be threads, or devices, that a child cannot do without."""
OUR_THREADS = {PROGRESS_THREAD, EARLY_MEMORY_THREAD}
"""Threads of our own that a child can do without, and that hold no lock."""


def may_fork() -> bool:
    """Whether a child of this process finds all that it needs: no other threads, no device, no debugger."""
    if not sys.platform.startswith("linux") or not hasattr(os, "fork"):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    others = [t for t in threading.enumerate() if t is not threading.main_thread()]
    if any(thread.name not in OUR_THREADS for thread in others):
        return False
    if any(name in sys.modules for name in NATIVE_THREADS):
        return False
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return False
    # A handler that waits for children of its own would find ours.
    return signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


@dataclass
class Helper:
    """A child at work, and the end of its pipe."""

    pid: int
    pipe: IO[bytes]
    ended: bool = False

    def facts(self) -> dict[str, KernelFacts]:
        """What its kernels ask for; waits until they are loops. Raises HelperError."""
        return self._receive()

    def names(self) -> Elsewhere:
        """The names of its kernels; waits until it has lowered them. Raises HelperError."""
        return self._receive()

    def objects(self) -> Objects:
        """The objects, by their names, and what LLVM took for them; waits for them. Raises HelperError."""
        return self._receive()

    def _receive(self) -> Any:
        try:
            return pickle.load(self.pipe)
        except Exception as error:
            # Also half a message, of a child that the system has ended.
            self.close()
            raise HelperError from error

    def close(self) -> None:
        """Ends the child, whatever it is at, and forgets it."""
        if self.pipe.closed:
            return
        if not self.ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.ended = True
        # Last: where Ctrl-C comes before, the next call goes on.
        self.pipe.close()


def start(work: Work, helpers: list[Helper]) -> bool:
    """Does `work` in a child, which is in the list of helpers before anybody can be interrupted. False where
    the system has no room for one; never returns in the child."""
    with _signals_wait() as held:
        helper = _forked(work, held)
        if helper is not None:
            helpers.append(helper)
    return helper is not None


def _forked(work: Work, held: Iterable[int]) -> Helper | None:
    parent = os.getpid()
    try:
        reads, writes = os.pipe()
    except OSError:
        # As many files are open as may be.
        return None
    pid = -1
    try:
        with warnings.catch_warnings():
            # Python cannot know that the threads that it counts are idle: NumPy's, and the one for progress.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            os.close(reads)
            _work(work, writes, parent, held)
    except OSError:
        pass
    finally:
        if os.getpid() != parent:
            # Nothing of the parent's is flushed, finished or told: it is all done there. An error is a pipe
            # that ends early.
            os._exit(0)
    os.close(writes)
    if pid < 0:
        os.close(reads)
        return None
    return Helper(pid, os.fdopen(reads, "rb"))


@contextmanager
def _signals_wait() -> Generator[Iterable[int]]:
    """Gives the mask of signals as it was; handlers of what comes meanwhile run, and may raise, at the end.

    A handler that ran at a fork would run in both processes, or raise where the child has no name yet.
    Blocking signals is not enough: the thread for progress takes those that this one blocks, and Python runs
    the handler in this one all the same.
    """
    # Asked for apart: the call that blocks runs handlers of what came before.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in _handled()}
    came: list[int] = []

    def note(number: int, _: object) -> None:
        came.append(number)

    # What is registered first is done last; each is done whatever another one raises.
    with ExitStack() as behind:
        behind.callback(signal.pthread_sigmask, signal.SIG_SETMASK, held)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        behind.callback(_handle, came, handlers)
        for number, handler in handlers.items():
            behind.callback(signal.signal, number, handler)
            signal.signal(number, note)
        yield held


def _handle(came: Iterable[int], handlers: Mapping[int, Any]) -> None:
    with ExitStack() as calls:
        for number in reversed(list(dict.fromkeys(came))):
            calls.callback(handlers[number], number, None)


def _work(work: Work, writes: int, parent: int, mask: Iterable[int]) -> None:
    _settle_in(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    with os.fdopen(writes, "wb") as pipe:

        def send(message: object) -> None:
            pickle.dump(message, pipe, pickle.HIGHEST_PROTOCOL)
            pipe.flush()

        send(work(send))


def _settle_in(parent: int) -> None:
    """Makes a child that Ctrl-C does not stop, that runs no handler of the parent's, and ends with it."""
    signal.set_wakeup_fd(-1)
    for number in _handled():
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


_PR_SET_PDEATHSIG = 1


def _handled() -> Iterator[signal.Signals]:
    """The signals that have a handler written in Python."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            yield signal.Signals(number)
