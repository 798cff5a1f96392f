"""Registries: laws, models, metrics, charts, optimizers and the like by name.

A ``kind`` is a registered name (``fedavg``), the name of an entry point that an installed package has in the group
``fedsim.plugins``, or a class of the user's own (``my_package.my_module:MyOptimizer``), which is imported. Its options
are the arguments of its constructor, which are checked against the annotations there in pydantic's strict mode. A class
may check more by a static method ``check_options``, which takes the options and returns pairs (path, message).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Generic, TypeAlias, TypeVar, get_type_hints

from fedsim.common.arguments import IN_A_FILE
from fedsim.common.errors import FedsimError, KeyPath, PluginError, dotted, line_of, told, users_line
from fedsim.common.hints import did_you_mean

Findings: TypeAlias = list[tuple[KeyPath, str]]
"""Mistakes in a choice: pairs (path, message), the path relative to the choice's mapping: ``("kind",)``."""

GROUP = "fedsim.plugins"
"""Entry points of installed packages in this group are known by their names."""


class OptionError(FedsimError):
    """An option, by its name, that turns out to be wrong when it is used; a constructor may raise it."""

    def __init__(self, option: str, message: str) -> None:
        self.option = option
        super().__init__(message)


_REGISTERED: set[str] = set()  # names that this process registered, whatever for

_T = TypeVar("_T")
_C = TypeVar("_C", bound=type)


