"""Availability models by name, and those of a scenario's groups, made and ready to be asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Final

from pydantic import TypeAdapter

from fedsim.availability.model import AvailabilityModel
from fedsim.common.errors import KeyPath, Mistake, PluginError, ScenarioError
from fedsim.common.registry import Findings, OptionError, Registry
from fedsim.population.distributions import check_laws
from fedsim.scenario import Scenario
from fedsim.scenario.availability import Availability
from fedsim.scenario.component import Component, chosen
from fedsim.scenario.model import Model

MODELS: Final = Registry[AvailabilityModel](
    "an availability model",
    AvailabilityModel,
    {
        "always": "fedsim.availability.always:AlwaysAvailable",
        "renewal": "fedsim.availability.renewal:RenewalAvailability",
        "habits": "fedsim.availability.habits.model:HabitsAvailability",
        "trace": "fedsim.availability.trace.file:TraceFile",
    },
    offered=("members", "earlier", "locate"),
)
"""Offered to the constructors are `members`, the range of the group's clients; `earlier`, how many clients of groups
before it have the very same choice; and `locate`, which finds the file that the scenario calls so."""
_OF_A_GROUP = {"members", "earlier"}


@dataclass(frozen=True)
class Opened:
    """The availability models of a scenario.

    Attributes
    ----------
    models
        By the index of their group; only those that are as they should be. Groups with the same choice share one.
    mistakes
        What is wrong with the others.
    """

    models: dict[int, AvailabilityModel] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """What a person should know about them, one line each: the `notes` of those models that have any."""
        return list(dict.fromkeys(note for model in self.models.values() for note in getattr(model, "notes", ())))


def open_models(scenario: Scenario) -> Opened:
    """Make the availability model of each group, with what it reads, or say what is wrong with it."""
    opened, made, taken, first = Opened(), dict[str, AvailabilityModel](), dict[str, int](), 0
    for index, group in enumerate(scenario.population):
        choice, members = group.availability, range(first, first + group.devices)
        same = choice.model_dump_json()
        earlier, first = taken.get(same, 0), members.stop
        taken[same] = earlier + group.devices
        findings: Findings = []
        if same not in made and not (findings := _check(choice)):
            try:
                made[same] = build_model(choice, members=members, earlier=earlier, locate=scenario.locate)
            except OptionError as error:
                findings = [((error.option,), str(error))]
            except PluginError as error:
                findings = [(("kind",), str(error))]
        path: KeyPath = ("population", index, "availability")
        opened.mistakes.extend(scenario.mistake((*path, *inner), message) for inner, message in findings)
        if same in made:
            opened.models[index] = made[same]
            if _OF_A_GROUP & signature(type(made[same])).parameters.keys():
                del made[same]
    return opened


def availability_models(scenario: Scenario) -> list[AvailabilityModel]:
    """Return the availability model of each group.

    Raises
    ------
    ScenarioError
        If one cannot be made; every mistake with its place.
    """
    opened = open_models(scenario)
    if opened.mistakes:
        raise ScenarioError(opened.mistakes)
    return [opened.models[index] for index in range(len(scenario.population))]


def build_model(choice: Model | str | Mapping[str, Any], **offered: object) -> AvailabilityModel:
    """Return the availability model of a scenario's choice, or of one as it is written there.

    Parameters
    ----------
    choice
        ``habits``, ``{"kind": "renewal", "on": "8h", "off": "16h"}``, or what became of it in a scenario.
    offered
        As told at `MODELS`.

    Raises
    ------
    OptionError
        If one of its options turns out to be wrong.
    PluginError
        If it cannot be made for another reason.
    """
    written = choice if isinstance(choice, Model) else TypeAdapter[Any](Availability).validate_python(choice)
    kind, options = chosen(written)
    return MODELS.build(kind, options, **offered)


def _check(choice: Model) -> Findings:
    """Return what is wrong with people's own: the model, or the laws that a built-in one names."""
    return MODELS.check(choice.kind, choice.options) if isinstance(choice, Component) else check_laws(choice)
