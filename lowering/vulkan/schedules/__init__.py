"""Device kernels: each op on buffers as what one invocation of a compute shader does."""
