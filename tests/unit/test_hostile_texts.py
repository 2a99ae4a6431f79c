"""Texts and shapes that Python or NumPy refuse in their own words: each is an error with a code."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import openinfer as oi

HALF = "\ud800"
BODY = "dynamic {{ x: f32[4]; }} volatile {{ y: f32[4]; }}\nblock entry {{ op relu(x) >> y; {} return; }}"


@pytest.mark.parametrize(
    "text",
    [
        f"// {HALF}\n" + BODY.format(""),
        BODY.format(f"/* {HALF} */"),
        BODY.format(f'scope "{HALF}" {{ }}'),
        BODY.format(f"op relu(x{HALF}) >> y;"),
    ],
)
def test_half_a_surrogate_pair_is_one_mistake_of_the_text(text: str) -> None:
    for run in (
        lambda: oi.graph(text).check(),
        lambda: oi.Simulator(text),
        lambda: oi.compile(text),
    ):
        with pytest.raises(oi.ProgramError) as caught:
            run()
        assert [d.code for d in caught.value.diagnostics] == ["OI0272"]
        str(caught.value).encode()


@pytest.mark.parametrize("memory", ["dynamic", "volatile", "constant", "persistent"])
@pytest.mark.parametrize("sizes", [{}, {"N": 2**32}])
def test_an_empty_tensor_beyond_all_memory(memory: str, sizes: Mapping[str, int]) -> None:
    extent = "N" if sizes else 2**32
    text = f"{memory} {{ y: f32[{extent}, {extent}, 0]; }} block entry {{ return; }}"
    for run in (oi.Simulator, oi.compile):
        with pytest.raises(oi.ProgramError, match="no memory holds y") as caught:
            run(text, None, sizes=sizes)
        assert caught.value.code == "OI0305"


def test_an_empty_tensor_that_the_step_makes_too_large() -> None:
    text = """\
dynamic { n: i64; }
block entry { assign y: f32[n, n, 0]; op relu(y) >> y; return y; }
"""
    for run in (oi.Simulator, oi.compile):
        executor = run(text).make_executor()
        with pytest.raises(oi.StepError) as caught:
            executor.run(n=2**40)
        assert caught.value.code == "OI0604"
        assert executor.run(n=3)["y"].shape == (3, 3, 0)
