"""Prints constraints for pip, of the pyproject.toml and `.ci/tested.txt` of the working folder.

Without an argument: what `.ci/tested.txt` names, and extras in the series of their bounds, ``mypy>=2.4`` becoming
``mypy==2.4.*``. With ``lowest``: exactly the lower bounds of what everybody needs, ``numpy==2.0``.
"""

import re
import sys
import tomllib
from pathlib import Path


def bounds(requirements: list[str]) -> dict[str, str]:
    """Return the lower bound of each requirement, by name."""
    least = {}
    for requirement in sorted(set(requirements)):
        match = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?>=([0-9.]+)(?: *;.*)?", requirement)
        if match is None:
            raise SystemExit(
                f"pyproject.toml: {requirement!r} is not NAME>=VERSION, so it cannot be tested at its bound"
            )
        least[match[1]] = match[2]
    return least


def lowest(text: str) -> list[str]:
    """Return a line for each dependency in a pyproject.toml."""
    return [f"{name}=={least}" for name, least in bounds(tomllib.loads(text)["project"]["dependencies"]).items()]


def tested(text: str, named: str) -> list[str]:
    """Return the lines of `named`, and one for each requirement of the extras in a pyproject.toml."""
    extras = tomllib.loads(text)["project"]["optional-dependencies"].values()
    lines = [f"{name}=={least}.*" for name, least in bounds([each for extra in extras for each in extra]).items()]
    return [*(line for line in named.splitlines() if line[0] != "#"), *lines]


if __name__ == "__main__":
    project, named = (Path(name).read_text(encoding="utf-8") for name in ("pyproject.toml", ".ci/tested.txt"))
    lines = lowest(project) if sys.argv[1:] == ["lowest"] else tested(project, named)
    sys.stdout.writelines(f"{line}\n" for line in lines)
