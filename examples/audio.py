"""Turns a rising tone into features, hop by hop, with `audio.oi`: `python -m examples.audio`."""

from __future__ import annotations

import numpy as np

from examples.checking import check, package, steps_checked


def main() -> None:
    with package("audio") as model:
        hop, window = model.sizes["hop"], model.sizes["window"]
        shape, bank = np.asarray(model.read("shape")), np.asarray(model.read("bank"))
    time = np.arange(40 * hop) / 8000  # seconds, at 8 kHz
    # Some noise: without it, bands that hold nothing show how sums were rounded.
    noise = 0.05 * np.random.default_rng(7).standard_normal(len(time))
    sound = (np.sin(2 * np.pi * (200 + 1500 * time) * time) + noise).astype(np.float32)
    steps = [{"samples": chunk} for chunk in sound.reshape(-1, hop)]
    rows = np.concatenate([results["features"] for results in steps_checked("audio", steps, 1e-3)])
    # The same from the whole sound at once, in float64.
    padded = np.concatenate([np.zeros(window - hop), sound])
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]  # (steps, window)
    power = np.abs(np.fft.rfft(frames * shape)) ** 2
    wanted = np.log(np.maximum(power @ bank, 1e-10))
    check(np.allclose(rows, wanted, 1e-2, 1e-2), "the stream differs from the whole")
    loudest = rows.argmax(axis=1)
    print(f"{len(rows)} steps; the loudest band rises from {loudest[5]} to {loudest[-1]}")
    check(loudest[-1] > loudest[5], "a rising tone climbs through the bands")


if __name__ == "__main__":
    main()
