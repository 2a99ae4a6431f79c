"""The dialects of the IR: definitions only, no passes."""
