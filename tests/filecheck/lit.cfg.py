"""lit runs every `.mlir` and `.oi` file here that has RUN lines."""

import os
import sys
from pathlib import Path
from typing import Any

# lit's configuration is no module: its folder is not in the path.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from in_process import InProcess

# lit puts `config` here before it runs this file.
config: Any = globals()["config"]
config.name = "openinfer"
config.test_format = InProcess()
config.suffixes = [".mlir", ".oi"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.environ.get("OPENINFER_LIT_OUTPUT", config.test_source_root)

# The tools of the environment that runs lit, whatever PATH says.
scripts = os.path.dirname(sys.executable)
config.environment["PATH"] = os.pathsep.join([scripts, os.environ.get("PATH", "")])
for name in ("HOME", "OPENINFER_CACHE_DIR", "PYTHONPATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment["PYTHONWARNINGS"] = "ignore"

repository = Path(__file__).resolve().parents[2]
config.substitutions.append(("%examples", str(repository / "examples")))
# A dialect file is printed and parsed again in both forms: `// RUN: OI_ROUNDTRIP`.
config.substitutions.append(
    (
        "OI_ROUNDTRIP",
        "openinfer-opt %s --split-input-file -o %t.custom.mlir"
        " && openinfer-opt %t.custom.mlir --split-input-file | filecheck %s"
        " && openinfer-opt %s --split-input-file --print-op-generic -o %t.generic.mlir"
        " && openinfer-opt %t.generic.mlir --split-input-file | filecheck %s",
    )
)
