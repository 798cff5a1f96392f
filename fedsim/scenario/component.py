"""What people bring: a kind of their own beside the built-in ones, with options that its class takes."""

from collections.abc import Iterator
from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Discriminator, Field

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


def open_to_own(*known: type[Model]) -> Discriminator:
    """Return what tells the built-in kinds of a union from one's own.

    Parameters
    ----------
    known
        Its models, each with a literal `kind`.
    """
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
