"""What a command prints: data on stdout, everything else on stderr."""

import sys
from typing import Any


def say(text: str) -> None:
    """Print a line of data."""
    sys.stdout.write(text + "\n")


def say_json(data: Any) -> None:
    """Print data as JSON."""
    from fedsim.common.json_files import as_json

    sys.stdout.write(as_json(data))


def complain(text: str) -> None:
    """Tell a person something."""
    sys.stderr.write(text + "\n")
