from __future__ import annotations

import pytest

from tests.docs.shell import Shell


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One folder for all pages, so that the plan of the quick start is simulated once."""
    return Shell(tmp_path_factory.mktemp("docs"))
