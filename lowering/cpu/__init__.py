"""From the `threads` level to the `llvm` dialect, its text, and machine code."""
