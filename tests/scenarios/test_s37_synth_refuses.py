"""S37: synth refuses what a deployment would refuse, or what would lose messages; and says what to mend."""

import dataclasses
import re
from pathlib import Path

import aws_cdk as cdk
import pytest

import tenure
from infra.constructs.lambda_worker import LambdaWorker, Program
from infra.constructs.task_queue import TaskQueue
from infra.environment import read_settings, settings_of
from infra.fit import check_app, misfits
from tenure.core.environment import environment_of
from tenure.core.errors import InvalidTopology, NotBuilt, UsageError
from tenure.core.topology import Pool, Queue, Topology

POOL = {"kind": "lambda", "longest_runtime_seconds": 120}


def topology(queue=None, pool=None, app="shop"):
    """One queue `work` on one pool `quick`."""
    return Topology(
        app=app,
        environment="dev",
        queues=(Queue.model_validate({"name": "work", "pool": "quick", **(queue or {})}),),
        pools=(Pool.model_validate({"name": "quick", **POOL, **(pool or {})}),),
    )


@pytest.fixture(scope="module")
def stack():
    """A stack to try constructs in; it is never synthesized."""
    return cdk.Stack(cdk.App(), "Stack")


def queue_with(stack, name, visibility_seconds, *, ordered=False):
    made = topology({"ordered": ordered})
    return TaskQueue(
        stack,
        name,
        queue=made.queue("work"),
        tier=made.tier("work"),
        visibility_seconds=visibility_seconds,
        removal=cdk.RemovalPolicy.DESTROY,
    )


def worker_on(stack, name, queue, **options):
    """A worker of pool `quick` (120 s) on the queue. The program is never read: what is wrong is found before."""
    pool = topology(pool=options.pop("pool", None)).pool("quick")
    program = Program(None, None, None, None, cdk.RemovalPolicy.DESTROY)
    return LambdaWorker(
        stack,
        name,
        queue_name="work",
        pool=pool,
        tiers=[queue],
        program=program,
        handler="x.y",
        statements=[],
        variables={},
        **options,
    )


# ---- visibility against timeout
@pytest.mark.parametrize("visibility_seconds", [30, 119])
def test_a_visibility_below_the_timeout_is_refused_with_both_numbers(stack, visibility_seconds):
    queue = queue_with(stack, f"Short{visibility_seconds}", visibility_seconds)
    with pytest.raises(InvalidTopology, match=rf"{visibility_seconds} s.*120 s.*Raise.*at least 120.*lower"):
        worker_on(stack, f"WorkerOnShort{visibility_seconds}", queue)


def test_the_batch_window_counts_towards_it(stack):
    queue = queue_with(stack, "Window", 125)
    with pytest.raises(InvalidTopology, match="at least 130"):
        worker_on(stack, "WorkerOnWindow", queue, window_seconds=10)


def test_what_is_derived_always_suffices():
    """Nobody sets a visibility by hand: for each timeout there may be, the derived one is above it, but not by much,
    so that a message whose worker died before its first beat comes back."""
    for seconds in (1, 30, 120, 900):
        visibility = topology(pool={"longest_runtime_seconds": seconds}).visibility_seconds("work")
        assert seconds < visibility <= seconds + 15


# ---- mappings
def test_an_ordered_queue_has_no_batch_window(stack):
    queue = queue_with(stack, "Ordered", 200, ordered=True)
    with pytest.raises(InvalidTopology, match=r"ordered queue has no batch window.*Drop it"):
        worker_on(stack, "WorkerOnOrdered", queue, window_seconds=5)


def test_a_batch_of_a_hundred_needs_a_window(stack):
    """Pools allow ten; a construct's own user may ask for more, and AWS would refuse it late."""
    queue = queue_with(stack, "Batch", 200)
    with pytest.raises(InvalidTopology, match=r"1 to 10 messages here, not 100.*Lower batch_size"):
        queue.check_consumer(timeout_seconds=120, window_seconds=0, batch_size=100)
    queue.check_consumer(timeout_seconds=120, window_seconds=1, batch_size=100)


# ---- names and kinds
@pytest.mark.parametrize("ordered", [False, True])
def test_queue_and_dlq_are_of_one_kind_and_their_names_say_so(ordered):
    tier = topology({"ordered": ordered}).tier("work")
    assert tier.name.endswith(".fifo") is ordered
    assert tier.dead_name.endswith(".fifo") is ordered
    assert tier.dead_name != tier.name


