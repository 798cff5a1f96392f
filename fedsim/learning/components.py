"""Problems and optimizers by name: what is wrong with a scenario's choice, and the object that it means.

A ``kind`` is a registered name (``fedavg``) or a class of the user's own
(``my_package.my_module:MyOptimizer``), which is imported. Its options are the arguments of its constructor;
they are checked against the annotations there, in pydantic's strict mode: ``Annotated[int, Field(ge=1)]``
refuses 0, "3" and 2.5, each with the value that was found. A class may look further by a static method
``check_options``, which takes the options and returns pairs (path, message).

An optimizer's option ``server`` is no argument of its own but names the server update that its direction goes through.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path as FilePath
from typing import Any, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from fedsim.common.errors import Path, dotted
from fedsim.learning.failures import LearningError, blame
from fedsim.learning.optimizers import OPTIMIZERS, Optimizer
from fedsim.learning.problems import PROBLEMS, Problem
from fedsim.learning.server_updates import SERVER_UPDATES, Composed, ServerUpdate

Findings: TypeAlias = list[tuple[Path, str]]


@dataclass(frozen=True)
class _Role:
    """What a component is to be: its noun, those registered, its protocol, and what the scenario gives it.

    What is given must be accepted by every constructor; what is offered goes to those that have such an argument.
    """

    article: str
    noun: str
    registered: Mapping[str, type[Any]]
    protocol: type[Any]
    given: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()

    def methods(self) -> list[str]:
        return [name for name, member in vars(self.protocol).items() if name[0] != "_" and callable(member)]

    def attributes(self) -> list[str]:
        return [name for name, member in vars(self.protocol).items() if isinstance(member, property)]


_PROBLEM = _Role("a", "problem", PROBLEMS, Problem, frozenset({"clients", "seed"}), frozenset({"folder"}))
_OPTIMIZER = _Role("an", "optimizer", OPTIMIZERS, Optimizer, offered=frozenset({"pi", "frequency"}))
_SERVER = _Role("a", "server update", SERVER_UPDATES, ServerUpdate)


def check_problem(kind: str, options: Mapping[str, object]) -> Findings:
    """Return every mistake in a scenario's choice of a problem, without building it.

    Parameters
    ----------
    kind
        A registered name (`fedsim.learning.problems.PROBLEMS`) or ``module:Class``, which is imported.
    options
        What the scenario says beside ``kind``.

    Returns
    -------
    Pairs (path, message); the path is relative to the problem's mapping: ``("kind",)``, ``("samples",)``.
    """
    return _inspect(_PROBLEM, kind, options)[2]


def problem_size(kind: str, options: Mapping[str, object], clients: int) -> tuple[int, int]:
    """Return about how many bytes a problem's data take, and how many parameters it has; 0 where that is not known.

    A class tells by a static method ``size``, called with the number of clients and the options as the scenario writes
    them. Nothing is imported for it: what is wrong with a choice is for `check_problem` to say.
    """
    size: Callable[..., tuple[int, int]] | None = getattr(PROBLEMS.get(kind), "size", None)
    if size is None or check_problem(kind, options):
        return 0, 0
    return size(clients, options)


def check_optimizer(kind: str, options: Mapping[str, object]) -> Findings:
    """Return every mistake in a scenario's choice of an optimizer; see `check_problem`."""
    own, server = _apart(options)
    findings = _inspect(_OPTIMIZER, kind, own)[2]
    if server is not None:
        findings += [(("server", *path), message) for path, message in _check_server(server)]
    return findings


def build_problem(
    kind: str, options: Mapping[str, object], *, clients: int, seed: int, folder: FilePath | None = None
) -> Problem:
    """Return the problem that a scenario names.

    Parameters
    ----------
    kind, options
        As in `check_problem`.
    clients
        N, the size of the population.
    seed
        The scenario's seed.
    folder
        Where relative paths of its options begin; the working folder, where it is None.

    Raises
    ------
    LearningError
        When `check_problem` finds a mistake, the constructor fails, or its result is not a problem for N
        clients.
    """
    given = {"clients": clients, "seed": seed, "folder": FilePath() if folder is None else folder}
    problem: Problem = _build(_PROBLEM, kind, options, given)
    if problem.clients != clients:
        raise LearningError(f"problem {kind!r} says that it has {problem.clients!r} clients, not {clients}")
    return problem


