"""One file per subcommand of `openinfer`: `HELP`, `add_arguments(parser)` and `run(args)`."""
