"""A compiled program at a glance: builds, package, sizes, variables, memory. Needs no xDSL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.runtime.devices import DEVICES, device_of
from openinfer.runtime.packages.mapped import MappedFile
from openinfer.runtime.plan import plan_table
from openinfer.runtime.program_file import NAMES, WEIGHTS, Container

if TYPE_CHECKING:
    from openinfer.runtime.manifest import Manifest, VariableRow
    from openinfer.runtime.program import Program

KINDS = ("dynamic", "volatile", "constant", "persistent")


def compiled_facts(path: Path, program: Program) -> dict[str, Any]:
    """The facts as JSON data; reads embedded weights once, to check them.

    Raises ArtefactError for weights that differ from their checksum.
    """
    manifest = program.manifest
    return {
        "file": str(path),
        "program": manifest.name,
        **_container_facts(path),
        "builds": [_build(build) for build in (program, *program.alternatives)],
        "package": _package(program),
        "sizes": manifest.sizes,
        "step_sizes": manifest.runtime_sizes,
        "variables": [
            {"name": row.name, "memory": row.memory, "type": _type(row), "sources": row.sources}
            for row in manifest.variables
        ],
        "returns": manifest.returns,
        "outputs": manifest.outputs,
        "weights": {
            "bytes": sum(row.held for row in manifest.weights),
            "packed": sum(row.held for row in manifest.weights if row.prepare is not None),
        },
        "precision": {"operands": manifest.precision, "products": manifest.rounded_products},
        "strict_math": manifest.strict_math,
        "arena": manifest.arena,
        "nodes": len(manifest.nodes),
        "source_lines": len(program.source.text.splitlines()) if program.source else 0,
    }


def compiled_text(facts: dict[str, Any]) -> str:
    """The facts for a person; ends in a newline."""
    sections = ", ".join(f"{name} {size}" for name, size in facts["sections"].items())
    lines = [
        f"{facts['file']}: {facts['program']}, written by openinfer {facts['writer']}",
        f"sections, all as their checksums say: {sections} bytes",
    ]
    for build in facts["builds"]:
        further = "".join(f", {kind} {size}" for kind, size in build["further"].items())
        here = "runs here" if build["obstacle"] is None else f"not here: {build['obstacle']}"
        name = f"{build['device']} {build['target']}"
        lines.append(f"build {name}: {build['code']} bytes of code{further}; {here}")
    lines += [f"package: {facts['package']['text']}", ""]
    fixed = ", ".join(f"{name} = {value}" for name, value in facts["sizes"].items())
    lines.append(f"sizes: {fixed or 'none'}")
    lines.append(f"sizes of a step: {', '.join(facts['step_sizes']) or 'none'}")
    for kind in KINDS:
        rows = [row for row in facts["variables"] if row["memory"] == kind]
        if rows:
            lines += ["", f"{kind}:"]
            lines += [f"  {row['name']}: {row['type']}{_sources(row['sources'])}" for row in rows]
    weights = facts["weights"]
    lines += [
        "",
        f"results: {', '.join(facts['returns'] or facts['outputs']) or 'none'}",
        f"weights: {weights['bytes']} bytes, of which {weights['packed']} are laid out anew",
        f"arena: {facts['arena']} bytes",
        *_precision(facts["precision"]),
        f"strict math: {'yes' if facts['strict_math'] else 'no'}",
        f"{facts['nodes']} nodes, {facts['source_lines']} lines of text",
    ]
    return "\n".join(lines) + "\n"


def _precision(facts: dict[str, Any]) -> list[str]:
    if facts["operands"] == "f32":
        return ["precision: as declared"]
    if not facts["products"]:
        return [
            f"precision: f32 arithmetic; no product gains by {facts['operands']} on this target"
        ]
    return [f"precision: the operands of {facts['products']} products in {facts['operands']}"]


def plan_text(program: Program) -> str:
    """The memory plan as a table."""
    return plan_table(program.manifest, {}) + "\n"


def _container_facts(path: Path) -> dict[str, Any]:
    file = MappedFile(path)
    try:
        container = Container(file)
        if container.find(WEIGHTS) is not None:
            container.check(WEIGHTS)
        sizes: dict[str, int] = {}
        for (kind, _), section in container.sections.items():
            sizes[NAMES[kind]] = sizes.get(NAMES[kind], 0) + section.length
        return {"bytes": file.size, "writer": container.writer, "sections": sizes}
    finally:
        file.close()


def _build(program: Program) -> dict[str, Any]:
    manifest: Manifest = program.manifest
    return {
        "device": manifest.device,
        "target": manifest.target.partition(";")[0],
        "key": manifest.target,
        "version": manifest.version,
        "code": program.code_bytes,
        "parts": {name: len(part) for name, part in program.parts.items()},
        "further": {kind: build.code_bytes for kind, build in program.further_builds.items()},
        "obstacle": _obstacle(manifest),
    }


def _obstacle(manifest: Manifest) -> str | None:
    if manifest.device not in DEVICES:
        return f"this build of openinfer has no device '{manifest.device}'"
    return device_of(manifest.device).obstacle(manifest.target)


def _package(program: Program) -> dict[str, Any]:
    from openinfer.runtime.packages.embedded import EmbeddedPackage

    manifest, package = program.manifest, program.package
    facts: dict[str, Any] = {"hash": manifest.package, "path": manifest.package_path}
    if manifest.package is None:
        text, state = "none", "none"
    elif isinstance(package, EmbeddedPackage):
        count = len(package.tensors)
        text, state = f"inside, {count} tensors of {package.origin}", "embedded"
    elif package is not None:
        text, state = str(package.path), "found"
    elif not program.needs_package:
        text, state = f"{manifest.package_path}, which it does not need to run", "unneeded"
    else:
        text, state = f"{manifest.package_path}, which is not there, or has changed", "missing"
    return {**facts, "state": state, "text": text}


def _type(row: VariableRow) -> str:
    dims = f"[{', '.join(row.dims)}]" if row.dims else ""
    indices = f"({', '.join(row.indices)})" if row.indices else ""
    return f"{row.dtype}{dims}{f' by {indices}' if indices else ''}"


def _sources(names: list[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (f", … {len(names)} in all" if len(names) > 3 else "")
    return f" from {shown}"
