"""Prints the test files and folders that a change in one room of the package can affect: `make test ROOM=theory`.

Those of the room, of every room that imports it, directly or through others, and of no room (the files in ``tests``).
"""

import sys
from pathlib import Path

from tests.test_layers import ROOMS, imports, modules, room

ROLES = "fedsim.scenario.roles"


def rooms_affected(changed: str) -> set[str]:
    """Return a room and all rooms that import it, directly or through others."""
    files = modules()
    pairs = {
        (room(each.by), room(each.of))
        for name, file in files.items()
        for each in imports(name, file.read_text(encoding="utf-8"), files)
        if name != ROLES  # it imports a registry when it is asked for a role, and each room has tests of its own kinds
    }
    affected = {changed}
    while more := {by for by, of in pairs if by and of in affected} - affected:
        affected |= more
    return affected


def what_to_run(changed: str) -> list[Path]:
    """Return the tests to run after a change in a room, as arguments of pytest."""
    left_out = set(ROOMS) - rooms_affected(changed)
    folders = [each for each in sorted(Path("tests").iterdir()) if each.is_dir() and any(each.rglob("test_*.py"))]
    return [*(each for each in folders if each.name not in left_out), *sorted(Path("tests").glob("test_*.py"))]


def main(changed: str) -> None:
    """Print the arguments on one line."""
    if changed not in ROOMS:
        raise SystemExit(f"{changed!r} is no room of fedsim; there are: {', '.join(ROOMS)}")
    sys.stdout.write(" ".join(map(str, what_to_run(changed))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
