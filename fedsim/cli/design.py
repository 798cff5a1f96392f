"""The command ``fedsim design``: weights of the server for a wanted participation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option

from fedsim.cli import options
from fedsim.common.messages import complain, say, say_json

if TYPE_CHECKING:
    from fedsim.common.arrays import Floats
    from fedsim.run.design import Design
    from fedsim.scenario import Scenario


def design_command(
    file: options.ScenarioPath,
    out: Annotated[
        Path,
        Option(
            metavar="NEW",
            help="The scenario to write, NEW.fedsim.yaml; its weights, and what is drawn, stand beside it as CSV.",
        ),
    ],
    target: Annotated[
        str, Option(metavar="uniform|FILE", help="A CSV or Parquet file with a column `target`, a row for each client.")
    ] = "uniform",
    override: options.Overrides = None,
    seed: options.Seed = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
) -> None:
    """Find the server's weights under which clients take part as you want, and what that costs in pace."""
    from fedsim.common.progress import on_stderr
    from fedsim.measure.frequencies import l1
    from fedsim.run.design import design

    scenario = options.load_scenario(file, override, seed, allow_plugins, allow_outside)
    if not out.name.endswith((".yaml", ".yml")):
        raise BadParameter(f"{str(out)!r} must end in .fedsim.yaml", param_hint="--out")
    if out.absolute().parent != scenario.folder.absolute():
        raise BadParameter(f"must be in the folder of {file}, whose files it names", param_hint="--out")
    wanted = None if target == "uniform" else options.parse_option(_read_target, target, "--target")
    with on_stderr() as progress:
        answer = design(scenario, wanted, progress)
    _write(scenario, answer, out)
    if as_json:
        plain = {name: getattr(answer, name).tolist() for name in ("weights", "wanted", "expected")}
        plain |= {
            "missed": answer.missed.nonzero()[0].tolist(),
            "before": vars(answer.before),
            "after": vars(answer.after),
            "error": answer.error,
            "other_seed": answer.other_seed and vars(answer.other_seed),
        }
        say_json({"file": str(out), "method": answer.method, **plain})
        return
    before, after = answer.before, answer.after
    say(f"weights: {answer.weights.min():.3g} to {answer.weights.max():.3g} times their mean, by {answer.method}")
    say(
        f"distance from the target (TV), simulated: {before.tv:.2%}, and {after.tv:.2%} with these weights; "
        f"expected: {l1(answer.expected, answer.wanted) / 2:.2%}, without chance"
    )
    if answer.error:
        say(f"error of what is expected, for a client: up to {answer.error:.2%}, as the mean field estimates it")
    if answer.other_seed is not None:
        say(f"with another seed, which draws anew who is there, the distance is {answer.other_seed.tv:.2%}")
    for what in ("updates", "reports"):
        old, new = (getattr(each, f"{what}_per_day") for each in (before, after))
        say(f"pace: {old:.4g} {what} per day, and {new:.4g} with these weights ({new / old - 1:+.1%})")
    if answer.missed.any():
        complain(_missed(answer))
        if scenario.server.selection.kind == "midzuno" and scenario.server.wanted > 1:
            complain("note: midzuno takes one client of a round by weight; `selection: successive` takes all")
    say(str(out))


def _missed(design: "Design") -> str:
    """Say how many clients cannot have what is wanted, and how much of it they have."""
    part = (design.expected / design.wanted)[design.missed]
    few, many = int((part < 1).sum()), int((part > 1).sum())
    parts = [f"{few:,} have less, down to {part.min():.2f} of it"] if few else []
    parts += [f"{many:,} have more, up to {part.max():.2f} times it"] if many else []
    return (
        f"note: with these weights {len(part):,} of {len(design.wanted):,} clients are more than 1 % away from what is "
        f"wanted: {'; '.join(parts)}; separations, cool-downs and availability limit what weights can do"
    )


def _read_target(path: str) -> "Floats":
    """Return the column `target` of a file."""
    from fedsim.population.client_files import read_numbers
    from fedsim.scenario.sources import Column

    return read_numbers(Column(kind="column", file=path, column="target"), Path).astype("float64")


def _write(scenario: "Scenario", design: "Design", out: Path) -> None:
    """Write the weights of each group and all else that is drawn for its clients as CSV, and what reads them."""
    import polars as pl

    from fedsim.common.files import write_new
    from fedsim.population import drawn_columns
    from fedsim.scenario import checked_text

    stem, first, texts, values = out.name.partition(".")[0], 0, {}, dict[str, Any]()
    for number, drawn in enumerate(drawn_columns(scenario)):
        group = scenario.population[number]
        columns = drawn | {"weight": design.weights[first : first + group.devices]}
        first += group.devices
        name = f"{stem}.weights.csv" if len(scenario.population) == 1 else f"{stem}.weights-{number + 1}.csv"
        texts[out.with_name(name)] = pl.DataFrame(columns).write_csv()
        for key in columns:
            values[f"population.{number}.{key}"] = {"kind": "column", "file": name, "column": key}
    texts[out] = checked_text(scenario.with_values(values).as_written, out)
    write_new(texts, "choose another name by --out")
