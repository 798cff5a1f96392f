"""What a scenario names by its `kind`: what comes with fedsim, and one's own, each with its options.

The models of what comes with fedsim are made from the classes in the registries: the arguments of a constructor are the
keys, with its annotations and defaults; the strings after the attributes of the class describe them.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    Tag,
    TypeAdapter,
    ValidationInfo,
    WrapSerializer,
    create_model,
    model_validator,
)
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fedsim.common.errors import KeyPath
from fedsim.common.registry import Registry, installed, is_own
from fedsim.scenario.permissions import CodeName, FileName
from fedsim.scenario.roles import registry_of
from fedsim.scenario.strict import Model, short_kind


class _Own:
    """Marks a kind of one's own in the JSON Schema: what an installed package brings is known by its name there."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = {**handler(core), "pattern": ":"}
        return {"anyOf": [schema, {"enum": sorted(installed())}]} if installed() else schema


OwnKind = Annotated[str, Field(min_length=1), _Own()]


class Choice(Model):
    """Something that is named by its kind, with its options."""

    kind: Annotated[str, Field(min_length=1)]

    @property
    def options(self) -> dict[str, Any]:
        """The keys beside `kind`."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "kind"}

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the options of models that are made from constructors


class Component(Choice):
    """Something by name: one that fedsim or an installed package knows, or ``package.module:Name``; and its options."""

    model_config = ConfigDict(extra="allow")

    kind: OwnKind
    """A known name, or ``package.module:Name`` for one of your own."""

    _role: str = PrivateAttr("")  # of the registry that has its kind, where a scenario has put it

    @property
    def options(self) -> dict[str, Any]:
        """The keys beside `kind`."""
        return dict(self.model_extra or {})

    @property
    def registry(self) -> Registry[Any]:
        """The registry that has its kind, where a scenario has put it."""
        return registry_of(self._role)

    @property
    def typed_options(self) -> dict[str, Any] | None:
        """The further keys as a class that comes with fedsim wants them; None of another one, which is not imported."""
        registry = registry_of(self._role) if self.model_extra and self._role else None
        if registry is not None and self.kind in registry.built_in:
            return registry.typed(self.kind, self.model_extra or {})
        return None if self.model_extra else {}


def _with_role(role: str) -> AfterValidator:
    def give(component: Component) -> Component:
        component._role = role
        return component

    return AfterValidator(give)


@dataclass(frozen=True, eq=False)
class Use:
    """What becomes of a registry's classes in one place of the scenario."""

    name: str = ""  # classes with an attribute `uses` that lacks it are left out; the names of models end with it
    types: Mapping[str, Any] = field(default_factory=dict)  # by the marks in annotations of constructors
    defaults: bool = True  # whether the defaults of arguments with such marks hold
    drawn: type[Model] | None = None  # a further base of the models, unless the class has the attribute `fixed`
    unit: str = ""  # of the values; where there is one, `check_options` is given it, for its messages

    def __post_init__(self) -> None:
        _USES[self.name] = self


_USES: dict[str, Use] = {}


class BuiltIn(Choice):
    """A choice of what comes with fedsim; in a union with `Kinds` it stands for all of them."""

    implementation: ClassVar[type]
    role: ClassVar[str]
    use: ClassVar[Use]
    registered: ClassVar[str]
    """Name in the registry; several that are used in different places may have the same kind."""

    @model_validator(mode="after")
    def _check_further(self) -> Self:
        if (further := getattr(self.implementation, "check_options", None)) is not None:
            for _, message in further(self.options, self.use.unit) if self.use.unit else further(self.options):
                raise ValueError(message)
        return self

    def __reduce__(self) -> Any:
        # The class is made anew in every process.
        return _restored, (self.role, self.use.name, self.registered, self.__dict__, self.model_fields_set)


def _restored(role: str, use: str, registered: str, values: dict[str, Any], given: set[str]) -> Choice:
    return _model_of(registered, role, _USES[use]).model_construct(given, **values)


