"""One answer of a program, in a process of its own: `first_answer PROGRAM PACKAGE DEVICE INPUTS`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import openinfer as oi


def main() -> None:
    program, package, device, inputs = sys.argv[1:]
    text = Path(program).read_text(encoding="utf-8")
    with oi.open_model(package) as model, np.load(inputs) as arrays:
        with oi.compile(oi.graph(text), model, device=device).make_executor() as executor:
            found = executor.run(**arrays)["y"]
    print(np.asarray(found).shape, flush=True)


if __name__ == "__main__":
    main()