def build_optimizer(
    kind: str,
    options: Mapping[str, object],
    *,
    pi: NDArray[np.float64] | None = None,
    frequency: NDArray[np.float64] | None = None,
) -> Optimizer:
    """Return the optimizer that a scenario names, with its server update around it.

    Parameters
    ----------
    kind, options
        As in `check_optimizer`.
    pi, frequency
        The participation that theory predicts and that the log shows, shape (N,), for optimizers that ask for it.

    Raises
    ------
    LearningError
        When `check_optimizer` finds a mistake, or the constructor fails.
    """
    if findings := check_optimizer(kind, options):
        raise LearningError(_told(f"{_OPTIMIZER.noun} {kind!r}", findings))
    own, server = _apart(options)
    optimizer: Optimizer = _build(_OPTIMIZER, kind, own, {"pi": pi, "frequency": frequency})
    if server is None:
        return optimizer
    choice = _mapping(server)
    return Composed(optimizer, _build(_SERVER, choice["kind"], _without_kind(choice), {}))


def _apart(options: Mapping[str, object]) -> tuple[dict[str, object], object]:
    """Return an optimizer's own options, and what it says of the server update."""
    return {name: value for name, value in options.items() if name != "server"}, options.get("server")


def _mapping(choice: object) -> dict[str, Any]:
    return {"kind": choice} if isinstance(choice, str) else dict(choice) if isinstance(choice, Mapping) else {}


def _without_kind(choice: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in choice.items() if name != "kind"}


def _check_server(server: object) -> Findings:
    choice = _mapping(server)
    if "kind" not in choice:
        return [((), f"must name a server update, {_listing('known are', SERVER_UPDATES)}, got {server!r}")]
    return _inspect(_SERVER, choice["kind"], _without_kind(choice))[2]


def _told(where: str, findings: Findings) -> str:
    return "\n".join(f"{where}: {dotted(path)}: {message}" for path, message in findings)


def _build(role: _Role, kind: str, options: Mapping[str, object], given: Mapping[str, object]) -> Any:
    where = f"{role.noun} {kind!r}"
    cls, values, findings = _inspect(role, kind, options)
    if cls is None or findings:
        raise LearningError(_told(where, findings))
    accepted = _parameters(cls)
    with blame(where):
        component = cls(**values, **{name: x for name, x in given.items() if name in role.given or name in accepted})
        # Touching them inside the block: a property may fail as well as be missing.
        for name in role.attributes():
            getattr(component, name)
    return component


def _inspect(
    role: _Role, kind: str, options: Mapping[str, object]
) -> tuple[type[Any] | None, dict[str, object], Findings]:
    """Return the class, the options as their types want them, and what is wrong."""
    try:
        cls = _find(role, kind)
        parameters = _parameters(cls)
    except LearningError as error:
        return None, {}, [(("kind",), str(error))]
    findings: Findings = []
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    named = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind in {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
    }
    if missing := sorted(role.given - named.keys()) if not open_ended else []:
        wanted = " and ".join(f"{name}=" for name in missing)
        findings.append((("kind",), f"the constructor of {kind!r} must accept {wanted}"))
    provided = role.given | role.offered
    known = [name for name in named if name not in provided]
    checks = _checks(cls)
    values: dict[str, object] = {}
    for name, value in options.items():
        if name in provided & named.keys() or name in role.given:
            findings.append(((name,), f"{name!r} is not an option: the scenario gives it to every {role.noun}"))
        elif name in known:
            values[name] = _checked(name, value, checks.get(name), findings)
        elif open_ended:
            values[name] = value
        else:
            choice = _listing("known are", known) if known else f"{role.noun} {kind!r} has no options"
            findings.append(((name,), f"unknown option {name!r}{_did_you_mean(name, known)}; {choice}"))
    findings += [
        ((name,), f"missing; {role.noun} {kind!r} needs it")
        for name in known
        if named[name].default is Parameter.empty and name not in options
    ]
    further: Callable[[Mapping[str, object]], Findings] | None = getattr(cls, "check_options", None)
    if further is not None and not findings:
        findings += further(values)
    return cls, values, findings


