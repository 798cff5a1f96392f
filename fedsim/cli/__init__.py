"""The command line: a thin layer that reads arguments, calls the library and prints."""

from fedsim.cli.main import app, run_app

__all__ = ["app", "run_app"]
