"""When metadata is asked for again, and for which topics: wishes, pauses without news, age."""

from parley.client.cluster.metadata_cache import MetadataCache
from parley.client.cluster.refresh import RefreshSchedule
from parley.client.cluster.retry import Backoff
from parley.client.cluster.view import (
    MetadataUpdate,
)

from .metadata_answers import NODES, answer, cache_with


def schedule(max_age_ms=300_000):
    made = RefreshSchedule(Backoff(100, 1000), max_age_ms, lambda: 0.5)
    first = made.begin(0)
    made.finished(first, MetadataCache().apply(MetadataUpdate(12, NODES, ()), full=True), 0)
    return made


def test_m12_a_topic_wanted_meanwhile_is_still_needed():
    cache, plan = MetadataCache(), schedule()
    assert plan.want(["a"])
    request = plan.begin(10)
    assert (request.full, request.topics) == (False, {"a"})
    assert plan.want(["b"])
    assert not plan.want(["a", "b"])
    plan.finished(request, cache.apply(answer({0: 1}, name="a"), full=False), 20)
    assert plan.needed(20)
    assert plan.begin(20).topics == {"b"}


def test_m12_full_wins_over_partial_and_age_makes_full():
    cache, plan = MetadataCache(), schedule(max_age_ms=1000)
    plan.want(["a"])
    plan.request_full()
    request = plan.begin(10)
    assert (request.full, request.topics) == (True, {"a"})
    plan.finished(request, cache.apply(answer({0: 1}, name="a"), full=True), 10)
    assert not plan.needed(10)
    assert plan.due_in_ms(10) == 1000
    plan.want(["b"])
    assert not plan.begin(1009).full
    assert plan.begin(1010).full
    assert plan.begin(1010).topics == {"a", "b"}


def test_a_question_that_somebody_asks_does_not_wait_out_the_pause_of_fruitless_refreshes():
    cache, plan = cache_with({0: 1}, name="a"), schedule()
    plan.want(["a"])
    for now in (0, 1000, 2000, 3000):  # nothing changes: each pause is longer than the one before
        plan.request_full()
        plan.finished(plan.begin(now), cache.apply(answer({0: 1}, name="a"), full=True), now)
    plan.request_full()
    assert plan.due_in_ms(3000) > 500
    plan.hurry()
    assert plan.due_in_ms(3000) == 0


def test_m15_answers_without_news_back_off_exponentially():
    cache, plan, now = MetadataCache(), schedule(), 0
    pauses = []
    for _ in range(6):
        plan.request_full()
        now += plan.due_in_ms(now)
        request = plan.begin(now)
        plan.finished(request, cache.apply(answer({0: 1}), full=True), now)
        plan.request_full()
        pauses.append(plan.due_in_ms(now))
    assert pauses == [0, 100, 200, 400, 800, 1000]
    plan.finished(plan.begin(now), cache.apply(answer({0: 2}), full=True), now)
    assert plan.due_in_ms(now) > 1000  # nothing needed: only the age counts
    plan.request_full()
    assert plan.due_in_ms(now) == 0


def test_m15_failures_back_off_too():
    plan = schedule()
    plan.request_full()
    pauses = []
    for _ in range(6):
        plan.failed(0)
        pauses.append(plan.due_in_ms(0))
    assert pauses == [100, 200, 400, 800, 1000, 1000]


def test_m15_a_quiet_time_ends_the_backoff():
    cache, plan, now = MetadataCache(), schedule(), 0
    for _ in range(6):
        plan.failed(now)
    # nothing was asked for twice the longest pause: a leader that moves now is found at once
    now = 2_001
    plan.request_full()
    request = plan.begin(now)
    plan.finished(request, cache.apply(answer({0: 1}), full=True), now)
    plan.request_full()
    plan.finished(plan.begin(now), cache.apply(answer({0: 1}), full=True), now)
    plan.request_full()
    assert plan.due_in_ms(now) == 100


def test_m12_a_topic_never_asked_for_is_asked_for_at_once():
    plan = schedule()
    for _ in range(6):
        plan.failed(0)
    assert plan.want(["new"])
    assert plan.due_in_ms(0) == 0
