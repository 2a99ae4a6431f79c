"""How types, constants and instructions of the `llvm` dialect are spelled in LLVM IR text."""
