"""Availability models by name, and those of a scenario's groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import TypeAdapter

from fedsim.availability.model import AvailabilityModel
from fedsim.common.errors import KeyPath, Mistake, PluginError, ScenarioError
from fedsim.common.registry import Findings, OptionError, Registry, signature_of
from fedsim.population.distributions import check_distributions
from fedsim.scenario import Scenario
from fedsim.scenario.component import Choice, Component
from fedsim.scenario.group import Availability

MODELS: Final = Registry[AvailabilityModel](
    "an availability model",
    AvailabilityModel,
    {
        "always": "fedsim.availability.always:AlwaysAvailable",
        "renewal": "fedsim.availability.renewal:RenewalAvailability",
        "habits": "fedsim.availability.habits.together:HabitsAvailability",
        "trace": "fedsim.availability.trace.recorded:TraceFile",
    },
    offered=("members", "earlier", "locate"),
    at="population.0.availability",
    chance="draw from draws.uniforms(client, index)",
)
"""Constructors are offered `members`, the range of the group's clients; `earlier`, how many clients of groups before it
have the same choice; and `locate`, which finds a file that the scenario names."""
_OF_A_GROUP = {"members", "earlier"}


@dataclass(frozen=True)
class Opened:
    """The availability models of a scenario by the index of their group, and the mistakes of those that cannot be made.

    Groups with the same choice share a model.
    """

    models: dict[int, AvailabilityModel] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """Notes of the models for the user, one line each."""
        return list(dict.fromkeys(note for model in self.models.values() for note in getattr(model, "notes", ())))


def open_models(scenario: Scenario) -> Opened:
    """Make the availability model of each group with what it reads, or return what is wrong with it."""
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
            if _OF_A_GROUP & signature_of(type(made[same])).parameters.keys():
                del made[same]
    return opened


def availability_models(scenario: Scenario) -> list[AvailabilityModel]:
    """Return the availability model of each group.

    Raises a `ScenarioError` if one cannot be made; every mistake with its place.
    """
    opened = open_models(scenario)
    if opened.mistakes:
        raise ScenarioError(opened.mistakes)
    return [opened.models[index] for index in range(len(scenario.population))]


def build_model(choice: Choice | str | Mapping[str, Any], **offered: object) -> AvailabilityModel:
    """Return the availability model of a choice, from a scenario or as written: ``{"kind": "renewal", ...}``.

    `offered` are those that `MODELS` names. Raises an `OptionError` if an option is wrong, and a `PluginError` if it
    cannot be made for another reason.
    """
    written = choice if isinstance(choice, Choice) else TypeAdapter[Any](Availability).validate_python(choice)
    return MODELS.build(written.kind, written.options, **offered)


def _check(choice: Choice) -> Findings:
    """Return the mistakes in a user's own model, or in the users' own laws of a built-in one."""
    return MODELS.check(choice.kind, choice.options) if isinstance(choice, Component) else check_distributions(choice)
