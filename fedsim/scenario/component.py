"""What people bring: a kind of their own beside the built-in ones, with options that its class takes."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple, Union, get_args

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema

from fedsim.common.errors import KeyPath
from fedsim.common.registry import brought
from fedsim.scenario.model import Model

KNOWN, OWN = "known", "own"
"""Tags of the built-in kinds and of one's own in a union that is open to both."""


class Component(Model):
    """Something by name: one that fedsim or an installed package knows, or ``package.module:Name``; and its options."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, Field(min_length=1)]
    """A known name, or ``package.module:Name`` for one of your own."""

    @property
    def options(self) -> dict[str, Any]:
        """The keys beside `kind`."""
        return dict(self.model_extra or {})


class Kinds(NamedTuple):
    """Marks a union of models that are told apart by their `kind`; a `Component` among them is for one's own kinds.

    Attributes
    ----------
    read
        Turns the short form into that which it stands for, and leaves all else.
    short
        The type of the short form.
    """

    read: Callable[[Any], Any]
    short: Any

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return how pydantic validates it."""
        members = get_args(union)
        known = tuple(model for model in members if not issubclass(model, Component))
        choice: Any = Annotated[Union[known], Discriminator("kind")] if len(known) > 1 else known[0]  # noqa: UP007
        written = self.short | choice
        for own in set(members).difference(known):
            written |= own
            choice = Annotated[Annotated[choice, Tag(KNOWN)] | Annotated[own, Tag(OWN)], _open_to_own(known)]
        return handler.generate_schema(Annotated[choice, BeforeValidator(self.read, json_schema_input_type=written)])


def _open_to_own(known: tuple[type[Model], ...]) -> Discriminator:
    """Return what tells the built-in kinds of a union from one's own."""
    kinds = {kind for model in known for kind in get_args(model.model_fields["kind"].annotation)}

    def tag(value: Any) -> str:
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        return OWN if isinstance(kind, str) and kind not in kinds and brought(kind) else KNOWN

    return Discriminator(tag)


def chosen(choice: Model) -> tuple[str, dict[str, Any]]:
    """Return the kind that a model with a `kind` names, and the options beside it."""
    if isinstance(choice, Component):
        return choice.kind, choice.options
    options = {name: getattr(choice, name) for name in type(choice).model_fields}
    return options.pop("kind"), options


def components(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Component]]:
    """Yield what a part of the scenario names of people's own, wherever in it, each with its path."""
    if isinstance(value, Component):
        yield path, value
    elif isinstance(value, Model):
        for name in type(value).model_fields:
            yield from components(getattr(value, name), (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from components(each, (*path, index)) if isinstance(each, Model) else ()
