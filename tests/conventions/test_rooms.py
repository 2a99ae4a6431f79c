"""The rooms of `lowering/`: a room imports only those that stand before it."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import pytest
from source_tree import REPOSITORY


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    """The script that prints the edges."""
    spec = importlib.util.spec_from_file_location("rooms", REPOSITORY / "scripts/rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rooms"] = module
    spec.loader.exec_module(module)
    return module


def test_rooms_import_only_those_before_them(rooms: ModuleType) -> None:
    wrong = {pair: files for pair, files in rooms.edges().items() if not rooms.goes_left(pair)}
    assert not wrong


def test_every_folder_is_a_room(rooms: ModuleType) -> None:
    folders = {path.parent.name for path in (REPOSITORY / "lowering").glob("*/__init__.py")}
    assert folders | {rooms.SHARED} == set(rooms.ROOMS)


def test_machines_are_apart(rooms: ModuleType) -> None:
    assert not rooms.goes_left(("reference", "cpu"))
    assert not rooms.goes_left(("cpu", "reference"))
    assert rooms.goes_left(("cpu", "kernels"))
    assert not rooms.goes_left(("kernels", "cpu"))


@pytest.mark.parametrize("room", ["program", "graph", "nn", "kernels", "linalg", "buffers", "host"])
def test_shared_rooms_name_no_device(room: str) -> None:
    """What machines share asks `Demands`: the word of one there is a schedule in the wrong room."""
    named = re.compile(r"vulkan|spir-?v|glsl", re.IGNORECASE)
    files = sorted((REPOSITORY / "lowering" / room).rglob("*.py"))
    assert files
    assert not [file.name for file in files if named.search(file.read_text(encoding="utf-8"))]
