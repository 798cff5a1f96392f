"""Logs of sessions as teams have them: CSV, also gzipped, Parquet or NDJSON, with columns and words of any name."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl

from fedsim.availability.trace.bulk import bulk
from fedsim.availability.trace.rows import LONGEST_NAME, LONGEST_S, TraceError, refuse_row
from fedsim.common.files import UNREADABLE
from fedsim.common.hints import did_you_mean
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.common.memory import too_much
from fedsim.common.outcomes import HOWS, OUTCOME_OF, SESSION_OUTCOMES
from fedsim.scenario.log import LOG_ROLES, ProductionLog
from fedsim.scenario.units import check_time_zone
from fedsim.traces.table_form import SINCE_1970, UNITS, read_times, scan_table

USUAL = {
    "selected": ("selected_s", "selected", "selected_ms"),
    "ended": ("ended_s", "ended", "ended_ms"),
    "class": ("class", "group"),
}
"""Names that columns of a log have where nobody says others, beside those of their roles."""
WORDS: dict[str, str] = {outcome: each.how for outcome, each in SESSION_OUTCOMES.items()} | {"cut": "cut"}
"""What words of a log mean where nobody says so: those of `HOWS`, and those of a run."""
_LARGEST_LOG = 64 * 2**30
_BYTES_OF_A_ROW = 150
_IN_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SessionLog:
    """The sessions of a log, in the order of their selection; times in seconds since `base`.

    Columns: ``client``, its place in `names`; ``selected_s``, ``ended_s``, ``outcome``, a word of
    `fedsim.common.outcomes`, ``how`` it ended, of its `HOWS`; where the log has them ``class``,
    ``time_zone``, one of each for a client, ``weight``, ``round`` and ``staleness``.
    """

    base: datetime
    names: pl.Series
    table: pl.DataFrame
    columns: Mapping[str, str]  # of the file, by role
    notes: tuple[str, ...] = ()  # how it was read, and what was left out

    @property
    def buffered(self) -> bool:
        """Whether it is of a buffered server, which gives late sessions up at the deadline."""
        return "staleness" in self.table.columns

    def seconds(self, day: str) -> float:
        """Return the seconds from the base to a day, or an instant, at the base's offset where it has none."""
        instant = datetime.fromisoformat(day)
        return ((instant if instant.tzinfo else instant.replace(tzinfo=self.base.tzinfo)) - self.base).total_seconds()

    def part(self, since: float | None, until: float | None) -> "SessionLog":
        """Return the sessions that began in [since, until), seconds from the base."""
        first, last = -np.inf if since is None else since, np.inf if until is None else until
        if not len(table := self.table.filter(pl.col("selected_s").is_between(first, last, "left"))):
            raise TraceError("the log has no session in the part that is kept")
        return replace(self, table=table)


def read_log(path: Path, asked: ProductionLog | None = None) -> SessionLog:
    """Read a log as `asked`, which names columns and says what words and numbers mean.

    Rows that are there twice count once. Left out are rows without a begin, an end and an outcome in order, and those
    far from all others in time. A client that has several classes or time zones has the one of most of its sessions.
    Raises a `TraceError` with the place of what is wrong.
    """
    asked = asked or ProductionLog.model_construct(file=str(path))
    return _Reader(path, asked).read()


