"""Enumerates the sub-packages, which the table in pyproject.toml cannot do."""

from setuptools import find_packages, setup

ROOTS = ("compiler", "dialects", "lowering", "runtime")
setup(
    packages=["openinfer"]
    + [f"openinfer.{root}" for root in ROOTS]
    + [f"openinfer.{root}.{sub}" for root in ROOTS for sub in find_packages(root)]
)
