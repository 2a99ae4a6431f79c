"""What every test shares: paths, a cache of its own, and the pieces that may be absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tests neither use nor fill the cache of the person who runs them."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("OPENINFER_CACHE_DIR")
    os.environ["OPENINFER_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["OPENINFER_CACHE_DIR"]
    else:
        os.environ["OPENINFER_CACHE_DIR"] = before
