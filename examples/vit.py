"""Reads handwritten digits with the vision transformer `vit.oi`: `python -m examples.vit`."""

from __future__ import annotations

from examples.checking import check, run_checked
from examples.digits import load_digits, picture


def main() -> None:
    images, labels = load_digits()  # (100, 8, 8), (100,)
    y = run_checked("vit", image=images)["y"]  # (100, 10)
    found = y.argmax(axis=1)
    right = int((found == labels).sum())
    print(f"{right} of {len(labels)} digits are read correctly")
    for number in (found != labels).nonzero()[0][:1]:
        print(picture(images[number]))
        print(f"this is a {labels[number]}, taken for a {found[number]}")
    check(right >= 93, "the trained weights read more than that")


if __name__ == "__main__":
    main()
