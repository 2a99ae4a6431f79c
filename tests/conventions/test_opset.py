"""Every op of the registry has an independent NumPy twin and documentation."""

from __future__ import annotations

import pytest

from openinfer.dialects import opset
from openinfer.lowering.reference.twins import twin_names


@pytest.mark.parametrize("name", opset.names())
def test_row(name: str) -> None:
    spec = opset.find(name)
    assert spec is not None
    assert spec.name == name
    assert spec.doc.strip(), f"{name} has no documentation"
    assert name in twin_names(), f"{name} has no twin in lowering/reference/"
    for setting in spec.settings:
        assert setting.doc.strip(), f"setting {setting.name} of {name} has no documentation"


def test_twins_have_a_row() -> None:
    assert twin_names() <= set(opset.names())
