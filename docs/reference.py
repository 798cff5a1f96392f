"""Writes docs/reference: keys, kinds, metrics, columns, commands and names, from what the package says of itself.

``python docs/reference.py`` writes the pages that have changed. Nobody edits them: a wrong word is put right in the
description of a key, the docstring of a class, the meaning of a metric, or the comment after a column.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from typer.main import get_command

import fedsim
from fedsim import log
from fedsim.cli import app
from fedsim.common.outcomes import ROUND_OUTCOMES, SESSION_OUTCOMES
from fedsim.learning.optimizers.fedavg import MeanChange
from fedsim.learning.optimizers.optimizer import Foreseeable
from fedsim.measure import facts, shares
from fedsim.measure.metrics import listed
from fedsim.privacy import independence
from fedsim.run import files
from fedsim.run.check import CHECKED
from fedsim.scenario import Scenario
from fedsim.scenario.roles import registry_of
from fedsim.scenario.schema import EXTENDS

FOLDER = Path(__file__).resolve().parent / "reference"
Schema = dict[str, Any]
SERIES = (
    "Small tables for charts, in `series/`: `starts` (sessions begun by time zone and quarter of an hour, "
    "`slot`), `reports` and `weights` (reports by `span` of the run, of each group and time zone, and of each "
    "class by weight), `reached` (by when how many had taken part), `staleness` (of a buffered server), "
    "`contributions` (with `privacy`), `round` (at most 60 sessions of a round of median length), `week` (of the "
    "device with the median available time: when each condition held, its sessions and its cool-downs, in the "
    "first seven days), and:"
)
MARK = "<!-- Made by docs/reference.py from the package: change the descriptions there. -->\n"
EXAMPLES = {
    "90s": "duration",
    "800kbps": "bits a second",
    "500kB": "bytes",
    "22:30": "clock time",
    "2026-01-05T00:00:00Z": "instant",
    "2026-12-25": "date",
    "UTC": "time zone",
}
"""What a text stands for, by the first example in its schema."""
MOST_SHOWN = 1e5  # larger bounds only keep memory in check
INNER = {"Scenario.beside"}  # only in the scenarios that a run of several jobs writes
ROLES = {
    "optimizer": "What a server makes of the reports: `learning.optimizers`.",
    "server update": "How the model follows an optimizer's direction v_t: `server` of an optimizer.",
    "problem": "The clients' objectives: `learning.problem`.",
    "privacy mechanism": "How the noise of the rounds is correlated: `privacy.mechanism`.",
}
"""The registries whose classes have equations, with where a scenario names them."""


def pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    made = {
        "scenario.md": scenario(),
        "methods.md": methods(),
        "metrics.md": metrics(),
        "tables.md": tables(),
        "commands.md": commands(),
        "privacy.md": privacy(),
        "python.md": python(),
    }
    return {name: MARK + re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n" for name, text in made.items()}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell(each) for each in line) + " |" for line in lines)


def cell(text: str) -> str:
    """Return a text as a cell of a table: one line, in which a bar within code is written as its entity."""
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")


def words(text: str | None) -> str:
    """Return a docstring's words in Markdown: single backticks."""
    return (text or "").replace("``", "`")


def listing(values: list[str], last: str = "or") -> str:
    """Return values as words."""
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} {last} {values[-1]}"


# Keys of a scenario


