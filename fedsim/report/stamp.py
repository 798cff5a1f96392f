"""What tells a page that is out of date: which scenario it shows, and which templates made it."""

import hashlib
import json
from functools import cache
from importlib.resources import files

from fedsim.report.finished_run import Json

_DIGITS = 16


@cache
def page_version() -> str:
    """Return a hash of the templates, the style and the scripts that pages are made with."""
    digest = hashlib.sha256()
    for file in sorted((files("fedsim.report") / "templates").iterdir(), key=lambda file: file.name):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:_DIGITS]


def scenario_version(resolved: Json) -> str:
    """Return a hash of a resolved scenario, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()[:_DIGITS]
