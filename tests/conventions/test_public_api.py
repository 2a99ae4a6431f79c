"""`openinfer.__all__`: sorted, complete, documented, and all that is public."""

from __future__ import annotations

import inspect

import pytest

import openinfer


def test_sorted() -> None:
    assert sorted(openinfer.__all__) == list(openinfer.__all__)
    assert len(set(openinfer.__all__)) == len(openinfer.__all__)


@pytest.mark.parametrize("name", openinfer.__all__)
def test_documented(name: str) -> None:
    value = getattr(openinfer, name)
    assert inspect.getdoc(value), f"openinfer.{name} has no docstring"


@pytest.mark.parametrize("name", openinfer.__all__)
def test_typed(name: str) -> None:
    value = getattr(openinfer, name)
    if not inspect.isfunction(value):
        return
    signature = inspect.signature(value)
    untyped = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert not untyped
    assert signature.return_annotation is not signature.empty


def test_lazy_names_are_public() -> None:
    assert set(vars(openinfer)["_LAZY"]) <= set(openinfer.__all__)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'complie'"):
        getattr(openinfer, "complie")  # noqa: B009


def test_compile_signatures_agree() -> None:
    """The public function and its implementation take the same options."""
    from openinfer.compiler import api

    public = inspect.signature(openinfer.compile).parameters
    implementation = inspect.signature(api.compile).parameters
    for name, parameter in public.items():
        assert implementation[name].default == parameter.default, name
