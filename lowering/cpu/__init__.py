"""The CPU: from level `kernels` through threads to the `llvm` dialect, its text, and machine code."""
