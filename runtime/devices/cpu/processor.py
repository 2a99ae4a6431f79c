"""What LLVM says of this machine's processor, kept in the cache: its library takes a twentieth of a second
and 30 MB to load, which a process that only runs what was compiled before can do without.

LLVM is asked again where the processor, or the library, is another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from openinfer.runtime.cache import About, Cache, cache_key, default_cache
from openinfer.runtime.host import cpu_identity
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Processor:
    """A processor in LLVM's words."""

    triple: str
    """Of the process: architecture, vendor, system."""
    cpu: str
    features: Mapping[str, bool]
    """Of each feature that LLVM knows whether the processor has it."""
    llvm: str
    """The version of LLVM that says so."""


def llvmlite_version() -> str:
    """Raises ImportError where there is none. Does not load LLVM."""
    import llvmlite

    return llvmlite.__version__


def known_processor() -> Processor | None:
    """What was kept of this processor, None when nothing was."""
    try:
        store, key = _kept()
    except ImportError:
        return None
    data = store.get(key)
    return None if data is None else _read(data)


def keep_processor(found: Processor) -> None:
    """For the processes to come."""
    store, key = _kept()
    text = json.dumps(asdict(found), sort_keys=True)
    store.put(key, text.encode(), About("processor", "cpu", found.cpu))


def _kept() -> tuple[Cache, str]:
    key = cache_key("what LLVM says of the processor", cpu_identity(), llvmlite_version())
    return default_cache().kernels(), key


def _read(data: bytes) -> Processor | None:
    try:
        found = Processor(**json.loads(data))
        features = {str(name): on for name, on in found.features.items()}
        texts = (found.triple, found.cpu, found.llvm)
    except (ValueError, TypeError, AttributeError):
        return None
    whole = all(type(text) is str for text in texts) and all(
        type(on) is bool for on in features.values()
    )
    return found if whole else None