class Registry(Mapping[str, type[_T]], Generic[_T]):
    """All implementations of one role, by name; a mapping from the names that are known without ``module:Class``.

    `noun` says what it is, with its article: ``an optimizer``. An implementation must have the methods of `protocol`,
    and its properties as attributes. `builtin` holds ``module:Class`` by name; each is imported when it is first used.
    The scenario gives the arguments `given` to every constructor, those `offered` to the constructors that have them;
    `beside` are the keys that it has for every implementation, in addition to the options. `error` is what is raised.
    `at` is where a scenario names one, with [] where that is a list; `chance` says what is right instead of draws
    without a seed.
    """

    def __init__(
        self,
        noun: str,
        protocol: type,
        builtin: Mapping[str, str],
        *,
        given: Iterable[str] = (),
        offered: Iterable[str] = (),
        beside: Iterable[str] = (),
        error: type[FedsimError] = PluginError,
        at: str = "",
        chance: str = "",
    ) -> None:
        self.article, _, self.noun = noun.partition(" ")
        self.at, self._chance = at, chance
        self.protocol, self.error = protocol, error
        self._builtin, self._registered = dict(builtin), dict[str, type[_T]]()
        self._given, self._offered, self._beside = frozenset(given), frozenset(offered), tuple(beside)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._builtin, *self._registered, *_entry_points()]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in self._registered or name in _entry_points()

    def __getitem__(self, name: str) -> type[_T]:
        if name in self._builtin:
            module, _, cls = self._builtin[name].partition(":")
            implementation: type[_T] = getattr(import_module(module), cls)
            return implementation
        if name in self._registered:
            return self._registered[name]
        return self._loaded(name)

    @property
    def built_in(self) -> tuple[str, ...]:
        """The names of those that come with fedsim, in their order."""
        return tuple(self._builtin)

    def options_of(self, cls: type) -> dict[str, tuple[Any, Any]]:
        """Return the arguments of a class's constructor that a scenario gives as options, as pydantic's fields.

        They are pairs of a type and a default, which is ``...`` where there is none.
        """
        named = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
        provided = self._given | self._offered
        return {
            name: (type_of(cls, name), ... if each.default is Parameter.empty else each.default)
            for name, each in self._parameters(cls).items()
            if each.kind in named and name not in provided
        }

    def typed(self, kind: str, options: Mapping[str, object]) -> dict[str, object]:
        """Return options as the constructor of a class wants them; one that is wrong stays as it is."""
        return {name: _checked(self[kind], name, value, []) for name, value in options.items()}

    def register(self, name: str) -> Callable[[_C], _C]:
        """Return a decorator that makes a class known by a name, which must be free and without a colon."""

        def decorator(cls: _C) -> _C:
            if ":" in name or name in self._builtin:
                raise ValueError(f"{name!r} cannot be the name of {self.article} {self.noun} of your own")
            self._complete(cls, name)
            self._registered[name] = cls
            _REGISTERED.add(name)
            return cls

        return decorator

    def find(self, kind: object) -> type[_T]:
        """Return the class that `kind` names; raise this registry's error if it names none."""
        if not isinstance(kind, str):
            raise self.error(f"must be the name of {self.article} {self.noun}, got {kind!r}")
        if ":" in kind:
            return self._imported(kind)
        if kind in self:
            return self[kind]
        raise self.error(
            f"unknown {self.noun} {kind!r}{did_you_mean(kind, self)}; "
            f"{_listing('known are', self)}, and your own as my_package.my_module:MyClass"
        )

    def check(self, kind: object, options: Mapping[str, object]) -> Findings:
        """Return every mistake in a choice, without building it."""
        return self._inspect(kind, options)[2]

    def build(self, kind: str, options: Mapping[str, object], **given: object) -> _T:
        """Make what a choice names, from its options and what the scenario gives.

        This registry's error is raised if `check` finds a mistake or the constructor fails, except by an `OptionError`.
        """
        where = f"{self.noun} {kind!r}"
        cls, values, findings = self._inspect(kind, options)
        if cls is None or findings:
            raise self.error(findings_text(where, findings))
        accepted = self._parameters(cls)
        with self.reraise_as_plugin_error(where, cls):
            built = cls(**values, **{name: x for name, x in given.items() if name in self._given or name in accepted})
            # Touching them inside the block: a property may fail as well as be missing.
            for name, member in vars(self.protocol).items():
                if isinstance(member, property):
                    getattr(built, name)
        return built

    def unrepeatable(self, kind: str) -> str:
        """Return what is wrong with an implementation that answers otherwise when it is asked the same again."""
        place = line_of(self.find(kind))
        return (
            f"{kind!r} gives something else when it is made anew and asked the same again, so that no run could be "
            f"repeated: {self._chance}{place and f' ({place})'}"
        )

    @contextmanager
    def reraise_as_plugin_error(self, where: str, asked: object = None) -> Iterator[None]:
        """Turn any exception of the block into this registry's error: `where`, then `told` of it and of `asked`."""
        try:
            yield
        except OptionError:
            raise
        except BaseException as error:
            raise self.error(f"{where}: {told(error, asked)}") from error

    def _inspect(
        self, kind: object, options: Mapping[str, object]
    ) -> tuple[type[_T] | None, dict[str, object], Findings]:
        """Return the class, the options as their types want them, and what is wrong."""
        try:
            cls = self.find(kind)
            parameters = self._parameters(cls)
        except FedsimError as error:
            return None, {}, [(("kind",), str(error))]
        findings: Findings = []
        open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
        if missing := sorted(self._given - parameters.keys()) if not open_ended else []:
            wanted = " and ".join(f"{name}=" for name in missing)
            findings.append((("kind",), f"the constructor of {kind!r} must accept {wanted}"))
        provided = self._given | (self._offered & parameters.keys())
        accepted = self.options_of(cls)
        values: dict[str, object] = {}
        for name, value in options.items():
            if name in provided:
                findings.append(((name,), f"{name!r} is not an option: the scenario gives it to every {self.noun}"))
            elif name in accepted:
                values[name] = _checked(cls, name, value, findings)
            elif open_ended:
                values[name] = value
            else:
                choice = _listing("known are", accepted) if accepted else f"{self.noun} {kind!r} has no options"
                if self._beside:
                    choice += f"{'' if accepted else ' of its own'}; every {self.noun} has {', '.join(self._beside)}"
                meant = did_you_mean(name, [*accepted, *self._beside])
                findings.append(((name,), f"unknown option {name!r}{meant}; {choice}"))
        unset = [name for name, (_, default) in accepted.items() if default is ... and name not in options]
        findings += [((name,), f"missing; {self.noun} {kind!r} needs it") for name in unset]
        if not findings and (further := getattr(cls, "check_options", None)):
            try:
                findings += further(values)
            except BaseException as error:  # noqa: BLE001  it is a user's
                findings.append((("kind",), f"check_options fails: {told(error, further)}"))
        return cls, values, findings

    def _imported(self, kind: str) -> type[_T]:
        module_name, _, class_name = kind.partition(":")
        if not class_name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
            raise self.error(f"{kind!r} is not of the form my_package.my_module:MyClass")
        try:
            module = import_module(module_name)
            implementation = getattr(module, class_name, None)  # which a module may answer by code of its own
        except ModuleNotFoundError as error:
            ours = error.name == module_name.partition(".")[0]
            hint = "; is its folder on PYTHONPATH, or is it installed?" if ours else ""
            place = f" ({line})" if (line := users_line(error)) and not ours else ""
            raise self.error(f"cannot import {module_name!r}: {error}{hint}{place}") from error
        except BaseException as error:
            raise self.error(f"cannot import {module_name!r}: {told(error)}") from error
        if implementation is None:
            raise self.error(f"module {module_name!r} has no {class_name!r}{did_you_mean(class_name, vars(module))}")
        return self._complete(implementation, kind)

    def _loaded(self, name: str) -> type[_T]:
        entry = _entry_points()[name]
        with self.reraise_as_plugin_error(f"the plugin {name!r} ({entry.value}) cannot be loaded"):
            implementation = entry.load()
        return self._complete(implementation, name)

    def _complete(self, cls: object, kind: str) -> type[_T]:
        """Return the class, if it has all that this role needs."""
        if not isinstance(cls, type):
            raise self.error(f"{kind!r} must be a class, got {cls!r}")
        methods = [name for name, member in vars(self.protocol).items() if name[0] != "_" and callable(member)]
        if missing := [name for name in methods if not callable(getattr(cls, name, None))]:
            place = line_of(cls)
            raise self.error(
                f"{kind!r} cannot be the {self.noun}: it lacks {_listing('the methods', missing)}; "
                f"see {self.protocol.__module__}.{self.protocol.__name__}{place and f' ({place})'}"
            )
        return cls

    def _parameters(self, cls: type) -> Mapping[str, Parameter]:
        try:
            return signature_of(cls).parameters
        except (TypeError, ValueError) as error:
            raise self.error(f"the constructor of {cls.__name__!r} cannot be inspected: {error}") from error


