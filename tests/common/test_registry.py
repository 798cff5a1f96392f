"""One door for what people bring: by registered name, by module:Class, or from an installed package."""

from importlib.metadata import EntryPoint
from typing import Protocol

import pytest

from fedsim.common import registry
from fedsim.common.errors import PluginError
from fedsim.common.registry import Registry


class Greeting(Protocol):
    def greet(self) -> str: ...


class Polite:
    def __init__(self, *, name: str = "you") -> None:
        self.name = name

    def greet(self) -> str:
        return f"good day, {self.name}"


class Silent:
    pass


HERE = __name__


@pytest.fixture
def greetings() -> Registry[Greeting]:
    return Registry("a greeting", Greeting, {"polite": f"{HERE}:Polite"})


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with two entry points, one of which cannot be loaded."""
    entries = {
        name: EntryPoint(name, value, registry.GROUP)
        for name, value in {"formal": f"{HERE}:Polite", "mute": f"{HERE}:Silent", "lost": f"{HERE}:Nobody"}.items()
    }
    monkeypatch.setattr(registry, "_entry_points", lambda: entries)


@pytest.mark.parametrize("kind", ["polite", f"{HERE}:Polite", "formal"])
@pytest.mark.usefixtures("installed")
def test_the_three_ways_lead_to_the_same_class(greetings: Registry[Greeting], kind: str) -> None:
    assert greetings.check(kind, {"name": "Ada"}) == []
    assert greetings.build(kind, {"name": "Ada"}).greet() == "good day, Ada"


def test_a_decorator_registers_a_name(greetings: Registry[Greeting]) -> None:
    greetings.register("own")(Polite)
    assert list(greetings) == ["polite", "own"]
    assert greetings["own"] is Polite


@pytest.mark.parametrize("name", ["polite", "a:b"])
def test_a_name_that_is_taken_cannot_be_registered(greetings: Registry[Greeting], name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a greeting of your own"):
        greetings.register(name)(Polite)


def test_what_is_incomplete_is_refused_with_what_it_lacks(greetings: Registry[Greeting]) -> None:
    with pytest.raises(PluginError, match="it lacks the methods greet"):
        greetings.register("mute")(Silent)
    assert "lacks the methods greet" in greetings.check(f"{HERE}:Silent", {})[0][1]


@pytest.mark.usefixtures("installed")
def test_what_is_wrong_with_an_installed_plugin_is_told(greetings: Registry[Greeting]) -> None:
    assert "lacks the methods greet" in greetings.check("mute", {})[0][1]
    assert "cannot be loaded: AttributeError" in greetings.check("lost", {})[0][1]
    assert "did you mean 'formal'" in greetings.check("formel", {})[0][1]


def test_options_are_checked_against_the_constructor(greetings: Registry[Greeting]) -> None:
    assert greetings.check("polite", {"name": 3}) == [(("name",), "must be a valid string, got 3")]
    assert greetings.check("polite", {"nam": "x"})[0][1].startswith("unknown option 'nam'; did you mean 'name'?")


def test_annotations_are_read_once_however_often_options_are_checked(
    greetings: Registry[Greeting], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[object]()

    def hints(method: object, **_: object) -> dict[str, type]:
        read.append(method)
        return {"name": str}

    monkeypatch.setattr(registry, "get_type_hints", hints)
    for each in (registry._adapter, registry._hints):
        each.cache_clear()  # of other tests
    for _ in range(5):
        assert not greetings.check("polite", {"name": "x"})
        greetings.build("polite", {"name": "x"})
    assert len(read) == 1
