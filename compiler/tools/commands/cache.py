"""List, remove or clear the compiled programs that are kept on disk."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from openinfer.compiler.tools.report import UsageError
from openinfer.runtime.errors import InputError

if TYPE_CHECKING:
    from openinfer.runtime.cache import Cache

EXAMPLES = """\
examples:
  openinfer cache list             last used first: size, age since then, target, program
  openinfer cache remove 5735f642  the one whose key begins so
  openinfer cache clear            remove them all
  OPENINFER_CACHE_DIR=/tmp/c openinfer cache list --json

The folder is OPENINFER_CACHE_DIR, else the XDG cache folder's `openinfer`. Where others may read or
write it, the programs lie in its folder `openinfer-programs`, which is made for its user alone.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "remove", "clear"))
    parser.add_argument(
        "key",
        nargs="*",
        metavar="KEY",
        help="of remove: keys as `list` shows them, or their beginnings",
    )


def run(args: argparse.Namespace) -> int:
    from openinfer.runtime.cache import default_cache
    from openinfer.runtime.tables import text_table

    cache = default_cache()
    place, problem = cache.place(), cache.problem()
    if (args.action == "remove") != bool(args.key):
        takes = "needs the key of an entry" if args.action == "remove" else "takes no key"
        raise UsageError(
            f"`openinfer cache {args.action}` {takes}", "`openinfer cache list` shows them"
        )
    if args.action == "remove":
        keys = [_only(cache, start) for start in args.key]
        freed = sum(cache.remove(key) or 0 for key in dict.fromkeys(keys))
        if args.json:
            print(json.dumps({"folder": str(place), "removed": keys, "bytes": freed}))
        else:
            print(f"removed {', '.join(key[:16] for key in keys)}, {freed / 1e3:.1f} kB")
        return 0
    if args.action == "clear":
        count, freed = cache.clear()
        if args.json:
            print(json.dumps({"folder": str(place), "removed": count, "bytes": freed}))
        else:
            print(f"removed {count} entries, {freed / 1e6:.1f} MB, from {place}")
        return 0

    entries = cache.entries()
    total = sum(entry.nbytes for entry in entries)
    if args.json:
        rows = [
            {
                "key": entry.key,
                "description": entry.description,
                **asdict(entry.about),
                "bytes": entry.nbytes,
                "used": entry.used,
            }
            for entry in entries
        ]
        data = {
            "folder": str(place),
            "enabled": cache.enabled,
            "problem": problem,
            "limit": cache.limit,
            "bytes": total,
            "entries": rows,
        }
        print(json.dumps(data, indent=2))
        return 0
    now, rows = time.time(), [("key", "size", "age", "target", "program")]
    for entry in entries:
        about = entry.about
        target = f"{about.device} {about.target}".strip()
        build = f", {about.build}" if about.build != "plain" else ""
        size = f"{entry.nbytes / 1e3:.1f} kB"
        age = _age(now - entry.used)
        rows.append((entry.key[:16], size, age, target, f"{about.program}{build}"))
    print("\n".join(text_table(rows if entries else [])))
    limit = f"{cache.limit / (1 << 20):.0f} MiB"
    off = "" if cache.enabled else ", switched off"
    print(f"{len(entries)} entries, {total / 1e6:.1f} MB of {limit}, in {place}{off}")
    if problem is not None:
        print(f"not in use: {problem}")
    return 0


def _only(cache: Cache, start: str) -> str:
    """The only key that begins so. Raises InputError OI0534."""
    found = cache.keys(start.lower())
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            "OI0534",
            f"no entry has a key that begins with {start!r}",
            hint="`openinfer cache list`",
        )
    shown = ", ".join(key[:16] for key in found[:4]) + (", …" if len(found) > 4 else "")
    raise InputError(
        "OI0534",
        f"{len(found)} entries have keys that begin with {start!r}: {shown}",
        hint="give more of the key",
    )


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
