"""What a compiled program needs to run: light, without the compiler."""
