"""From loops of an invocation to the `spirv` dialect."""
