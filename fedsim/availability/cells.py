"""Clients that are alike in law and clock: one cell for each time zone of each group."""

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from fedsim.availability.model import AvailabilityModel
from fedsim.availability.models import availability_models
from fedsim.availability.place import Place
from fedsim.common.arrays import Ints
from fedsim.population import Population, residence
from fedsim.scenario import Scenario


@dataclass(frozen=True)
class Cells:
    """The cells of a population, in the order of groups.

    Attributes
    ----------
    models, places
        Availability model and place of each cell.
    names
        Names of each cell's group and of its time zone.
    of_client
        (N,) cell of each client.
    """

    models: Sequence[AvailabilityModel]
    places: Sequence[Place]
    names: Sequence[tuple[str, str]]
    of_client: Ints


def cells(scenario: Scenario, population: Population, models: Sequence[AvailabilityModel] | None = None) -> Cells:
    """Return the cells of a scenario's population; `models` are those of its groups, if they are made already.

    Raises
    ------
    ScenarioError
        If a model cannot be made; every mistake with its place.
    """
    models = availability_models(scenario) if models is None else models
    group, zone, of_client = residence(population)
    places = [Place(scenario.start, ZoneInfo(name)) for name in population.zone_names]
    pairs = list(zip(group.tolist(), zone.tolist(), strict=True))
    return Cells(
        [models[each] for each, _ in pairs],
        [places[each] for _, each in pairs],
        [(population.group_names[each], population.zone_names[where]) for each, where in pairs],
        of_client,
    )
