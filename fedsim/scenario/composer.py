"""A YAML composer that stops where a file has more values, or is nested more deeply, than any scenario is."""

from typing import Any

from ruamel.yaml.composer import Composer
from ruamel.yaml.nodes import Node

MOST_NODES = 300_000
MOST_DEEP = 100


class DocumentTooLargeError(Exception):
    """The file is too large to be kept in memory; `mark` is where it gets so."""

    def __init__(self, message: str, mark: Any) -> None:
        super().__init__(message)
        self.mark = mark


class BoundedComposer(Composer):
    """Counts keys and values while they are read: each takes about 2 KB, whatever it says."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader=loader)
        self.warn_double_anchors = False
        self._nodes = self._deep = 0

    def compose_node(self, parent: Any, index: Any) -> Node:
        """Return the node that begins here."""
        self._nodes += 1
        self._deep += 1
        mark = self.parser.peek_event().start_mark
        if self._nodes > MOST_NODES:
            raise DocumentTooLargeError(
                f"has more than {MOST_NODES:,} keys and values; long lists fit in a file's column", mark
            )
        if self._deep > MOST_DEEP:
            raise DocumentTooLargeError(f"is nested too deeply: more than {MOST_DEEP} levels", mark)
        node: Node = super().compose_node(parent, index)
        self._deep -= 1
        return node
