"""Plain data as YAML that a person would have written."""

from io import StringIO
from typing import Any


def as_yaml(data: Any) -> str:
    """Return mappings, lists and scalars as YAML text, without an end of line."""
    from ruamel.yaml import YAML  # takes long to import

    yaml, text = YAML(), StringIO()
    yaml.default_flow_style = None
    yaml.width = 1000
    yaml.dump(data, text)
    return text.getvalue().rstrip("\n")
