"""The kernels of the CPU: one file for each kind of op, found by `lower-kernels`."""
