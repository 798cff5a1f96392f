"""The command line: a thin layer that reads arguments, calls the library and prints."""

from fedsim.cli.main import app, main

__all__ = ["app", "main"]
