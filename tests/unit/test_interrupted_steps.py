"""A step that an interrupt ends in the simulator leaves everything as it was."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import numpy as np
import pytest

import openinfer as oi

TEXT = """
dynamic { n: i64; }
persistent { s: i64; T(i): f32[2] @table; }
volatile { v: f32[2]; }
block entry {
    loop i (i in 0..n) {
        cache.increment s;
        cache.read T[i] >> v;
    }
    return s;
}
"""


class Alarm(Exception):
    """What a handler of the user raises."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Alarm])
def test_the_simulator_undoes_a_step_that_is_interrupted(kind: type[BaseException]) -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        raise kind

    executor = oi.Simulator(TEXT).make_executor()
    assert executor.run(n=np.int64(3))["s"] == 3
    before = signal.signal(signal.SIGINT, handler)
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(kind):
            executor.run(n=np.int64(10**9))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert executor.fetch("s") == 3
    assert np.asarray(executor.fetch("T")).shape == (3, 2)
    assert executor.run(n=np.int64(2))["s"] == 5
