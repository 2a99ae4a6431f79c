"""Models of PyTorch: `torch.export` gives a graph, which becomes a program."""

from __future__ import annotations

from importlib import import_module

_FAMILIES = (
    "arithmetic",
    "functions",
    "shapes",
    "creation",
    "reductions",
    "products",
    "encoder_layer",
    "convolution",
    "indexing",
    "orders",
    "scattering",
    "resampling",
    "recurrent",
    "control",
)


def load_handlers() -> None:
    """Fills the table of handlers: each family registers its own when it is imported."""
    for family in _FAMILIES:
        import_module(f"{__name__}.{family}")
