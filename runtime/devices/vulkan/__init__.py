"""Vulkan: the host half of a step runs on the CPU, its kernels on a device of a Vulkan driver."""
