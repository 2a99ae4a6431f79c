"""Programs to read and run; `examples/README.md` says what each of them shows."""