@cache
def _model_of(name: str, role: str, use: Use) -> type[BuiltIn]:
    registry = registry_of(role)
    implementation = registry[name]
    fields: dict[str, Any] = {}
    for option, (hint, default) in registry.options_of(implementation).items():
        fields[option] = (hint, default)
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, str) and mark in use.types:
                fields[option] = (use.types[mark], default if use.defaults else ...)
    fields["kind"] = (Literal[getattr(implementation, "kind", name)], ...)
    is_drawn = use.drawn is not None and not getattr(implementation, "fixed", False)
    bases: Any = (BuiltIn, use.drawn) if is_drawn else BuiltIn
    made: type[BuiltIn] = _constructed(implementation, use.name.replace("_", " "), bases, fields)
    made.role, made.use, made.registered = role, use, name
    return made


def _constructed(implementation: type, use: str, bases: Any, fields: Mapping[str, Any]) -> Any:
    """Return the model of a kind: its fields are the arguments of a constructor, and its words those of the class."""
    words = (implementation.__doc__ or "").partition("\n\n")[0]
    title = implementation.__name__ + use.title().replace(" ", "")
    made: Any = create_model(title, __base__=bases, __doc__=words, **fields)
    made.implementation = implementation  # type: ignore[attr-defined]
    return made


@dataclass(frozen=True)
class _Whole:
    """Gives what is validated by a function the JSON Schema of what that validates by."""

    schema: Callable[[], CoreSchema]

    def __get_pydantic_json_schema__(self, _core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self.schema())


@dataclass(frozen=True, eq=False)
class Kinds:
    """Marks a union of models that are told apart by their `kind`.

    `BuiltIn` before them stands for what else comes with fedsim, a `Component` for one's own kinds.
    """

    read: Callable[[Any], Any] = short_kind  # turns the short form into a mapping, and leaves all else
    short: Any = None  # the type of the short form; by default the kinds that need no options
    role: str = ""  # of the registry whose classes stand for `BuiltIn`
    use: Use = Use()
    of_one: bool = False  # leave out classes with the attribute `of_a_group`: their values depend on how many there are

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return how pydantic validates it: the models are made for the first value, and most runs give few of them."""
        whole = cache(lambda: TypeAdapter[Any](self._choice_of(union)))

        def validate(value: Any, info: ValidationInfo) -> Any:
            return whole().validate_python(value, context=info.context)

        shown = _Whole(lambda: whole().core_schema)
        return handler.generate_schema(Annotated[Any, PlainValidator(validate), WrapSerializer(_written), shown])

    def _choice_of(self, union: Any) -> Any:
        """Return the choice between the models of all kinds."""
        members = get_args(union)
        written_out = [each for each in members if each is not BuiltIn and not issubclass(each, Component)]
        kinds: dict[str, type[BaseModel]] = {kind: each for each in written_out for kind in _kinds_of(each)}
        built_in = self._built_in(kinds) if BuiltIn in members else ()
        kinds = {kind: each for each in built_in for kind in _kinds_of(each)} | kinds
        models = tuple(dict.fromkeys(kinds.values()))
        choice: Any = Annotated[Union[models], Discriminator("kind")] if len(models) > 1 else models[0]  # noqa: UP007
        written = self.short if self.short is not None else _bare(kinds)
        written |= choice
        for member in members:
            if issubclass(member, Component):
                written |= member | OwnKind if self.read is short_kind else member
                choice = Annotated[
                    Annotated[choice, Tag("known")] | Annotated[member, _with_role(self.role), Tag("own")],
                    _open_to_own(kinds),
                ]
        return Annotated[choice, BeforeValidator(self.read, json_schema_input_type=written)]

    def _built_in(self, written_out: Container[str]) -> Iterator[type[BuiltIn]]:
        registry = registry_of(self.role)
        for name in registry.built_in:
            if name in written_out:
                continue
            implementation = registry[name]
            fits = self.use.name in getattr(implementation, "uses", (self.use.name,))
            if fits and not (self.of_one and getattr(implementation, "of_a_group", False)):
                yield _model_of(name, self.role, self.use)


def _written(value: Any, handler: SerializerFunctionWrapHandler) -> Any:
    if isinstance(value, BaseModel):
        type(value).model_rebuild()  # pydantic 2.11 writes no model that is still to be built
    return handler(value)


def _kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    return get_args(model.model_fields["kind"].annotation)


def _open_to_own(kinds: Container[str]) -> Discriminator:
    """Return what tells the built-in kinds of a union from one's own."""

    def tag(value: Any) -> str:
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        return "own" if isinstance(kind, str) and kind not in kinds and is_own(kind) else "known"

    return Discriminator(tag)


