"""Errors go from one process to another, and into copies, with all that they say."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.importers.onnx.refusals import RefusedModel
from openinfer.runtime.devices.vulkan.driver import VulkanFailure
from openinfer.runtime.errors import Diagnostic, Location, Note, OpenInferError

TEXT = "dynamic { x: f32[4]; i: i32; } block entry { y = op gather(x, i); return y; }"


def bad_text() -> None:
    oi.Simulator("block entry {\n  y = op rleu(x);\n  return z;\n}")


def bad_index() -> None:
    with oi.Simulator(TEXT, None).make_executor() as executor:
        executor.run(x=np.ones(4, np.float32), i=np.int32(9))


def bad_result() -> None:
    with oi.Simulator(TEXT, None).make_executor() as executor:
        executor.run(x=np.ones(4, np.float32), i=np.int32(1))["z"]


def bad_model() -> None:
    where = Location("m.oi", 1, 2)
    found = Diagnostic("OI1501", "no handler", where, notes=(Note("here", where),), hint="none")
    raise RefusedModel([found], frozenset({"x"}))


def bad_driver() -> None:
    raise VulkanFailure("vkQueueSubmit", -4)


RAISING = [bad_text, bad_index, bad_result, bad_model, bad_driver]


@pytest.mark.parametrize("raising", RAISING)
def test_an_error_is_the_same_behind_pickle_and_copy(raising: Callable[[], None]) -> None:
    with pytest.raises(OpenInferError) as caught:
        raising()
    error = caught.value
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)
        assert other.code == error.code


def test_a_pool_of_processes_hands_an_error_over() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(oi.StepError) as caught:
            pool.submit(bad_index).result()
    assert caught.value.code == "OI0601"
    assert "9" in caught.value.message
