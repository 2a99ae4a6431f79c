"""Syntax of ops that is read when it is first used."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import Builtin, ModuleOp, StringAttr, i32
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from openinfer.compiler import registry
from openinfer.dialects.late_syntax import READ_SYNTAX, op_definition


@op_definition
class Named(IRDLOperation):
    name = "late.named"
    value = operand_def(i32)
    text = prop_def(StringAttr)
    result = result_def(i32)
    assembly_format = "$value `as` $text attr-dict"


TEXT = '%0 = "test.op"() : () -> i32\n  %1 = late.named %0 as "x"'


def test_an_op_is_parsed_and_printed_by_its_syntax() -> None:
    context = Context()
    for dialect in (Builtin, test.Test, Dialect("late", [Named])):
        context.load_dialect(dialect)
    module = Parser(context, f"builtin.module {{\n  {TEXT}\n}}").parse_module()
    module.verify()
    assert str(module) == f"builtin.module {{\n  {TEXT}\n}}"


def test_a_class_keeps_its_syntax_and_an_op_without_one_has_the_generic_form() -> None:
    assert Named.get_irdl_definition().assembly_format == Named.assembly_format

    @op_definition
    class Plain(IRDLOperation):
        name = "late.plain"

    assert not hasattr(Plain, READ_SYNTAX)
    assert '"late.plain"()' in str(ModuleOp([Plain()]))


def test_a_mistake_in_a_syntax_is_found_when_it_is_used() -> None:
    @op_definition
    class Wrong(IRDLOperation):
        name = "late.wrong"
        value = operand_def(i32)
        assembly_format = "$valu attr-dict"

    value = test.TestOp(result_types=[i32]).results[0]
    with pytest.raises(ParseError, match="valu"):
        str(Wrong.create(operands=[value]))


def test_the_syntax_of_all_ops_can_be_read() -> None:
    read = 0
    for load in registry.dialect_loaders().values():
        for op in load().operations:
            if hasattr(op, READ_SYNTAX):
                getattr(op, READ_SYNTAX)()
                read += 1
    assert read > 80
