"""Every role that can be registered has its built-in implementations behind the same door."""

from importlib import import_module

import pytest

from fedsim.common.registry import Registry
from fedsim.scenario.roles import ROLES


@pytest.mark.parametrize("role", ROLES)
def test_built_in_ones_come_through_the_door(role: str) -> None:
    module, _, name = ROLES[role].partition(":")
    registry = getattr(import_module(module), name)
    assert isinstance(registry, Registry)
    assert registry.noun == role
    assert [isinstance(registry.find(kind), type) for kind in registry] == [True] * len(registry)
    # Charts of every page are functions, and no kind that a scenario can name: only one's own come this way.
    assert len(registry) > 0 or role == "chart"
