"""The device half, measured: `python -m benchmarks.vulkan`."""
