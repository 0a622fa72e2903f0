"""Each handler file says truly what it serves, and the registration agrees (style rule 10)."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from parley.devcluster import handlers
from parley.devcluster.handlers import MODULES, SERVED, SERVED_APIS
from parley.devcluster.handlers.h03_metadata import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from parley.devcluster.release.profile import make_profile
from parley.errors import ConfigError
from parley.frames import EmptyFrames
from parley.schema import ApiKey, load
from parley.versions import releases

HEADER = re.compile(r"(\w+) \((\d+)\), v(\d+)-(\d+)\.")
SECTIONS = ("\n\nBehaviours:\n- ", "\n\nVersion notes:\n- ", "\n\nNot implemented: ")
each_module = pytest.mark.parametrize(
    "module", MODULES, ids=lambda module: module.__name__.rsplit(".", 1)[-1]
)


@each_module
def test_header_and_registration_agree(module: ModuleType) -> None:
    assert module.__doc__ is not None
    head = HEADER.match(module.__doc__)
    assert head is not None, "the first line is `Name (key), vMIN-MAX.`"
    name, key, low, high = head[1], int(head[2]), int(head[3]), int(head[4])
    assert (key, low, high) == (module.API.key, *module.API.versions)
    assert name == load(ApiKey(key)).name
    for section in SECTIONS:
        assert module.__doc__.count(section) == 1, f"section {section.strip()} is missing"


@each_module
def test_file_name_says_key_and_name(module: ModuleType) -> None:
    api = module.API.key
    assert module.__name__.rsplit(".", 1)[-1] == f"h{int(api):02d}_{api.name.lower()}"


def test_every_handler_file_is_registered() -> None:
    files = {path.stem for path in Path(handlers.__file__).parent.glob("h[0-9]*.py")}
    assert files == {module.__name__.rsplit(".", 1)[-1] for module in MODULES}
    assert len(SERVED_APIS) == len(MODULES)


@pytest.mark.parametrize("name", list(releases()))
def test_every_release_can_be_spoken(name: str) -> None:
    profile = make_profile(name, SERVED)  # raises where a handler lacks an advertised version
    assert profile.ranges
    assert all(profile.ranges[key] == profile.release.ranges[key] for key in profile.ranges)


def test_a_version_that_is_advertised_and_not_written_is_a_bug() -> None:
    with pytest.raises(ValueError, match="API 1"):
        make_profile("4.3", {**SERVED, 1: releases()["0.9.0.1"].ranges[1]})


@pytest.mark.parametrize(
    ("release", "controller", "frames", "name_checks", "closes"),
    [
        ("0.9", True, EmptyFrames.IGNORE, False, False),
        ("0.11", True, EmptyFrames.IGNORE, False, False),
        ("1.0", True, EmptyFrames.REJECT, False, False),
        ("2.4", True, EmptyFrames.REJECT, True, False),
        ("3.3", False, EmptyFrames.REJECT, True, False),
        ("4.0", False, EmptyFrames.REJECT, True, True),
        ("4.3", False, EmptyFrames.REJECT, True, True),
    ],
)
def test_behaviours_by_release(
    release: str, controller: bool, frames: EmptyFrames, name_checks: bool, closes: bool
) -> None:
    found = make_profile(release, SERVED).behaviour
    assert (found.names_controller, found.empty_frames) == (controller, frames)
    assert (found.checks_client_name, bool(found.closes)) == (name_checks, closes)


def test_an_unknown_release_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r'Did you mean "3\.9\.1"'):
        make_profile("3.9.7", SERVED)


def test_authorized_operations_are_those_of_a_broker_without_authorizer() -> None:
    """AclOperation numbers: read 3 … idempotent write 12; the sets are
    AclEntry.supportedOperations.
    """
    assert [bit for bit in range(16) if CLUSTER_OPERATIONS >> bit & 1] == [5, 7, 8, 9, 10, 11, 12]
    assert [bit for bit in range(16) if TOPIC_OPERATIONS >> bit & 1] == [3, 4, 5, 6, 7, 8, 10, 11]
