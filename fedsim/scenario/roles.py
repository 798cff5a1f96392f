"""What people can bring, by role: this room names the roles, and it alone imports the later rooms that fill them."""

from importlib import import_module
from typing import Any, Final

from fedsim.common.registry import Registry

ROLES: Final = {
    "availability model": "fedsim.availability.kinds:MODELS",
    "chart": "fedsim.pages.charts:CHARTS",
    "law": "fedsim.population.distributions:DISTRIBUTIONS",
    "matching policy": "fedsim.selection.matching:POLICIES",
    "metric": "fedsim.measure.metrics:METRICS",
    "optimizer": "fedsim.learning.optimizers:OPTIMIZERS",
    "privacy mechanism": "fedsim.privacy.mechanisms:MECHANISMS",
    "problem": "fedsim.learning.problems:PROBLEMS",
    "selection law": "fedsim.selection.laws:LAWS",
    "server update": "fedsim.learning.server_updates:SERVER_UPDATES",
}


def registry_of(role: str) -> Registry[Any]:
    """Return the registry of a role, such as ``optimizer``; the room that has it is imported now."""
    module, _, name = ROLES[role].partition(":")
    registry: Registry[Any] = getattr(import_module(module), name)
    return registry
