"""What all scenario models share: strict types, frozen values, unknown keys answered with "did you mean"."""

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from fedsim.common.hints import did_you_mean

_T = TypeVar("_T")
Positive = Annotated[float, Field(gt=0)]
_MOST_UNKNOWN = 100  # unknown keys of one mapping that are reported


def word_as(key: str) -> Callable[[Any], Any]:
    """Return what reads a bare word as ``{key: word}``."""
    return lambda value: {key: value} if isinstance(value, str) else value


short_kind = word_as("kind")


def value_as(kind: str, key: str) -> Callable[[Any], Any]:
    """Return what reads anything but a mapping as ``{kind: kind, key: value}``, to be told there where it is wrong."""
    return lambda value: value if isinstance(value, dict | Model) else {"kind": kind, key: value}


def each_once(values: list[_T]) -> list[_T]:
    """Return values, of which a `ValueError` names one that is there twice."""
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"has {twice[0]!r} twice")
    return values


def attribute_docstrings(model: type) -> dict[str, str]:
    """Return the strings that follow the attributes of a class and of its bases.

    A model that is made from the constructor of a class, its `implementation`, has them there.
    """
    docstrings: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if (implementation := vars(each).get("implementation")) is not None:
            docstrings |= attribute_docstrings(implementation)
        elif _has_attributes_of_its_own(each):
            docstrings |= _own_docstrings(each)
    return docstrings


@cache
def _own_docstrings(cls: type) -> dict[str, str]:
    docstrings: dict[str, str] = {}
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    for attribute, text in pairwise(tree.body):
        match attribute, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                docstrings[name] = inspect.cleandoc(words)
    return docstrings


def _has_attributes_of_its_own(cls: type) -> bool:
    if issubclass(cls, BaseModel) and (cls is BaseModel or cls.__pydantic_generic_metadata__["origin"]):
        return False
    return bool(inspect.get_annotations(cls))


class Model(BaseModel):
    """A mapping in the scenario file. Attribute docstrings become the descriptions in the JSON Schema."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that a like mapping has and this one has not, and why; an empty value (null) takes such a key back."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # pydantic can do this too, but it reads the sources again whenever the models are imported.
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        schema.setdefault("description", inspect.getdoc(cls))  # that of the generic model, of one of its kinds
        for name, text in attribute_docstrings(cls).items():
            if name in schema["properties"]:
                schema["properties"][name].setdefault("description", text)
        if cls.elsewhere:
            schema["patternProperties"] = {f"^({'|'.join(cls.elsewhere)})$": {"type": "null"}}
        return reference

    @model_validator(mode="wrap")
    @classmethod
    def _name_unknown_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # pydantic knows which keys are unknown but not which was meant: the names are at hand only here.
        if not isinstance(data, dict):
            return handler(data)
        data = {key: value for key, value in data.items() if value is not None or key not in cls.elsewhere}
        names = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in data if key not in names] if cls.model_config["extra"] == "forbid" else []
        if not unknown:
            return handler(data)
        reasons = {
            key: cls.elsewhere.get(key) or f"unknown key{did_you_mean(key, names, or_known=True)}"
            for key in unknown[:_MOST_UNKNOWN]
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
            handler({key: value for key, value in data.items() if key in names})
        except ValidationError as error:
            mistakes += [_again(details) for details in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(cls.__name__, mistakes)


class SparseModel(Model):
    """A mapping of which some keys are written only where they have a value: most scenarios do not use them."""

    unwritten: ClassVar[frozenset[str]] = frozenset()
    """Those keys."""

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = handler(self)
        return {key: value for key, value in dumped.items() if value or key not in self.unwritten}


def _again(details: Any) -> InitErrorDetails:
    """Turn a reported error back into one to raise, with its message as it was."""
    context = details.get("ctx", {})
    kind = PydanticCustomError(details["type"], details["msg"].replace("{", "{{").replace("}", "}}"), context)
    return InitErrorDetails(type=kind, loc=details["loc"], input=details["input"])
