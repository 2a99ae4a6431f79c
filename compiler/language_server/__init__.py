"""The language server: what an editor asks about a program text. Only `server.py` speaks the protocol."""
