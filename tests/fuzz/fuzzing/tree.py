"""A program as its parts, so that parts can be left out: declarations, blocks, nodes, steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.tensors import Tensor


@dataclass
class Node:
    """A statement of one line, or a loop or scope with a body."""

    text: str
    body: list[Node] | None = None

    def copy(self) -> Node:
        return Node(self.text, None if self.body is None else [n.copy() for n in self.body])

    def lines(self, depth: int) -> Iterator[tuple[str, Node]]:
        """The lines of its text, each with the node that it belongs to."""
        indent = "    " * depth
        if self.body is None:
            yield indent + self.text, self
            return
        yield f"{indent}{self.text} {{", self
        for node in self.body:
            yield from node.lines(depth + 1)
        yield indent + "}", self


@dataclass
class Block:
    """A block; `end` is its last statement, which always stays."""

    name: str
    nodes: list[Node] = field(default_factory=list[Node])
    end: str = "return;"
    begin: str | None = None
    """The `await` of a consumer."""
    hints: str = ""
    parameters: str = ""
    """`(p, k=0.5)`."""
    constants: str = ""
    """The declarations of a block with parameters."""

    def copy(self) -> Block:
        return replace(self, nodes=[n.copy() for n in self.nodes])


@dataclass
class Declaration:
    """`x: f32[N];` in a memory section, or `size s = 4`, of the section "size"."""

    section: str
    name: str
    text: str


@dataclass
class Step:
    """What happens to both executors: a step with these inputs, or something between steps."""

    inputs: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    action: str = "run"
    """"run", "reset", or "restore": another executor takes the other side's snapshot over."""


@dataclass
class Program:
    """A program with everything that it needs to run."""

    seed: int
    declarations: list[Declaration]
    blocks: list[Block]
    steps: list[Step] = field(default_factory=list[Step])
    content: OinfContent = field(default_factory=OinfContent)
    """The package."""

    def copy(self) -> Program:
        """A copy whose parts can be taken out; tensors are shared."""
        content = OinfContent(
            dict(self.content.sizevars), dict(self.content.metadata), dict(self.content.tensors)
        )
        return Program(
            self.seed,
            list(self.declarations),
            [b.copy() for b in self.blocks],
            [Step(dict(s.inputs), s.action) for s in self.steps],
            content,
        )

    @property
    def text(self) -> str:
        return "\n".join(line for line, _ in self.lines()) + "\n"

    def lines(self) -> Iterator[tuple[str, Node | Declaration | Block | None]]:
        """The lines of the text, each with the part that it shows."""
        for definition in self.declarations:
            if definition.section == "size":
                yield f"{definition.text};", definition
        for section in ("dynamic", "constant", "volatile", "persistent"):
            found = [d for d in self.declarations if d.section == section]
            if found:
                yield f"{section} {{", None
                for declaration in found:
                    yield f"    {declaration.text};", declaration
                yield "}", None
        for block in self.blocks:
            yield f"block {block.name}{block.parameters}{block.hints} {{", block
            if block.constants:
                yield f"    constant {{ {block.constants} }}", block
            if block.begin is not None:
                yield f"    {block.begin}", block
            for node in block.nodes:
                yield from node.lines(1)
            yield f"    {block.end}", block
            yield "}", block

    def part_at(self, line: int) -> Node | Declaration | Block | None:
        """The part that a line of the text shows; lines count from 1."""
        for number, (_, part) in enumerate(self.lines(), 1):
            if number == line:
                return part
        return None

    def bodies(self) -> Iterator[list[Node]]:
        """Every list of nodes: of blocks, loops and scopes."""
        todo = [block.nodes for block in self.blocks]
        while todo:
            nodes = todo.pop()
            yield nodes
            todo += [node.body for node in nodes if node.body is not None]

    def remove(self, part: Node | Declaration | Block) -> bool:
        """Takes a part out; whether it was there. Unused inputs lose their values too."""
        if isinstance(part, Declaration):
            found = any(d is part for d in self.declarations)
            self.declarations = [d for d in self.declarations if d is not part]
            for step in self.steps:
                step.inputs.pop(part.name, None)
            return found
        if isinstance(part, Block):
            found = any(b is part for b in self.blocks)
            self.blocks = [b for b in self.blocks if b is not part]
            return found
        for nodes in self.bodies():
            for place, node in enumerate(nodes):
                if node is part:
                    del nodes[place]
                    return True
        return False

    @property
    def needs_package(self) -> bool:
        content = self.content
        return bool(content.tensors or content.metadata or content.sizevars)

    def package(self, folder: Path) -> oi.Package | None:
        """The package, written into a folder and opened; None for a program without one."""
        if not self.needs_package:
            return None
        path = folder / "weights.oinf"
        oi.write_oinf(self.content, path)
        return oi.open_model(path)
