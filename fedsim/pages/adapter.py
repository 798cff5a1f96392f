"""The report of an answer in the older form, until printers take answers."""

from fedsim.pages.answer import NEXT, TRUST, Answer
from fedsim.pages.document import ReportDocument, Section
from fedsim.pages.finding import Finding, Tile


def document_from(answer: Answer) -> ReportDocument:
    """Return an answer as the document that pages, summaries and figures are made of."""
    order = list(dict.fromkeys((*(each.about for each in answer.sentences), TRUST)))
    said = [Finding(each.text, TRUST, warns=True, name=each.name) for each in answer.alarms]
    said += [Finding(each.text, each.about, command=each.command) for each in answer.sentences]
    said.sort(key=lambda each: order.index(each.about))
    said += [Finding(each.text, NEXT, command=each.command) for each in answer.remedies]
    sections = tuple(
        Section(each.name, each.title, each.charts, each.tables, folded=each.folded) for each in answer.sections
    )
    return ReportDocument(
        kind=answer.kind,
        name=answer.name,
        finding=answer.headline,
        question=answer.question,
        setup=answer.setup,
        description=answer.description,
        status=answer.status,
        verdict=answer.verdict,
        answer=said,
        tiles=[Tile(each.value, each.label, each.detail) for each in answer.tiles],
        picture=answer.picture,
        sections=sections,
        names=answer.figures,
        tables=[table for each in answer.sections if not each.folded for table in each.tables],
        origins=answer.origins,
    )
