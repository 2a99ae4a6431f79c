"""Reads handwritten digits with `mlp.oi`: `python -m examples.mlp`."""

from __future__ import annotations

from examples.checking import check, run_checked
from examples.digits import load_digits, picture


def main() -> None:
    images, labels = load_digits()  # (100, 8, 8), (100,)
    y = run_checked("mlp", x=images.reshape(-1, 64))["y"]  # (100, 10)
    found = y.argmax(axis=1)
    right = int((found == labels).sum())
    print(picture(images[0]))
    print(f"this is a {found[0]}, with probability {y[0].max():.2f}")
    print(f"{right} of {len(labels)} digits are read correctly")
    check(right >= 95, "the trained weights read more than that")


if __name__ == "__main__":
    main()
