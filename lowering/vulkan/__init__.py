"""The machine `vulkan`: SPIR-V words and their text."""
