"""List or clear the compiled programs that are kept on disk."""

from __future__ import annotations

import argparse
import json
import time

EXAMPLES = """\
examples:
  openinfer cache list             newest first, with size and age
  openinfer cache clear            remove them all
  OPENINFER_CACHE_DIR=/tmp/c openinfer cache list --json

The folder is OPENINFER_CACHE_DIR, else the XDG cache folder's `openinfer`. Where others may read or
write it, the programs lie in its folder `openinfer-programs`, which is made for its user alone.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "clear"))


def run(args: argparse.Namespace) -> int:
    from openinfer.runtime.cache import default_cache

    cache = default_cache()
    place, problem = cache.place(), cache.problem()
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
    for entry in entries:
        age = _age(time.time() - entry.used)
        print(f"{entry.key[:16]}  {entry.nbytes / 1e3:9.1f} kB  {age:>8}  {entry.description}")
    limit = f"{cache.limit / (1 << 20):.0f} MiB"
    off = "" if cache.enabled else ", switched off"
    print(f"{len(entries)} entries, {total / 1e6:.1f} MB of {limit}, in {place}{off}")
    if problem is not None:
        print(f"not in use: {problem}")
    return 0


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