class Keys:
    """The models of a scenario's schema: mappings, each with a section, and kinds, a section for each set of them."""

    def __init__(self) -> None:
        whole = Scenario.model_json_schema()
        self.models: dict[str, Schema] = whole.pop("$defs")
        self.models["Scenario"] = whole
        whole["properties"]["extends"] = EXTENDS
        for key in INNER:
            del whole["properties"][key.partition(".")[2]]
        self.sections: dict[str, tuple[str, ...]] = {}  # by title: a model, or several kinds
        self.paths: dict[tuple[str, ...], list[str]] = {}
        waiting: list[tuple[str, tuple[str, ...]]] = [("", ("Scenario",))]
        while waiting:
            path, group = waiting.pop(0)
            seen = group in self.paths
            self.paths.setdefault(group, []).append(path)
            if not seen:
                waiting += [
                    (f"{path}.{name}".strip(".") if len(group) == 1 else name, each)
                    for model in group
                    for name, part in self.models[model].get("properties", {}).items()
                    for each in self.groups(part)
                ]

    def groups(self, part: Schema) -> list[tuple[str, ...]]:
        """Return the sections to which a part of the schema refers: models of their own, and sets of kinds."""
        names = list(dict.fromkeys(self._referred(part)))
        kinds = [name for name in names if "kind" in self.models[name].get("properties", {})]
        mappings = [(name,) for name in names if name not in kinds and "properties" in self.models[name]]
        return mappings + ([tuple(kinds)] if kinds else [])

    def _referred(self, part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if "$ref" in part:
                yield part["$ref"].rpartition("/")[2]
            for key, each in part.items():
                if key not in {"mapping", "default"}:
                    yield from self._referred(each)
        elif isinstance(part, list):
            for each in part:
                yield from self._referred(each)

    def title(self, group: tuple[str, ...]) -> str:
        """Return the heading of a section: the keys under which it stands."""
        if group == ("Scenario",):
            return "The file"
        title = self._short_title(group)
        alike = [other for other in self.paths if other != group and self._short_title(other) == title]
        return f"{title} ({group[0]})" if alike else title

    def _short_title(self, group: tuple[str, ...]) -> str:
        names = list(dict.fromkeys(path.rpartition(".")[2] for path in self.paths[group]))
        if group[0] in {"SyncServer", "BufferedServer"}:
            return f"`server` with `mode: {'sync' if group[0] == 'SyncServer' else 'buffered'}`"
        kinds = len(group) > 1 or "kind" in self.models[group[0]]["properties"]
        return "Kinds of " * kinds + ", ".join(f"`{name}`" for name in names)

    def type_of(self, part: Schema) -> str:
        """Return what may stand at a key, with links to the sections."""
        types = list(dict.fromkeys(self._types(part)))
        return " or ".join(types) or "any"

    def _types(self, part: Schema) -> Iterator[str]:
        members = part.get("anyOf") or part.get("oneOf") or part.get("allOf") or []
        if members:
            groups = self.groups({"anyOf": [each for each in members if each.get("type") not in {"array", "object"}]})
            kinds = {kind for group in groups for name in group for kind in _kinds(self, name)}
            for each in members:
                word = {*each.get("enum", ())} <= kinds if "enum" in each else each.get("minLength") == 1
                if (not self.groups(each) and not (kinds and word)) or each.get("type") in {"array", "object"}:
                    yield from self._types(each)
            yield from (self.link(each, one_of_several=len(groups) > 1) for each in groups)
        elif "$ref" in part:
            groups = self.groups(part)
            yield from (self.link(each) for each in groups) if groups else self._types(self.models[part["$ref"][8:]])
        elif "const" in part:
            yield f"`{_written(part['const'])}`"
        elif "enum" in part:
            yield listing([f"`{_written(each)}`" for each in part["enum"]])
        elif part.get("type") == "array":
            inner = self.type_of(part.get("items", {}))
            yield f"list of {inner}" if inner != "any" else "list"
        elif part.get("type") == "object":
            values = part.get("additionalProperties")
            inner = self.type_of(values) if isinstance(values, dict) else "any"
            yield f"mapping to {inner}" if inner != "any" else "mapping"
        elif part.get("type") != "null":
            yield _plain(part)

    def link(self, group: tuple[str, ...], *, one_of_several: bool = False) -> str:
        """Return a link to a section; with what tells it from the others that can stand there."""
        single = self.models[group[0]]
        if len(group) == 1 and group[0] in {"Component", "OwnDrawn", "OptimizerChoice"}:
            return "your own"
        name = self.title(group)
        short = "kind" if name.startswith("Kinds of ") else "mapping"
        if one_of_several and (more := re.search(r" with `(.+)`$| \((.+)\)$", name)):
            short = f"{short}, {more[1] or more[2]}"
        return f"[{short}](#{anchor(name)})" if single else short


@cache
def all_keys() -> Keys:
    """Return the models of the schema."""
    return Keys()


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _plain(part: Schema) -> str:
    kind, low, high = part.get("type"), part.get("minimum"), part.get("maximum")
    if kind == "string":
        return EXAMPLES.get(str(part.get("examples", [""])[0]), "text")
    if kind in {"integer", "number"}:
        noun = "whole number" if kind == "integer" else "number"
        bounds = [("at least", low), ("above", part.get("exclusiveMinimum")), ("at most", high)]
        bounds.append(("below", part.get("exclusiveMaximum")))
        shown = [f"{word} {limit:,g}" for word, limit in bounds if limit is not None and abs(limit) <= MOST_SHOWN]
        return " ".join([noun, ", ".join(shown)]).strip()
    return {"boolean": "`true` or `false`"}.get(str(kind), "any")


def anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def default_of(name: str, part: Schema, model: Schema) -> str:
    """Return the default of a key as it is written in a file."""
    if name in model.get("required", ()):
        return "required"
    value = part.get("default")
    if value in (None, [], {}, ""):
        return ""
    if isinstance(value, list) and len(value) > 5:
        return "see `fedsim schema`"
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return f"`{json.dumps(value, ensure_ascii=False).strip(chr(34))}`"


def scenario() -> str:
    """Return the page of a scenario's keys."""
    keys = all_keys()
    parts = [
        "# Scenario keys",
        "Every key of a [scenario file](../scenario-file.md). Durations have a unit (`90s`, `10m`, `8h`, `1d12h`), and "
        "so have bytes (`5MB`) and bits a second (`20Mbps`). A *kind* is written as a word, `uniform`, or as a mapping "
        "with its options, `{kind: zipf, exponent: 1.5}`; it may be your own, `my_module:MyClass`, where [a class of "
        "yours](../extending.md) can stand. A source such as `weight` is one value, a list with a value for each "
        "device, or a kind.",
    ]
    for group, paths in keys.paths.items():
        title = keys.title(group)
        if group in {("Component",), ("OwnDrawn",), ("OptimizerChoice",)}:
            continue
        parts.append(f"## {title}")
        if title.startswith("Kinds of "):
            parts.append(
                table(("kind", "what it is", "options"), [_kind(keys, name) for name in group if _kinds(keys, name)])
            )
            continue
        (name,) = group
        model = keys.models[name]
        where = list(dict.fromkeys(path for path in paths if path))
        parts.append(words(model.get("description")))
        if "." in "".join(where) or len(where) > 1:
            parts.append(f"At {', '.join(f'`{each}`' for each in where)}.")
        rows = [
            (f"`{key}`", keys.type_of(each), default_of(key, each, model), words(each.get("description")))
            for key, each in model["properties"].items()
        ]
        parts.append(table(("key", "type", "default", "what it does"), rows))
    return "\n\n".join(parts)


def _kinds(keys: Keys, name: str) -> list[str]:
    kind = keys.models[name]["properties"].get("kind", {})
    return [kind["const"]] if "const" in kind else list(kind.get("enum", ()))


def _kind(keys: Keys, name: str) -> tuple[str, str, str]:
    model = keys.models[name]
    options = [
        f"`{key}`: {keys.type_of(each)}{_default(key, each, model)}. {words(each.get('description'))}"
        for key, each in model["properties"].items()
        if key not in {"kind", *SHARED}
    ]
    kinds = ", ".join(f"`{each}`" for each in _kinds(keys, name))
    return kinds, words(model.get("description")).replace("\n\n", " "), "<br>".join(options)


SHARED = ("name", "local_step_size", "server", "update_clip", "correlation")
"""Options of all kinds of their place."""


def _default(key: str, part: Schema, model: Schema) -> str:
    value = default_of(key, part, model)
    return f", {value}" if value == "required" else f", by default {value}" if value else ""


# Methods, metrics, tables, commands, names


def methods() -> str:
    """Return the page of optimizers, server updates, problems and mechanisms, with their equations."""
    parts = [
        "# Methods",
        "What comes with fedsim, with equations. x_t is the server's model, S_t the clients whose reports a step "
        "takes, Delta_i the change that client i reports. [Learning](../learning.md) says which to take.",
    ]
    keys, seen = all_keys(), set[str]()
    for role, about in ROLES.items():
        parts += [f"## {role.capitalize()}s", about]
        if role == "optimizer":
            shared = options(keys, "FedAvgOptimizer", lambda key: key != "kind")
            parts += [*at_a_glance(), "Every optimizer has these options:", table(OPTION, shared)]
        registry = registry_of(role)
        for kind in registry.built_in:
            cls = registry[kind]
            parts += [f"### `{kind}`", words(inspect.getdoc(cls))]
            rows = options(keys, cls.__name__ + role.title().replace(" ", ""), lambda key: key not in {"kind", *SHARED})
            parts += [table(OPTION, rows)] * bool(rows)
            if cls.__module__ not in seen:
                seen.add(cls.__module__)
                text = inspect.getdoc(sys.modules[cls.__module__]) or ""
                parts.append(prose(text))
            elif role == "optimizer":
                first = next(each for each in registry.built_in if registry[each].__module__ == cls.__module__)
                parts.append(f"Equations: [{first}](#{first}).")
    return "\n\n".join(parts)


def at_a_glance() -> Iterator[str]:
    """Yield the table of optimizers that says which remove the bias of participation, and what each keeps and sends."""
    registry, pi, rows = registry_of("optimizer"), np.array([0.1, 0.2, 0.7]), list[tuple[str, ...]]()
    for kind in registry.built_in:
        given = {
            name: pi for name in ("pi", "frequency", "shares") if name in inspect.signature(registry[kind]).parameters
        }
        method = registry[kind](**given)
        rests = method.long_run(pi) if isinstance(method, Foreseeable) else None
        where = "depends on more: see below"
        if rests is not None:
            even = np.ptp(rests.weights * rests.scales) < 1e-9
            near = "yes: rests at the optimum" if rests.local_steps == 1 else "yes: weighs all clients alike"
            where = near if even else "no: weighs clients by how often they take part"
        kept, private = method.footprint, "yes" if isinstance(method, MeanChange) else "no"
        counts = (kept.server, kept.per_participant, kept.client, kept.sent)
        rows.append((f"[`{kind}`](#{kind})", where, *(str(each) for each in counts), private))
    yield (
        "Which remove the bias of uneven participation, for small constant steps and with their default options; how "
        "many arrays of the model's size the server keeps beside the model, in all and for each client that has taken "
        "part, and each device keeps until its next participation; how many a report has; and whether privacy in "
        "training allows it:"
    )
    head = ("optimizer", "removes the bias", "server", "server, a client", "device", "report", "privacy")
    yield table(head, rows)


OPTION = ("option", "type", "default", "what it does")


def options(keys: Keys, name: str, wanted: Callable[[str], bool]) -> list[tuple[str, ...]]:
    """Return a row for each option of a model."""
    model = keys.models.get(name, {"properties": {}})
    return [
        (
            f"`{key}`",
            keys.type_of(each).replace("(#", "(scenario.md#"),
            default_of(key, each, model),
            words(each.get("description")),
        )
        for key, each in model["properties"].items()
        if wanted(key)
    ]


def prose(text: str) -> str:
    """Return a module's docstring in Markdown: what follows ``::`` is code."""
    lines = text.splitlines()
    out, code = [], False
    for line in lines:
        if line.startswith("    ") and not code and (not out or not out[-1].strip()):
            out.append("```text")
            code = True
        elif code and line.strip() and not line.startswith("    "):
            while out and not out[-1].strip():
                out.pop()
            out += ["```", ""]
            code = False
        out.append(line[4:] if code else words(line) if line.strip() != "::" else "")
        if not code and out[-1].endswith("::"):
            out[-1] = out[-1][:-1]
    if code:
        while out and not out[-1].strip():
            out.pop()
        out.append("```")
    return "\n".join(out)


def metrics() -> str:
    """Return the page of metrics."""
    parts = [
        "# Metrics",
        "Figures of a run, by name: in `metrics.json`, `facts.parquet`, [limits](../expectations.md), sweeps and "
        "decisions. Words in capitals stand for names of the scenario: GROUP, ZONE, NAME of an optimizer or a job. "
        "`fedsim metrics NAME` prints one.",
    ]
    families: dict[str, list[tuple[str, ...]]] = {}
    for each in listed():
        families.setdefault(each.name.partition(".")[0], []).append((f"`{each.name}`", each.unit, words(each.meaning)))
    for family, rows in families.items():
        parts += [f"## {family}", table(("metric", "unit", "meaning"), rows)]
    parts += ["## Checks", "What `caution, NAME: ...` in a summary means, and the chips of a page."]
    parts += [table(("check", "where it does not hold"), [(f"`{name}`", text) for name, text in CHECKED.items()])]
    return "\n\n".join(parts)


def commented(module: Any, name: str) -> dict[str, str]:
    """Return what the comments after the columns of a schema say."""
    source = inspect.getsource(module)
    body = source[re.search(rf"^(?:    \")?{name}\b[^\n]*[{{(]$", source, re.MULTILINE).end() :]  # type: ignore[union-attr]
    body = body[: re.search(r"^(?:    )?[)}]", body, re.MULTILINE).start()]  # type: ignore[union-attr]
    return dict(re.findall(r'^ +"(\w+)": pl\.[^#\n]+  # (.+)$', body, re.MULTILINE))


def columns(schema: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Return a table of columns with their types."""
    rows = [
        (f"`{name}`", str(getattr(kind, "__name__", kind)).partition("(")[0], comments[name])
        for name, kind in schema.items()
    ]
    return table(("column", "type", "meaning"), rows)


def meanings(outcomes: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each outcome: the word of the log, and its words."""
    return [(f"`{name}`", str(getattr(outcome, "words", outcome))) for name, outcome in outcomes.items()]


def tables() -> str:
    """Return the page of the columns of a run directory's tables."""
    ended = {name: f"sessions that ended as `{name}`" for name in log.COUNTED_OUTCOMES}
    ended_at = {"outcome": "how it ended, below"}
    comments = {
        "rounds": commented(log, "ROUNDS") | ended | ended_at,
        "participations": commented(log, "_PARTICIPATIONS")
        | commented(log, "BUFFERED")
        | commented(log, "NOTED")
        | ended_at,
        "clients": commented(log, "CLIENTS"),
        "gauges": commented(log, "GAUGES") | dict(log.GAUGE_COUNTS),
        "transitions": commented(log, "TRANSITIONS"),
        "learning": commented(files, "learning"),
        "convergence": commented(files, "convergence"),
    }
    schemas = {**files.SCHEMAS, "participations": {**log.BUFFERED, **log.NOTED}, "clients": log.CLIENTS}
    parts = [
        "# Tables and columns",
        "The Parquet tables of a [run directory](../run-directory.md), and the frames of a result in Python. Times are "
        "simulated seconds since `start`.",
    ]
    for name, columns_said in comments.items():
        parts += [f"## {name}", columns(schemas[name], columns_said)]
    parts += ["## facts", columns(facts.FACTS, commented(facts, "FACTS"))]
    parts += ["## Outcomes of sessions", table(("outcome", "meaning"), meanings(SESSION_OUTCOMES))]
    parts += ["## Outcomes of rounds", table(("outcome", "meaning"), meanings(ROUND_OUTCOMES))]
    parts += ["## Series", SERIES]
    parts += ["### shares", columns(shares.SHARES, commented(shares, "SHARES"))]
    parts += ["### bias", columns(shares.BIAS, commented(shares, "BIAS"))]
    return "\n\n".join(parts)


def commands() -> str:
    """Return the page of commands and their options."""
    parts = [
        "# Commands",
        "What `--help` says. Exit codes: 0 success, 1 a limit is missed or there is no answer, 2 wrong input or "
        "usage, 3 a run stalled or crashed, 4 a lock is missing or unused, 130 interrupted.",
    ]
    for name, command in _commands(get_command(app), "fedsim"):
        parts += [f"## `{name}`", words(command.help)]
        rows = []
        for each in command.params:
            shown = (
                [*each.opts, *each.secondary_opts]
                if each.param_type_name == "option"
                else [each.metavar or each.name.upper()]
            )
            if "--help" not in shown:
                metavar = f" {each.metavar}" if each.param_type_name == "option" and each.metavar else ""
                default = each.opts[0] if each.default is True else each.default or ""
                default = "required" if each.required else f"`{default}`" * bool(default)
                rows.append((f"`{', '.join(shown)}{metavar}`", default, words(getattr(each, "help", ""))))
        parts += [table(("argument or option", "default", "meaning"), rows)] * bool(rows)
    return "\n\n".join(parts)


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
    for each, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{name} {each}")


def privacy() -> str:
    """Return the page that says of every key whether a released model may depend on it."""
    parts = [
        "# Keys and privacy",
        "What a released model may depend on, key by key; [why](../independence.md). A key below one of these has the "
        "class of that one.",
        "*Fixed* is known before the run; *own* is of one client: when, how long and how often it takes part, by its "
        "own coins; *shown* is of figures and pages, and of no model. The others have a rule.",
    ]
    by_model: dict[tuple[str, str], list[str]] = {}
    for key, kind in independence.KEYS.items():
        model, _, name = key.partition(".")
        if kind != "rule" and key not in INNER:
            by_model.setdefault((kind, model), []).append(f"`{name}`")
    rows = [(f"*{kind}*", f"`{model}`", ", ".join(names)) for (kind, model), names in by_model.items()]
    parts.append(table(("what", "of", "keys"), rows))
    for title, rules in (
        ("With a public schedule", independence.PUBLIC_RULES),
        ("With a secret one, too", independence.SECRET_RULES),
    ):
        refusals = [
            (", ".join(f"`{key}`" for key in rule.keys.split() if key not in INNER), rule.why, rule.instead)
            for rule in rules
        ]
        parts += [f"## {title}", table(("keys", "refused where", "accepted"), refusals)]
    return "\n\n".join(parts)


def python() -> str:
    """Return the page of public names, with their signatures and the first words of their docstrings."""
    parts = [
        "# Python names",
        "What `import fedsim` offers; [the Python interface](../api.md) shows how it goes together, and "
        "`help(fedsim.NAME)` prints parameters and errors.",
    ]
    named = {name: getattr(fedsim, name) for name in fedsim.__all__ if name != "__version__"}
    functions = {name: each for name, each in named.items() if inspect.isfunction(each)}
    parts += [
        "## Functions",
        table(("function", "what it does"), [_row(name, each) for name, each in functions.items()]),
    ]
    methods_of = {"Scenario": ("load", "with_values"), "Result": ("model", "save", "report", "fact", "of_reports")}
    for name, methods in methods_of.items():
        rows = [_row(f"{name}.{each}", getattr(named[name], each)) for each in methods]
        parts += [
            f"## {name}",
            words(inspect.getdoc(named[name])).partition("\n\n")[0],
            table(("method", "what it does"), rows),
        ]
    errors = [
        (f"`{name}`", words(inspect.getdoc(each)).partition("\n\n")[0])
        for name, each in named.items()
        if name.endswith("Error")
    ]
    parts += ["## Errors", table(("error", "meaning"), errors)]
    parts += [
        "## For code of your own",
        "What the other pages import.",
        table(("import", "what it is"), [_imported(*each) for each in imported()]),
    ]
    return "\n\n".join(parts)


def imported() -> list[tuple[str, str]]:
    """Return every module of the package from which a page imports, with the name that it takes, in order."""
    pages_read = [each for each in sorted(FOLDER.parent.rglob("*.md")) if each.parent != FOLDER]
    texts = [each.read_text(encoding="utf-8") for each in (FOLDER.parents[1] / "README.md", *pages_read)]
    lines = [
        line
        for text in texts
        for line in re.findall(r"^(?:>>> )?from (fedsim\.[\w.]+) import (.+)$", text, re.MULTILINE)
    ]
    return sorted({(module, name.strip()) for module, names in lines for name in names.split(",")})


def _imported(module: str, name: str) -> tuple[str, str]:
    optional = module in {"fedsim.flower", "fedsim.jax_privacy", "fedsim.pfl"}  # what they need may not be installed
    if optional:
        return f"`{module}.{name}`", f"[Other frameworks](../frameworks.md): {_OF_FRAMEWORKS[module]}."
    each = getattr(import_module(module), name)
    return f"`{module}.{name}`", words(inspect.getdoc(each)).partition("\n\n")[0]


_OF_FRAMEWORKS = {"fedsim.flower": "Flower", "fedsim.jax_privacy": "JAX-Privacy", "fedsim.pfl": "pfl-research"}


def _row(name: str, function: Any) -> tuple[str, str]:
    shown, keywords = list[str](), False
    for each in inspect.signature(inspect.unwrap(function)).parameters.values():
        if each.name in {"self", "cls"}:
            continue
        if each.kind is each.KEYWORD_ONLY and not keywords:
            shown, keywords = [*shown, "*"], True
        plain = isinstance(each.default, str | int | float | bool | tuple | type(None))
        default = "" if each.default is each.empty else f"={each.default!r}" if plain else "=..."
        shown.append(f"{each.name}{default}")
    return f"`{name}({', '.join(shown)})`", words(inspect.getdoc(function)).partition("\n\n")[0]


def main() -> None:
    """Write the pages that have changed."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        file = FOLDER / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            sys.stderr.write(f"{file.name} has changed\n")


if __name__ == "__main__":
    main()