class _Reader:
    """Reads one log; `_place` is the number of each row that is held, from 0."""

    def __init__(self, path: Path, asked: ProductionLog) -> None:
        self._path, self._asked, self._notes = path, asked, list[str]()
        self._scan, self._first = scan_table(path, _LARGEST_LOG)
        try:
            self._there = self._scan.collect_schema().names()
        except UNREADABLE as error:
            raise TraceError(str(error).strip().partition("\n")[0], str(path)) from None
        self._names = {role: name for role in LOG_ROLES if (name := self._named(role)) is not None}

    def _named(self, role: str) -> str | None:
        given = self._asked.columns.get(role)
        if given is not None and given not in self._there:
            self._lacks(role, given)
        if given is not None:
            return given
        usual = USUAL.get(role, (role,))
        column = next((name for name in usual if name in self._there), None)
        if column is None and role in LOG_ROLES[:4]:
            self._lacks(role, usual[0])
        return column

    def _lacks(self, role: str, name: str) -> NoReturn:
        hint, have = did_you_mean(name, self._there), ", ".join(self._there)[:200]
        message = f"has no column {name!r}{hint}; it has {have}. --columns {role}=NAME says which one it is"
        raise TraceError(message, str(self._path))

    def read(self) -> SessionLog:
        """Return the log."""
        table = self._collected()
        words = table["outcome"].str.strip_chars().str.to_lowercase()
        how, (times, base) = self._meant(words), self._times(table.select("selected", "ended", "_place"))
        clients = table["client"].unique(maintain_order=True)
        codes = {"client": table["client"].cast(pl.Enum(clients)).to_physical().cast(pl.Int64)}
        codes |= {"how": how.cast(pl.Enum(HOWS)), "outcome": words.cast(pl.Enum(words.drop_nulls().unique().sort()))}
        table = table.drop("selected", "ended").with_columns(times, **codes)
        for role in {"weight", "round", "staleness"} & {*self._names}:
            table = table.with_columns(self._number(table[role], role, table["_place"]))
        table = self._sessions(table)
        for role in ("class", "time_zone"):
            if role in self._names:
                table = self._one_each(table, role, clients)
        if "time_zone" in self._names:
            self._check_zones(table)
        order = ["round", "selected_s"] if "round" in self._names else ["selected_s"]
        table = table.drop("_place")
        if not all(table[name].is_sorted() for name in order):
            table = table.sort(order, maintain_order=True)
        return SessionLog(base, clients, table, self._names, tuple(self._notes))

    def _collected(self) -> pl.DataFrame:
        texts = {"client", "outcome", "class", "time_zone"}
        wanted = [
            pl.col(name).cast(pl.String).alias(role) if role in texts else pl.col(name).alias(role)
            for role, name in self._names.items()
        ]
        try:
            rows = int(self._scan.select(pl.len()).collect().item())
            if why := too_much(_BYTES_OF_A_ROW * rows):
                raise TraceError(f"has {rows:,} rows, which {why}", str(self._path))
            schema = self._scan.collect_schema()
            for role in texts & {*self._names}:
                if (dtype := schema[self._names[role]]).is_nested() or dtype in (pl.Binary, pl.Object):
                    message = f"column {self._names[role]!r} holds {dtype}, neither text nor numbers"
                    raise TraceError(message, str(self._path))
            table = self._scan.select(wanted).collect()
        except UNREADABLE as error:
            raise TraceError(str(error).strip().partition("\n")[0], str(self._path)) from None
        table = table.with_row_index("_place").filter(~pl.all_horizontal(pl.exclude("_place").is_null()))
        if not len(table):
            raise TraceError("has no rows", str(self._path))
        unnamed = table.filter(pl.col("client").is_null())
        if len(unnamed):
            self._refuse(unnamed["_place"][0], "", f"{self._names['client']} must not be empty")
        longest = table["client"].str.len_bytes().max()
        if isinstance(longest, int) and longest > LONGEST_NAME:
            message = f"has a name of a client of {longest:,} bytes; at most {LONGEST_NAME:,} are possible"
            raise TraceError(message, str(self._path))
        return table

    def _refuse(self, place: int, text: str, message: str) -> NoReturn:
        refuse_row(place, text, self._path, self._first, message)

    def _meant(self, words: pl.Series) -> pl.Series:
        meant = WORDS | {word.strip().lower(): how for word, how in self._asked.outcomes.items()}
        if "staleness" in self._names and "late" not in self._asked.outcomes:
            meant["late"] = "cut"  # a buffered server has given it up
        if strange := sorted({*words.drop_nulls().unique()} - {*meant}):
            problem = f"column {self._names['outcome']!r} has {', '.join(map(repr, strange[:5]))}"
            asked = f"--outcomes reported={strange[0]},dropped=..."
            message = f"{problem}, and a session ends as {', '.join(WORDS)}; {asked} says what is meant"
            raise TraceError(message, str(self._path))
        return words.replace_strict(meant, return_dtype=pl.String)

    def _number(self, written: pl.Series, role: str, place: pl.Series) -> pl.Series:
        if written.dtype.is_numeric():
            return written.cast(pl.Float64).alias(role)
        texts = written.cast(pl.String).str.strip_chars().replace("", None)
        numbers = texts.cast(pl.Float64, strict=False)
        bad = texts.is_not_null() & numbers.is_null()
        if bad.any():
            at = int(bad.arg_max() or 0)
            self._refuse(place[at], texts[at], f"{self._names[role]} must be a number, not {texts[at][:40]!r}")
        return numbers.alias(role)

    def _times(self, written: pl.DataFrame) -> tuple[list[pl.Series], datetime]:
        """Return the two times in seconds since the base, and the base; the first note says how they were read."""
        places = written["_place"]

        def refuse(row: int, text: str, message: str) -> NoReturn:
            self._refuse(places[row], text, message)

        read = [read_times(written[role], self._names[role], self._path, refuse) for role in ("selected", "ended")]
        kinds = {kind for kind, _ in read if kind}
        if len(kinds) > 1:
            ways = " and ".join(
                f"{self._names[r]} as {k}" for r, (k, _) in zip(("selected", "ended"), read, strict=True)
            )
            raise TraceError(f"writes {ways}", str(self._path))
        kind, (selected, ended) = next(iter(kinds), "numeric"), [values for _, values in read]
        base = self._asked.base
        if kind == "numeric":
            unit, since_1970, how = self._unit(selected, ended)
            selected, ended = (values / UNITS[unit] for values in (selected, ended))
            if since_1970 and base is not None and base != _EPOCH:
                message = f"has times in {_IN_WORDS[unit]} since 1970, so that they have no other base; leave it out"
                raise TraceError(message, str(self._path))
            if not since_1970 and base is None:
                message = f"has times in {_IN_WORDS[unit]} from an instant of its own; --base says from which one"
                raise TraceError(message, str(self._path))
            self._notes.append(f"times: {_IN_WORDS[unit]} since {'1970' if since_1970 else 'the base'}{how}")
            second_0 = 0.0 if since_1970 else None
        else:
            words = {"civil": "dates without a zone, at the offset of the base", "zoned": "dates with a zone"}
            self._notes.append(f"times: {words[kind]}")
            second_0 = 0.0
        for role, values in (("selected", selected), ("ended", ended)):
            wild = values.is_finite().fill_null(False) & (values.abs() > 2 * LONGEST_S)
            if wild.any():
                refuse(int(wild.arg_max() or 0), "", f"{self._names[role]} is impossible; is its unit another?")
        finite = selected.filter(selected.is_finite().fill_null(False)).to_numpy()
        if not len(finite):
            raise TraceError("has no session with a time", str(self._path))
        if second_0 is not None:
            if base is None or base == _EPOCH:
                base = _EPOCH + timedelta(days=float(bulk(finite)[0] // DAY_S))
            second_0 = (base.replace(tzinfo=UTC) if kind == "civil" else base).timestamp()
        assert base is not None, "numbers that are relative have one"
        both = {"selected_s": selected - (second_0 or 0.0), "ended_s": ended - (second_0 or 0.0)}
        return [values.alias(name) for name, values in both.items()], base

    def _unit(self, selected: pl.Series, ended: pl.Series) -> tuple[str, bool, str]:
        """Return the unit of numbers, whether they count from 1970, and how that is known."""
        usual = float(selected.drop_nans().median() or 0.0)  # type: ignore[arg-type]
        given = self._asked.unit or ("ms" if self._names["selected"].endswith("_ms") else None)
        if given is not None:
            return given, usual / UNITS[given] >= SINCE_1970["s"], ""
        for unit, least in [*SINCE_1970.items()][:-1]:
            if usual >= least:
                return unit, True, " by their size"
        times, length = selected.drop_nans(), float((ended - selected).drop_nans().median() or 0.0)  # type: ignore[arg-type]
        span, whole = float(times.max() or 0.0) - float(times.min() or 0.0), bool((times.drop_nulls() % 1 == 0).all())  # type: ignore[arg-type]
        if whole and length >= HOUR_S and span >= 30 * DAY_S:
            note = f"; as seconds, the median session would take {length:,.0f} s (--unit s says that it does)"
            return "ms", False, note
        since_1970 = usual >= SINCE_1970["s"]
        return "s", since_1970, " by their size" * since_1970

    def _sessions(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that are sessions, each once."""
        same = [name for name in ("client", "selected_s", "ended_s", "outcome", "round") if name in table.columns]
        every = table.select(same).hash_rows().n_unique() == len(table)  # faster than to look for the rows themselves
        once = table if every else table.unique(same, keep="first", maintain_order=True)
        if twice := len(table) - len(once):
            self._notes.append(f"left out {twice:,} rows that repeat others: client, times and outcome are the same")
        whole = once.filter(
            pl.col("selected_s").is_finite() & (pl.col("ended_s") >= pl.col("selected_s")) & pl.col("how").is_not_null()
        )
        if len(whole) < len(once) / 2:
            problem = f"{len(once) - len(whole):,} of {len(once):,} rows lack an outcome, or an end after the begin"
            raise TraceError(f"{problem}; an end is an instant, not a length", str(self._path))
        first, last = bulk(whole["selected_s"].to_numpy())
        whole = whole.filter(pl.col("selected_s").is_between(first, last))
        if left_out := len(once) - len(whole):
            self._notes.append(
                f"left out {left_out:,} rows: no begin, end and outcome in order, or far from all others"
            )
        usual = float(np.median((whole["ended_s"] - whole["selected_s"]).to_numpy()))
        if usual > DAY_S:
            problem = f"has sessions of {usual / DAY_S:.3g} days in the median"
            raise TraceError(f"{problem}; is an end a length, or the unit another?", str(self._path))
        if "round" in whole.columns:
            numbers = pl.col("round").is_finite() & pl.col("round").is_between(0, 2**31 - 2)
            if len(numbered := whole.filter(numbers)) < len(whole):
                self._notes.append(f"{len(whole) - len(numbered):,} rows have no number of a round: no rounds are told")
                self._names.pop("round")
                whole = whole.drop("round")
        words = [word for word in WORDS if word not in {each.strip().lower() for each in self._asked.outcomes}]
        whole = whole.with_columns(pl.col("outcome", "how").cast(pl.String))
        outcome = pl.when(pl.col("outcome").is_in(words)).then("outcome").otherwise("how")
        return whole.with_columns(outcome=outcome.replace(OUTCOME_OF))

    def _one_each(self, table: pl.DataFrame, role: str, names: pl.Series) -> pl.DataFrame:
        """Give each client one class, or one time zone: that of most of its sessions."""
        values = table[role].replace("", None).fill_null("unnamed" if role == "class" else "UTC")
        words = values.unique().sort()
        pairs = table["client"] * len(words) + values.cast(pl.Enum(words)).to_physical()
        counts = pairs.alias("pair").value_counts(name="len")
        counts = counts.with_columns(client=pl.col("pair") // len(words), word=pl.col("pair") % len(words))
        each = counts.sort("client")
        if each["client"].n_unique() < len(each):
            each = counts.sort("client", "len", "word", descending=[False, True, False])
            several = int((each["client"].value_counts()["count"] > 1).sum())
            each = each.unique("client", keep="first", maintain_order=True)
            noun = "class" if role == "class" else "time zone"
            what = f"{several:,} of {len(names):,} clients have more than one {noun}"
            self._notes.append(f"{what}: each has the one of most of its sessions")
        of_client = np.zeros(len(names), dtype=np.uint32)
        of_client[each["client"].to_numpy()] = each["word"].to_numpy()
        return table.with_columns(words.gather(pl.Series(of_client[table["client"].to_numpy()])).alias(role))

    def _check_zones(self, table: pl.DataFrame) -> None:
        for zone in table["time_zone"].unique().sort():
            try:
                check_time_zone(zone)
            except ValueError as error:
                rows = table.filter(time_zone=zone)
                self._refuse(int(rows["_place"].min() or 0), zone, f"{self._names['time_zone']}: {error}")  # type: ignore[arg-type]
