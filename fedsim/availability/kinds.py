"""The availability of each group, ready to be asked: the scenario's models, with traces read from their files."""

from fedsim.availability.model import Kind
from fedsim.availability.trace.load import open_traces
from fedsim.common.errors import ScenarioError
from fedsim.scenario import Scenario
from fedsim.scenario.trace import Trace


def kinds(scenario: Scenario) -> list[Kind]:
    """Return what `intervals`, `conditions` and `available_at` take, one for each group.

    Raises
    ------
    ScenarioError
        If a trace cannot be used; every mistake with its place.
    """
    opened = open_traces(scenario)
    if opened.mistakes:
        raise ScenarioError(opened.mistakes)
    models = (group.availability for group in scenario.population)
    return [opened.replays[index] if isinstance(model, Trace) else model for index, model in enumerate(models)]
