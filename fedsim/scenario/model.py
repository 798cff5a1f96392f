"""What all scenario models share: strict types, frozen values, unknown keys answered with "did you mean"."""

import ast
import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

_hints_left: ContextVar[list[int] | None] = ContextVar("hints left", default=None)
_FEW, _MOST_UNKNOWN = 30, 100  # hints that are given, and unknown keys that are told of one mapping


@contextmanager
def few_hints() -> Iterator[None]:
    """Let `did_you_mean` have only some answers while the block runs: each takes a while, and nobody reads hundreds."""
    token = _hints_left.set([_FEW])
    try:
        yield
    finally:
        _hints_left.reset(token)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the closest known word, else ``; known are a, b and c``."""
    left = _hints_left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            return ""
    names = list(known)
    close = difflib.get_close_matches(str(word), names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(sorted(names))}" if names else ""


def word_as(key: str) -> Callable[[Any], Any]:
    """Return what reads a bare word as ``{key: word}``."""
    return lambda value: {key: value} if isinstance(value, str) else value


short_kind = word_as("kind")


def value_as(kind: str, key: str) -> Callable[[Any], Any]:
    """Return what reads anything but a mapping as ``{kind: kind, key: value}``, to be told there where it is wrong."""
    return lambda value: value if isinstance(value, dict | Model) else {"kind": kind, key: value}


def attribute_docstrings(model: type) -> dict[str, str]:
    """Return the strings that follow the attributes of a class and of its bases."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if not issubclass(each, BaseModel) or each is BaseModel or each.__pydantic_generic_metadata__["origin"]:
            continue  # no class with a source of its own
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(tree, ast.ClassDef)
        for attribute, text in pairwise(tree.body):
            match attribute, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = inspect.cleandoc(words)
    return found


class Model(BaseModel):
    """A mapping in the scenario file. Attribute docstrings become the descriptions in the JSON Schema."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that a like mapping has and this one has not, and why; an empty value (null) takes such a key back."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # pydantic can do this too, but it reads the sources again whenever the models are imported.
        found = handler(core)
        schema = handler.resolve_ref_schema(found)
        for name, text in attribute_docstrings(cls).items():
            if name in schema["properties"]:
                schema["properties"][name].setdefault("description", text)
        return found

    @model_validator(mode="wrap")
    @classmethod
    def _name_unknown_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # pydantic knows which keys are unknown but not which was meant: the names are at hand only here.
        if not isinstance(data, dict):
            return handler(data)
        data = {key: value for key, value in data.items() if value is not None or key not in cls.elsewhere}
        known = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in data if key not in known] if cls.model_config["extra"] == "forbid" else []
        if not unknown:
            return handler(data)
        reasons = {
            key: cls.elsewhere.get(key) or f"unknown key{did_you_mean(key, known)}" for key in unknown[:_MOST_UNKNOWN]
        }
        if more := len(unknown) - len(reasons):
            reasons[unknown[_MOST_UNKNOWN - 1]] += f"; there are {more:,} more in this mapping"
        mistakes = [
            InitErrorDetails(
                type=PydanticCustomError("unknown_key", "{reason}", {"reason": reason}),
                loc=(key if isinstance(key, int) else str(key),),
                input=data[key],
            )
            for key, reason in reasons.items()
        ]
        try:
            handler({key: value for key, value in data.items() if key in known})
        except ValidationError as error:
            mistakes += [_again(details) for details in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(cls.__name__, mistakes)


def _again(details: Any) -> InitErrorDetails:
    """Turn a reported error back into one to raise, with its message as it was."""
    context = details.get("ctx", {})
    kind = PydanticCustomError(details["type"], details["msg"].replace("{", "{{").replace("}", "}}"), context)
    return InitErrorDetails(type=kind, loc=details["loc"], input=details["input"])
