"""Checks of declarations with indices: what the indices select, and the attributes that say it."""

from __future__ import annotations

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.report import Report, did_you_mean
from openinfer.compiler.frontend.symbols import is_open


def check_table(declaration: syntax.Declaration, memory: str, report: Report) -> None:
    """The indices of a declaration: named once, and explained by an attribute."""
    seen: dict[str, syntax.Name] = {}
    for index in declaration.indices:
        if first := seen.get(index.text):
            report.error(
                "OI0207",
                index.span,
                f"index `{index.text}` is named twice",
                fix="rename one of them",
                notes=[("first named here", first.span)],
            )
        seen[index.text] = index
    attributes = {a.name.text: a for a in declaration.attributes}
    if declaration.buffer:
        _check_buffer(declaration, attributes, report)
    elif declaration.indices:
        _check_explained(declaration, memory, set(attributes), report)
    if memory == "persistent" and "auto_dim" in attributes:
        _check_matrix(declaration, attributes, report)


def _check_explained(
    declaration: syntax.Declaration, memory: str, attributes: set[str], report: Report
) -> None:
    """Indices need an attribute that says what they select."""
    name, span = declaration.name.text, declaration.name.span
    if memory == "dynamic":
        report.error(
            "OI0252",
            span,
            f"dynamic variable `{name}` cannot have indices",
            fix=f"give `{name}` one more dimension",
        )
    elif memory == "persistent" and not attributes & {"table", "auto_dim"}:
        report.error(
            "OI0252",
            span,
            f"persistent `{name}` has indices, so it must say what they select",
            fix="add `@table` or `@auto_dim(…)`",
        )
    elif memory in ("volatile", "constant") and not attributes & {"pattern", "ref"}:
        indices = "".join(f".{{{index.text}}}" for index in declaration.indices)
        report.error(
            "OI0252",
            span,
            f"`{name}` stands for several tensors of the package, but nothing says their names",
            fix=f'add `@pattern("{name}{indices}")`',
        )


def _check_buffer(
    declaration: syntax.Declaration, attributes: dict[str, syntax.Attribute], report: Report
) -> None:
    """A buffer has one index of its own, which is not written."""
    for name in ("table", "auto_dim", "fixed"):
        if name in attributes:
            report.error(
                "OI0255",
                attributes[name].span,
                f"@{name} on a buffer, which is a table by itself",
                fix=f"remove it, or declare `{declaration.name.text}(i): f32[D] @table;`",
            )
    written = [i for i in declaration.indices if i.span != declaration.name.span]
    if written:
        report.error(
            "OI0255",
            written[0].span,
            "a buffer declares no indices: `index=` selects one of its slots",
            fix=f"remove them, or declare `{declaration.name.text}(i): f32[D] @table;`",
        )


def _check_matrix(
    declaration: syntax.Declaration, attributes: dict[str, syntax.Attribute], report: Report
) -> None:
    """Table indices first, then those of `@auto_dim`, in its order."""
    auto = attributes["auto_dim"]
    named = [a.text for a in auto.arguments or () if isinstance(a, syntax.Name)]
    indices = [index.text for index in declaration.indices]
    name = declaration.name.text
    if not named or set(named) - set(indices) or len(set(named)) != len(named):
        return  # reported already
    rest = [index for index in indices if index not in named]
    if indices != [*rest, *named]:
        report.error(
            "OI0255",
            auto.span,
            f"the indices of @auto_dim come last in `{name}({', '.join(indices)})`, in their order",
            fix=f"write `{name}({', '.join([*rest, *named])})`",
        )
    elif rest and "table" not in attributes:
        report.error(
            "OI0255",
            declaration.name.span,
            f"`{rest[0]}` of `{name}` is not in @auto_dim, so it selects an entry of a table",
            fix="add `@table`, or name the index in @auto_dim",
        )
    elif not rest and "table" in attributes:
        report.error(
            "OI0255",
            attributes["table"].span,
            f"@auto_dim takes all indices of `{name}`, so none is left for @table",
            fix="remove @table, or add an index in front",
        )
    for dim in declaration.type.dims:
        if is_open(dim):
            report.error(
                "OI0305",
                dim.span,
                "a dimension that grows needs a size to start from, found `_`",
                fix="write the size, or 0",
            )


def check_index_arguments(
    attribute: syntax.Attribute, declaration: syntax.Declaration, report: Report
) -> None:
    """`@auto_dim(i, j)` and `@fixed(i=4)`."""
    name, arguments = attribute.name.text, attribute.arguments or ()
    indices = [index.text for index in declaration.indices]
    usage = "@auto_dim(i, j)" if name == "auto_dim" else "@fixed(i=1024)"
    if not arguments:
        malformed(attribute, "requires at least one index", usage, report)
        return
    seen: set[str] = set()
    for argument in arguments:
        if name == "auto_dim" and isinstance(argument, syntax.Name):
            index = argument
        elif (
            name == "fixed"
            and isinstance(argument, syntax.Setting)
            and isinstance(argument.value, syntax.Literal)
            and type(argument.value.value) is int
            and argument.value.value >= 0
        ):
            index = argument.name
        else:
            malformed(attribute, "has an argument of another form", usage, report)
            return
        if index.text not in indices or index.text in seen:
            problem = "is named twice" if index.text in seen else "is no index"
            report.error(
                "OI0257",
                index.span,
                f"`{index.text}` in @{name} {problem} of `{declaration.name.text}`",
                fix=did_you_mean(index.text, set(indices) - seen, f"indices: {', '.join(indices)}"),
            )
        seen.add(index.text)
    if name == "auto_dim" and len(arguments) != len(declaration.type.dims):
        report.error(
            "OI0257",
            attribute.span,
            f"@auto_dim names {len(arguments)} of the dimensions, the type has "
            f"{len(declaration.type.dims)}",
            fix="name one index for each dimension",
        )


def malformed(attribute: syntax.Attribute, what: str, usage: str, report: Report) -> None:
    """Reports an attribute with other arguments than it takes."""
    report.error("OI0253", attribute.span, f"@{attribute.name.text} {what}", fix=f"write `{usage}`")
