"""Flower's own warnings and messages are not the matter of these tests."""

import logging

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: .ci/frameworks makes an environment of its own for it")
logging.getLogger("flwr").setLevel(logging.CRITICAL)
