"""From the `loops` level to the `llvm` dialect, its text, and machine code."""
