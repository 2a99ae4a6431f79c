"""The file of results: rows by name, written after each change, so that a run that is stopped keeps them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Results:
    """What is in a file, and what is added to it. What another run found of other rows stays."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError for a file that holds something else."""
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict) or not isinstance(found.get("rows"), dict):
                raise ValueError(f"{path} holds no results of this benchmark")
            self.rows = found["rows"]

    def begin(self, name: str, about: dict[str, Any]) -> None:
        """A row is measured anew: what was known of it goes."""
        self.rows[name] = about
        self._write()

    def add(self, name: str, part: str, found: Any) -> None:
        """A part of a row is known."""
        self.rows[name].setdefault(part, {}).update(found)
        self._write()

    def _write(self) -> None:
        part = self.path.with_suffix(f".{os.getpid()}.part")
        text = json.dumps({"rows": self.rows}, indent=1, ensure_ascii=False) + "\n"
        part.write_text(text, encoding="utf-8")
        part.replace(self.path)
