"""An answer as lines of a terminal."""

from collections.abc import Iterator

from fedsim.common.messages import folded
from fedsim.pages.answer import NEXT, Answer


def spoken(answer: Answer) -> Iterator[str]:
    """Yield the headline, what became of expectations, the first sentence about each question, alarms, what to do."""
    yield folded(answer.headline)
    about = set[str]()
    for each in answer.sentences:
        if each.about not in about:
            about.add(each.about)
            yield folded(f"{each.about}: {each.text}")
    alarms = [each for each in answer.alarms if each.text != answer.headline]
    yield from (folded(f"{each.state}, {each.name}: {each.text}") for each in alarms)
    remedies = list(answer.remedies)
    if remedies:
        yield f"{NEXT}:"
    for each in remedies:
        yield folded(f"  {each.text}")
        yield from (f"    {line}" for line in each.command.splitlines())
