"""The conversion of each dialect of the `threads` level to `llvm`: one file and one table per
dialect.

A rule is a function of the converter and one op. `lowering/cpu/convert_to_llvm.py` walks a function
once and looks the rule up by the op's name.
"""