def _find(role: _Role, kind: object) -> type[Any]:
    """Return the class that `kind` names; every way in which it does not is a `LearningError`."""
    if not isinstance(kind, str):
        raise LearningError(f"must be the name of {role.article} {role.noun}, got {kind!r}")
    if ":" not in kind:
        if kind in role.registered:
            return role.registered[kind]
        raise LearningError(
            f"unknown {role.noun} {kind!r}{_did_you_mean(kind, role.registered)}; "
            f"{_listing('known are', role.registered)}, and your own as my_package.my_module:MyClass"
        )
    module_name, _, class_name = kind.partition(":")
    if not class_name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise LearningError(f"{kind!r} is not of the form my_package.my_module:MyClass")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        hint = (
            "" if error.name != module_name.partition(".")[0] else "; is its folder on PYTHONPATH, or is it installed?"
        )
        raise LearningError(f"cannot import {module_name!r}: {error}{hint}") from error
    except Exception as error:
        raise LearningError(f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    if not hasattr(module, class_name):
        raise LearningError(f"module {module_name!r} has no {class_name!r}{_did_you_mean(class_name, vars(module))}")
    cls = getattr(module, class_name)
    if not isinstance(cls, type):
        raise LearningError(f"{kind!r} must be a class, got {cls!r}")
    if missing := [name for name in role.methods() if not callable(getattr(cls, name, None))]:
        raise LearningError(
            f"{kind!r} cannot be the {role.noun}: it lacks {_listing('the methods', missing)}; "
            f"see {role.protocol.__module__}.{role.protocol.__name__}"
        )
    return cls


def _parameters(cls: type[Any]) -> Mapping[str, Parameter]:
    try:
        return signature(cls).parameters
    except (TypeError, ValueError) as error:
        raise LearningError(f"the constructor of {cls.__name__!r} cannot be inspected: {error}") from error


def _checks(cls: type[Any]) -> dict[str, Callable[[object], object]]:
    """Return a strict validator for each annotated argument of the constructor.

    An annotation that cannot be resolved, or that pydantic has no validator for, is not checked: what is
    wrong then shows when the object is built.
    """
    try:
        hints = get_type_hints(cls.__init__, include_extras=True)
    except (NameError, TypeError):
        return {}
    checks: dict[str, Callable[[object], object]] = {}
    for name, hint in hints.items():
        try:
            adapter = TypeAdapter(hint)
        except (PydanticUserError, NameError):
            continue
        checks[name] = partial(adapter.validate_python, strict=True)
    return checks


def _checked(name: str, value: object, check: Callable[[object], object] | None, findings: Findings) -> object:
    """Return the option as its type wants it; add what is wrong with it to `findings`."""
    if check is None:
        return value
    try:
        return check(value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path = (name, *_within(value, detail["loc"]))
            if detail["type"] in {"extra_forbidden", "missing"}:
                key = str(detail["loc"][-1])
                unknown = detail["type"] == "extra_forbidden"
                findings.append(((name, key), "unknown option") if unknown else ((name,), f"needs {key!r}"))
                continue
            message = detail["msg"].replace("Input should be", "must be", 1)
            findings.append((path, f"{message}, got {detail['input']!r}"))
        return value


def _within(value: object, steps: Iterable[str | int]) -> Path:
    """Return the steps that lead into the value; pydantic adds others, which name the member of a union."""
    path: Path = ()
    inner: Any = value
    for step in steps:
        try:
            inner = inner[step]
        except (TypeError, KeyError, IndexError):
            continue
        path += (step,)
    return path


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _listing(intro: str, names: Iterable[str]) -> str:
    return f"{intro} {', '.join(sorted(names))}"
