"""Reads handwritten digits with the convolutions of `cnn.oi`: `python -m examples.cnn`."""

from __future__ import annotations

from examples.checking import check, run_checked
from examples.digits import load_digits


def main() -> None:
    images, labels = load_digits()  # (100, 8, 8), (100,)
    y = run_checked("cnn", image=images)["y"]  # (100, 10)
    right = int((y.argmax(axis=1) == labels).sum())
    print(f"{right} of {len(labels)} digits are read correctly")
    check(right >= 93, "the trained weights read more than that")


if __name__ == "__main__":
    main()
