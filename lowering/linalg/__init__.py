"""Level `linalg`: loops over elements, fusion, layouts of weights."""
