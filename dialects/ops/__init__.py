"""The op registry's rows, one file per family; `openinfer.dialects.opset` gathers them."""
