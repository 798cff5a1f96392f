"""Commands that pages name: those of manifests, with other verbs and more settings."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from shlex import join, split
from types import MappingProxyType
from typing import cast

from fedsim.common.files import pasteable
from fedsim.run.check import Check
from fedsim.scenario.log import ProductionLog
from fedsim.scenario.stop import Stop

_VERBS = {"run": {"run", "sweep"}, "sweep": {"run", "sweep"}, "decide": {"run", "decide"}}


def command_of(
    meta: Mapping[str, object], verb: str = "", settings: Mapping[str, object] = MappingProxyType({}), out: str = ""
) -> str:
    """Return the command of a manifest or `sweep.json` with other settings, by key; "" where it has none.

    By default it has its own verb. A sweep is no decision, nor a decision a sweep; a run of either has a folder of its
    own, or `out`, and so has what differs in more than seeds. Each key is set once. Of a comparison they are those of
    both sides, a line each.
    """
    if sides := cast("Sequence[Mapping[str, object]]", meta.get("sides")):
        both = [command_of(each, verb, settings, place) for each, place in zip(sides, "ab", strict=True)]
        return "\n".join([*both, "fedsim compare a b"]) if all(both) else ""
    with suppress(ValueError):  # what a shell cannot read
        words = split(str(meta.get("command") or ""))
        if words[:1] == ["fedsim"] and len(words) > 2 and (verb or words[1]) in _VERBS.get(words[1], ()):
            if (out or verb not in {"", words[1]}) and "--out" in words:
                del words[words.index("--out") : words.index("--out") + 2]
            elif "--out" in words and not all(key.endswith("seeds") for key in settings):
                words[words.index("--out") + 1] += "-2"
            more = (word for key, value in settings.items() for word in ("--set", f"{key}={value}"))
            place = ["--out", out] if out else []
            return join(["fedsim", verb or words[1], *_without(words[2:], settings), *more, *place])
    return ""


def log_command(verb: str, log: ProductionLog, options: str = "") -> str:
    """Return the command that reads a log as it was read, with more options, `options`."""
    alone = {"clients", "rounds"} if verb != "measure" else set[str]()  # these are options of `measure`
    given, words = log.model_dump(mode="json", exclude_none=True, exclude=alone), ["fedsim", verb, pasteable(log.file)]
    hows = {how: "|".join(word for word in log.outcomes if log.outcomes[word] == how) for how in log.outcomes.values()}
    for key, value in {**given, "outcomes": hows}.items():
        pairs = ",".join(f"{name}={word}" for name, word in value.items()) if isinstance(value, dict) else value
        pairs = pasteable(str(pairs)) if key in {"clients", "rounds", "check_ins"} else pairs
        words += [f"--{key.replace('_', '-')}", str(pairs)] if pairs and key != "file" else []
    return f"{join(words)} {options}".rstrip()


def _without(words: Sequence[str], keys: Mapping[str, object]) -> Iterator[str]:
    """Leave out what already sets one of the keys."""
    rest = iter(words)
    for word in rest:
        value = [next(rest, "")] if word == "--set" else []
        if not any(_given(*each.partition("=")[::2], keys) for each in value):
            yield from (word, *value)


def _given(key: str, value: str, keys: Mapping[str, object]) -> bool:
    """Say whether a setting is among those given anew, or is a mapping of such alone."""
    with suppress(ValueError):
        if isinstance(parts := json.loads(value), dict):
            return all(f"{key.strip()}.{part}" in keys for part in parts)
    return key.strip() in keys


def in_own_folders(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Return checks of which no two commands write to one folder: the second to ``o-2`` writes to ``o-3``."""
    taken, apart = dict[str, str](), list[Check]()
    for check in checks:
        words = split(check.command)
        at, number = words.index("--out") + 1 if "--out" in words and "\n" not in check.command else 0, 2
        while at and taken.setdefault(words[at], check.command) != check.command:
            words[at], number = f"{words[at].removesuffix(f'-{number}')}-{number + 1}", number + 1
        apart.append(replace(check, command=join(words)) if at else check)
    return tuple(apart)


def with_seeds(meta: Mapping[str, object], seeds: int) -> str:
    """Return the command of a sweep or decision with so many seeds; "" where it has none."""
    return command_of(meta, "sweep", {"sweep.seeds": seeds}) or command_of(meta, "decide", {"decide.seeds": seeds})


def longer(meta: Mapping[str, object], stop: Stop, times: int, verb: str = "") -> str:
    """Return the command for so many times as much; "" where it has none."""
    return command_of(meta, verb, {f"stop.{name}": str(limit) for name, limit in stop.times(times).items()})
