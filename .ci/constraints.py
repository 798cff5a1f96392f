"""Prints constraints for pip that keep dependencies in the series of their lower bounds: what CI then tests is that.

``polars>=2.1`` becomes ``polars==2.1.*``. Reads pyproject.toml of the working folder. Left out are those whose lowest
versions are what Flower takes, beside which they are tested (`.ci/frameworks`).
"""

import re
import sys
import tomllib
from pathlib import Path

BESIDE_FLOWER = ("rich", "typer")


def constraints(text: str) -> list[str]:
    """Return a line for each other dependency in a pyproject.toml, extras included."""
    project = tomllib.loads(text)["project"]
    listed = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    lines = []
    for requirement in sorted(set(listed)):
        found = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?>=([0-9.]+)(?: *;.*)?", requirement)
        if found is None:
            raise SystemExit(
                f"pyproject.toml: {requirement!r} is not NAME>=VERSION, so it cannot be tested at its bound"
            )
        if found[1] not in BESIDE_FLOWER:
            lines.append(f"{found[1]}=={found[2]}.*")
    return lines


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in constraints(Path("pyproject.toml").read_text(encoding="utf-8")))
