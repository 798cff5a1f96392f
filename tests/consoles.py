"""The script that runs the consoles of pages, for tests to use."""

import sys
from importlib import import_module
from typing import Any

sys.path.append("docs")
consoles: Any = import_module("consoles")
