"""The leader-epoch cache, against the cases of Kafka's
LeaderEpochFileCacheTest (KIP-101, KIP-279).
"""

from __future__ import annotations

import pytest

from parley.devcluster.state.log.epochs import EpochCache


def cache(*entries: tuple[int, int]) -> EpochCache:
    made = EpochCache()
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # below the first known: the requested epoch ends where the first one begins
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),  # unknown between known ones: the largest below
        (4, (4, 30)),
        (5, (5, 50)),  # the latest ends at the log's end
        (6, (-1, -1)),  # above the latest
    ],
)
def test_where_an_epoch_ends(asked: int, answer: tuple[int, int]) -> None:
    known = cache((2, 10), (4, 20), (5, 30))
    assert known.end_of(asked, 50) == answer


def test_nothing_is_known_of_an_empty_cache() -> None:
    assert EpochCache().end_of(0, 0) == (-1, -1)
    assert EpochCache().latest == -1


def test_old_and_equal_epochs_change_nothing() -> None:
    known = cache((2, 10), (4, 20))
    known.assign(4, 25)
    known.assign(3, 26)
    assert known.entries() == [(2, 10), (4, 20)]


def test_an_epoch_that_wrote_nothing_leaves_no_trace() -> None:
    known = cache((2, 10), (3, 20), (5, 20))
    assert known.entries() == [(2, 10), (5, 20)]


def test_truncation_from_both_ends() -> None:
    known = cache((2, 10), (4, 20), (5, 30))
    known.truncate_from_end(30)
    assert known.entries() == [(2, 10), (4, 20)]
    known.truncate_from_start(25)
    assert known.entries() == [(4, 25)]
    known.truncate_from_end(0)
    assert len(known) == 0


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 4), (1000, 5)])
def test_which_epoch_wrote_an_offset(offset: int, epoch: int) -> None:
    assert cache((2, 10), (4, 20), (5, 30)).epoch_at(offset) == epoch
