"""Completes a program that uses forms of the first edition: what they leave unsaid is declared.

`model["…"]` becomes a declared constant, a name that `y = op …` defines becomes a temporary with an
inferred type, and a buffer that is used with an index becomes a table of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from openinfer.compiler.frontend.syntax import (
    Assign,
    Block,
    BlockCall,
    CacheRead,
    CacheReset,
    CacheWrite,
    Declaration,
    Item,
    Loop,
    Name,
    Node,
    Op,
    Program,
    Ref,
    Scope,
    Section,
    Type,
    walk,
)

SLOT = "index"
"""The index of a buffer."""


def complete(program: Program, links: Sequence[Declaration]) -> None:
    """Adds the declarations that the first edition does without. Changes the program."""
    indexed = {ref.name.text for block in program.blocks for ref in _indexed(block.body)}
    known = {d.name.text for section in program.sections for d in section.declarations}
    for block in program.blocks:
        for node in walk(block.body):
            if isinstance(node, Assign):
                known.add(node.name.text)
            elif isinstance(node, Loop):
                known.add(node.index.text)  # an error of its own
    items: list[Item] = []
    for item in program.items:
        if isinstance(item, Section):
            declarations = [_buffer(d, indexed) for d in item.declarations]
            items.append(replace(item, declarations=tuple(declarations)))
        elif isinstance(item, Block):
            # Temporaries of a block with parameters are anew for each call: it declares none.
            plain = item.parameters is None
            body = tuple(_assigned(item.body, set(known))) if plain else item.body
            items.append(replace(item, body=body))
        else:
            items.append(item)
    if links:
        items.insert(0, Section("constant", tuple(links), links[0].span))
    program.items = items
    program.sections = [item for item in items if isinstance(item, Section)]
    program.blocks = [item for item in items if isinstance(item, Block)]


def _indexed(body: Iterable[Node]) -> Iterable[Ref]:
    """The cache accesses of a body with brackets that are not empty."""
    for node in walk(body):
        match node:
            case CacheRead(source=ref) | CacheWrite(target=ref) | CacheReset(target=ref):
                if ref.slots:
                    yield ref
            case _:
                pass


def _buffer(declaration: Declaration, indexed: set[str]) -> Declaration:
    name = declaration.name
    if declaration.buffer and not declaration.indices and name.text in indexed:
        return replace(declaration, indices=(Name(SLOT, name.span),))
    return declaration


def _assigned(body: Iterable[Node], known: set[str]) -> list[Node]:
    """The body with an `assign` before the first definition of each name that is not `known`."""
    found: list[Node] = []
    for node in body:
        for target in _defined(node):
            name = target.name
            if name.text not in known:
                known.add(name.text)
                open_type = Type(Name("_", name.span), (), name.span)
                found.append(Assign(name, open_type, name.span, implied=True))
        if isinstance(node, Loop | Scope):
            node = replace(node, body=tuple(_assigned(node.body, known)))
        found.append(node)
    return found


def _defined(node: Node) -> tuple[Ref, ...]:
    """The targets of `y = op …` and `y = effect read(…)`."""
    match node:
        case Op(defines=True, outputs=outputs) | BlockCall(outputs=outputs):
            return outputs
        case CacheRead(defines=True, target=target):
            return (target,)
        case _:
            return ()
