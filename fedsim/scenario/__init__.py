"""The scenario file: its format as pydantic models, its reading with positions, overrides and JSON Schema."""

from fedsim.scenario.models import Scenario, scenario_schema
from fedsim.scenario.starter import starter

__all__ = ["Scenario", "scenario_schema", "starter"]