def _bare(kinds: Mapping[str, type[BaseModel]]) -> Any:
    """Return the type of the kinds that need no options, which may be written as a word."""
    needy = {
        kind
        for kind, model in kinds.items()
        if any(each.is_required() for name, each in model.model_fields.items() if name != "kind")
    }
    return Literal[tuple(kind for kind in kinds if kind not in needy)]


@dataclass(frozen=True)
class Named:
    """Marks a component whose options are checked when it is used; a bare word is its kind."""

    role: str  # its registry is imported for the JSON Schema alone

    def __get_pydantic_core_schema__(self, component: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return how pydantic validates it."""
        read, shown = BeforeValidator(short_kind), _Kept(self.role, component)
        return handler.generate_schema(Annotated[component, _with_role(self.role), read, shown])


_PLAIN = (bool, int, float, str, tuple, type(None))


@dataclass(frozen=True)
class _Kept:
    """Gives a component in the JSON Schema the kinds of a registry, with their options."""

    role: str
    component: type[Component]

    def __get_pydantic_json_schema__(self, _core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        registry = registry_of(self.role)
        kinds = {name: self._model_of(name, registry[name]) for name in registry.built_in}
        written: Any = OwnKind | self.component
        if kinds:
            written = _bare(kinds) | Annotated[Union[tuple(kinds.values())], Discriminator("kind")] | written  # noqa: UP007
        return handler(TypeAdapter(written).core_schema)

    def _model_of(self, name: str, implementation: type) -> Any:
        class Closed(self.component):  # type: ignore[misc, name-defined]
            model_config = ConfigDict(extra="forbid")

        fields: dict[str, Any] = {"kind": (Literal[name], ...)}
        for option, (hint, default) in registry_of(self.role).options_of(implementation).items():
            plain = default is ... or isinstance(default, _PLAIN)
            fields[option] = (hint, default if plain else Field(default_factory=list))
            try:
                TypeAdapter(hint)
            except PydanticSchemaGenerationError:  # an array, which no file can have
                fields[option] = (Any, fields[option][1])
        return _constructed(implementation, self.role, Closed, fields)


_WITH_PARTS = (BaseModel, dict, list, tuple)


def all_in(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield a part of the scenario and all that is in it, each with its path; options of components are typed."""
    yield path, value
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, BaseModel):
        typed = value.typed_options if isinstance(value, Component) else None
        items = ({**value.__dict__, **typed} if typed else value.__dict__).items()
    elif isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for key, each in items:
        if isinstance(each, _WITH_PARTS):
            yield from all_in(each, (*path, key))
        else:
            yield (*path, key), each


def components(value: Any) -> Iterator[tuple[KeyPath, Component]]:
    """Yield what a part of the scenario names of people's own, wherever in it, each with its path."""
    return ((path, each) for path, each in all_in(value) if isinstance(each, Component))


def words_of(value: Any) -> Iterator[tuple[KeyPath, str]]:
    """Yield every word of a part of the scenario that names code or a file, and those that may, as `Words` says."""
    for path, each in all_in(value):
        if isinstance(each, str):
            if isinstance(each, CodeName | FileName):
                yield path, each
        elif isinstance(each, Component):
            yield (*path, "kind"), CodeName(each.kind)
            if each.typed_options is None:
                yield from (((*path, *at), text) for at, text in all_in(each.model_extra) if isinstance(text, str))
