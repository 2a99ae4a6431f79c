"""What imports may load: the package almost nothing, the runtime neither xDSL nor llvmlite."""

from __future__ import annotations

import json
import subprocess
import sys

from source_tree import shown, sources

HEAVY = ("numpy", "xdsl", "llvmlite", "safetensors")


def loaded(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after running `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_import_openinfer() -> None:
    assert not loaded("import openinfer") & set(HEAVY)


def test_registry_imports_nothing() -> None:
    found = loaded("import openinfer.compiler.registry, openinfer.compiler.pipeline")
    assert not found & set(HEAVY)


def test_runtime_imports_no_compiler() -> None:
    modules = [
        "openinfer." + shown(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for path in sources("runtime")
    ]
    found = loaded("\n".join(f"import {module}" for module in modules))
    assert not found & {"xdsl", "llvmlite"}


def test_tools_start_light() -> None:
    code = (
        "import contextlib, io\n"
        "from openinfer.compiler.tools.openinfer_opt import main as opt\n"
        "from openinfer.compiler.tools.openinfer import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    opt(['--version']); main(['--version']); main(['--help'])"
    )
    assert not loaded(code) & set(HEAVY)