@pytest.mark.parametrize("name", ["orders.fifo", "Orders", "orders_1", "", "1st", "o" * 32])
def test_a_name_that_sqs_would_take_for_something_else_is_refused(name):
    """A logical name never holds a dot, so `.fifo` is always ours: FIFO-ness is never guessed from a name."""
    with pytest.raises(UsageError, match="must be a name"):
        settings_from(queues={name: {"pool": "quick"}})


def test_a_name_that_gets_too_long_with_its_dlqs_suffix_is_refused():
    long = "a" * 31
    with pytest.raises(UsageError, match=r"exceeds 80 characters"):
        settings_from(name=long, queues={long: {"pool": "quick", "ordered": True}})


@pytest.mark.parametrize("count", [0, 1, 9, 1001])
def test_a_redrive_that_would_bury_what_never_ran_is_refused(count):
    """Throttling and hand-backs spend receives: the backstop must stay far above any budget of attempts."""
    with pytest.raises(UsageError, match=r"queues.work.receive_count_max: must be at (least 10|most 1000)"):
        settings_from(queues={"work": {"pool": "quick", "receive_count_max": count}})


def test_a_retention_that_a_dlq_could_not_outlast_is_refused():
    with pytest.raises(UsageError, match=r"queues.work.retention_seconds: must be at most 1209600"):
        settings_from(queues={"work": {"pool": "quick", "retention_seconds": 1_209_601}})


# ---- tasks against queues and pools
def app_with(**options):
    app = tenure.App("shop")

    @app.task(**{"queue": "work", **options})
    def job(customer: str) -> None:
        """Does nothing."""

    return app.tasks["job"]


def test_a_task_that_no_pool_can_serve_in_time_is_refused_with_both_numbers():
    (found,) = misfits(app_with(timeout="2m"), topology())
    assert re.search(r"may run for 2m.*leaves it 1m55s.*Lower the task's timeout, or raise", found)


def test_a_lease_longer_than_any_run_is_refused():
    (found,) = misfits(app_with(timeout="60s", lease="10m"), topology())
    assert re.search(r"lease of 10m.*nothing for longer than 2m.*Lower the task's lease", found)


def test_a_task_without_its_queue_is_refused_and_told_of_those_there_are():
    (found,) = misfits(app_with(queue="nowhere"), topology())
    assert "no queue 'nowhere'" in found
    assert "Declared queues: work" in found


def test_order_is_declared_on_both_sides_or_on_none():
    (unordered,) = misfits(app_with(ordered_by="customer", timeout="60s"), topology())
    assert "keeps no order" in unordered
    (unnamed,) = misfits(app_with(timeout="60s"), topology({"ordered": True}))
    assert "must say by what" in unnamed


def test_a_fitting_task_is_let_in():
    assert misfits(app_with(timeout="60s", lease="60s"), topology()) == []


# ---- the environment's own contradictions
def settings_from(name="shop", queues=None, pools=None, deploy=None):
    content = {
        "name": name,
        "app": "shop.tasks:app",
        "pools": pools or {"quick": dict(POOL)},
        "queues": queues or {"work": {"pool": "quick"}},
        "deploy": {"removal": "destroy", **(deploy or {})},
    }
    return settings_of(environment_of("dev", content, "dev.toml"), "dev.toml")


def test_an_alarm_later_than_retention_is_refused():
    with pytest.raises(InvalidTopology, match=r"goes off at 900 s, but SQS deletes that message at 600 s"):
        settings_from(queues={"work": {"pool": "quick", "retention_seconds": 600}})


def test_a_pool_that_its_scaling_could_not_see_whole_is_refused():
    queues = {f"q{number}": {"pool": "slow"} for number in range(6)}
    with pytest.raises(InvalidTopology, match=r"pools.slow: it serves 6 tiers.*at most 5.*a pool of their own"):
        settings_from(queues=queues, pools={"slow": {"kind": "fargate"}})


def test_what_is_not_built_is_refused_by_name_rather_than_ignored():
    settings = settings_from(queues={"work": {"pool": "quick", "tracking": "lean"}})
    with pytest.raises(NotBuilt, match="lean"):
        check_app(settings)


def test_the_repositorys_own_environments_are_valid():
    found = sorted(Path("infra/environments").glob("*.toml"))
    assert [path.stem for path in found] == ["dev", "local", "prod", "staging"]
    for path in found:
        settings = read_settings(path)
        assert dataclasses.is_dataclass(settings)
        assert settings.environment.name == path.stem
