"""Level `linalg`: loops over elements, fusion, packing, buffers."""
