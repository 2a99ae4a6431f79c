"""runtime <- dialects <- lowering <- compiler: a folder imports only those to its left."""

from __future__ import annotations

import pytest
from source_tree import LAYERS, REPOSITORY, all_sources, imports, shown, sources


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_go_left(layer: str) -> None:
    right = {f"openinfer.{name}" for name in LAYERS[LAYERS.index(layer) + 1 :]}
    wrong = [
        f"{shown(path)}:{line} imports {module}"
        for path in sources(layer)
        for line, module in imports(path)
        if any(module == name or module.startswith(f"{name}.") for name in right)
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_are_absolute() -> None:
    wrong = [
        f"{shown(path)}:{line} imports {module}"
        for path in all_sources()
        for line, module in imports(path)
        if module.startswith(".") or module.partition(".")[0] in LAYERS
    ]
    assert not wrong, "\n".join(wrong)


def test_runtime_names_no_compiler_library() -> None:
    """xDSL nowhere in the runtime; llvmlite only where the CPU device links an object."""
    wrong: list[str] = []
    for path in sources("runtime"):
        device = shown(path).startswith("runtime/devices/cpu/")
        for line, module in imports(path):
            library = module.partition(".")[0]
            if library == "xdsl" or (library == "llvmlite" and not device):
                wrong.append(f"{shown(path)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_only_the_table_of_devices_names_one() -> None:
    """What every compiled executor does asks `Device` and `Memory`. Devices know nothing of each other, but
    that the host half of a step is native code, which `cpu` loads."""
    folders = (REPOSITORY / "runtime/devices").glob("*/__init__.py")
    devices = {path.parent.name for path in folders} - {"compiled"}
    assert "cpu" in devices
    wrong: list[str] = []
    for path in sources("runtime"):
        for line, module in imports(path):
            for name in devices:
                home = shown(path).removeprefix("runtime/devices/").partition("/")[0]
                inside = home == name or (name == "cpu" and home in devices)
                if f"{module}.".startswith(f"openinfer.runtime.devices.{name}.") and not inside:
                    wrong.append(f"{shown(path)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_a_package() -> None:
    """`find_packages` skips a folder without `__init__.py`, silently."""
    missing = {
        shown(path.parent) for path in all_sources() if not (path.parent / "__init__.py").exists()
    }
    assert not missing
