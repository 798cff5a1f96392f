"""The commands ``fedsim plugin new | check``: classes of one's own, begun and tried."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Exit, Option, Typer

from fedsim.cli import options
from fedsim.common.errors import PluginError
from fedsim.common.messages import complain, keep_quiet, say, say_json

plugin_app = Typer(
    name="plugin", cls=options.CommandGroup, help="Classes of your own: begin one, and check it.", no_args_is_help=True
)
_SKELETONS = {
    each.name.removesuffix(".txt"): each
    for each in (files("fedsim.cli") / "skeletons").iterdir()
    if each.name != "test.txt"
}
_ROLE_NAMES = ", ".join(sorted(name.replace("_", "-") for name in _SKELETONS))


@plugin_app.command("new")
def new_command(
    role: Annotated[str, Argument(metavar="ROLE", help=f"What it is to be: {_ROLE_NAMES}.")],
    out: Annotated[Path | None, Option(metavar="FILE", help="The file to write; by default my_ROLE.py.")] = None,
    force: Annotated[bool, Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write a class that works, to be changed into your own, and its test beside it."""
    from fedsim.common.files import write_new

    if (name := role.replace("-", "_").replace(" ", "_")) not in _SKELETONS:
        raise BadParameter(f"{role!r} is none of {_ROLE_NAMES}", param_hint="ROLE")
    file = out or Path(f"my_{name}.py")
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise BadParameter(f"{str(file)!r} cannot be imported: it must be a name such as my_law.py", param_hint="--out")
    code, test = _SKELETONS[name].read_text(encoding="utf-8").split("# --- test ---\n")
    common = (files("fedsim.cli") / "skeletons" / "test.txt").read_text(encoding="utf-8")
    written = {file: code.rstrip() + "\n", file.with_name(f"test_{file.name}"): common + test}
    written = {path: text.replace("MODULE", file.stem) for path, text in written.items()}
    write_new(written, "choose another name by --out, or replace it with --force", force=force)
    say("\n".join(map(str, written)))
    complain(f"Check it: fedsim plugin check {file}, or run its test: pytest {file.with_name(f'test_{file.name}')}")


def _draw(run: Path) -> None:
    """Draw the charts of a run's own; raise a `PluginError` if one fails."""
    from fedsim.pages.own_charts import own_charts
    from fedsim.run.load import load_one

    if failures := [each.failure for each in own_charts(load_one(run), plugins=True) if each.failure]:
        raise PluginError(failures[0].partition(" failed: ")[2])


@plugin_app.command("check")
def check_command(
    what: Annotated[str, Argument(metavar="FILE[:NAME]", help="A Python file, which is run; all its classes, or one.")],
    values: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="An argument of its constructor; repeatable.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Use classes of your own in both engines, in another process, in a resumed run, and in other small federations."""
    from fedsim.ci.plugin_checks import check_class, classes_in
    from fedsim.scenario.document import Document
    from fedsim.scenario.roles import registry_of

    given, show = Document({}), keep_quiet if as_json else say
    for each in values or []:
        given.override(each)
    file, _, name = what.partition(".py:")
    results, failed = list[dict[str, object]](), False
    for role, cls in classes_in(Path(f"{file}.py" if name else what), name):
        show(f"{cls.__name__}, {registry_of(role).article} {role}:")
        done = list[dict[str, str]]()
        for check in check_class(role, cls, given.data, _draw):
            failed |= check.result == "FAILED"
            show(f"  {check.result:<8}  {check.name}{check.message and f': {check.message}'}")
            done.append(check._asdict())
        results.append({"class": cls.__name__, "role": role, "checks": done})
    if as_json:
        say_json(results)
    raise Exit(int(failed))