def is_own(kind: str) -> bool:
    """Say whether a kind is a user's own: ``module:Class``, or a name that a package or this process registered."""
    return ":" in kind or kind in _REGISTERED or kind in _entry_points()


def installed() -> tuple[str, ...]:
    """Return the names that installed packages bring."""
    return tuple(_entry_points())


def findings_text(where: str, findings: Findings) -> str:
    """Write findings as lines that begin with `where`."""
    return "\n".join(f"{where}: {dotted(path)}: {message}" for path, message in findings)


@cache
def _entry_points() -> Mapping[str, Any]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


signature_of = lru_cache(maxsize=256)(signature)  # asked for each point of a sweep, it took a fifth of planning it


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    """Return the annotations of the constructor, or none if one of them cannot be resolved."""
    try:
        return get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]
    except BaseException as error:  # noqa: BLE001  an annotation as text is code of the user's
        told(error)
        return {}


def type_of(cls: type, name: str) -> Any:
    """Return the annotation of an argument of a class's constructor, `Any` without."""
    return _hints(cls).get(name, Any)


@lru_cache(maxsize=1024)  # made for each group of a population, it took two thirds of checking it
def _adapter(cls: type, name: str) -> Any:
    """Return the `TypeAdapter` of an option; None where pydantic cannot check its type."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(type_of(cls, name))
    except (PydanticUserError, NameError):
        return None


def _checked(cls: type, name: str, value: object, findings: Findings) -> object:
    """Return the option as its type wants it, if that can be checked; add what is wrong with it to `findings`."""
    from pydantic import ValidationError

    if (adapter := _adapter(cls, name)) is None:
        return value
    try:
        return adapter.validate_python(value, strict=True, context=IN_A_FILE)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = str(detail["loc"][-1]) if detail["loc"] else ""
            message = detail["msg"].replace("Input should be", "must be", 1)
            finding = (name, *_path_in(value, detail["loc"])), f"{message}, got {detail['input']!r}"
            of_keys = {"extra_forbidden": ((name, key), "unknown option"), "missing": ((name,), f"needs {key!r}")}
            findings.append(of_keys.get(detail["type"], finding))
    except BaseException as error:  # noqa: BLE001  of a validator of the user's
        findings.append(((name,), f"cannot be checked: {told(error)}"))
    return value


def _path_in(value: object, steps: Iterable[str | int]) -> KeyPath:
    """Return the steps that lead into the value; pydantic adds others, which name the member of a union."""
    path: KeyPath = ()
    inner: Any = value
    for step in steps:
        with suppress(TypeError, KeyError, IndexError):
            inner = inner[step]
            path += (step,)
    return path


def _listing(intro: str, names: Iterable[str]) -> str:
    return f"{intro} {', '.join(sorted(names))}"
