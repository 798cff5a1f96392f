"""Mechanisms that tests find are kept apart from those of whoever runs them."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
