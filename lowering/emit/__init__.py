"""Device kernels as source text: GLSL compute shaders."""
