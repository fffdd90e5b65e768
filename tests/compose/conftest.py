"""The images are built once for all tests here."""

import time
from collections.abc import Iterator

import pytest

from tests.compose.system import BUILT, ComposeSystem, compose_system, engine_missing, image_bytes

BUILD_DEADLINE_S = 2400.0


@pytest.fixture(scope="session")
def images() -> None:
    """Images of this working tree."""
    missing = engine_missing()
    if missing is not None:
        pytest.skip(missing)
    with compose_system() as system:
        started = time.monotonic()
        for service in BUILT:  # one after the other: each compiles or installs on all cores
            system.compose("build", service, deadline_s=BUILD_DEADLINE_S)
        print(f"\nimages built in {time.monotonic() - started:.0f} s")
    for service in BUILT:
        print(f"gagpo-{service}: {image_bytes(service) / 1e6:.0f} MB")


@pytest.fixture
def system(images: None) -> Iterator[ComposeSystem]:
    """A project of its own, not yet started, taken down with its volumes."""
    with compose_system() as found:
        yield found
