"""All of tenure as one construct, for a CDK app of one's own.

settings = read_settings(Path("environments/prod.toml"))
executor = TaskExecutor(self, "Executor", settings=settings)
executor.grant_submit(web_server.task_role)
menu_bucket.grant_read(executor.role_of("media"))
executor.metric_oldest_seconds("media").create_alarm(self, "MenuIsLate", threshold=60, evaluation_periods=5)
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.bundle import Bundle, Ingredients, bundle
from infra.constructs.alarms import Alarms
from infra.constructs.dashboard import Dashboard
from infra.constructs.maintenance_function import Duty
from infra.constructs.own_metrics import OwnMetrics
from infra.constructs.stores import Stores
from infra.constructs.task_queue import TaskQueue
from infra.constructs.workers import Workers
from infra.environment import Settings
from infra.fit import check_app


class TaskExecutor(Construct):
    """Stores, workers, alarms and dashboard of one environment, in the stack that it is put into."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        program: Bundle | None = None,
        duties: Sequence[Duty] | None = None,
    ) -> None:
        """`program`: what functions and containers run; made from the settings if it is not given. `duties`: None for
        all that there is code for.

        Raises InvalidTopology or InvalidTask where App, queues and pools do not fit; the text says what to mend.
        """
        super().__init__(scope, construct_id)
        app = check_app(settings)
        facts = [task.facts() for task in app.tasks.values()]
        self.stores = Stores(self, "Stores", settings=settings, tasks=facts)
        self.workers = Workers(
            self,
            "Workers",
            settings=settings,
            stores=self.stores,
            bundle=program or bundle(ingredients(settings)),
            duties=duties,
        )
        self.alarms = Alarms(self, "Alarms", settings=settings, stores=self.stores, workers=self.workers)
        self.dashboard = Dashboard(
            self, "Dashboard", settings=settings, stores=self.stores, workers=self.workers, alarms=self.alarms
        )
        self._own = OwnMetrics(settings.prefix)

    @property
    def topic(self) -> sns.ITopic:
        """Where the alarms speak."""
        return self.alarms.topic

    def role_of(self, queue: str) -> iam.IRole:
        """The role of a queue's handlers, to be granted what they need besides."""
        return self.workers.role_of(queue)

    def grant_submit(self, grantee: iam.IGrantable, *queues: str) -> None:
        """Let `grantee` submit to these queues (none named: to all), and follow and cancel tasks."""
        self.stores.grant_submit(grantee, *queues)

    def grant_operate_read_only(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` look at everything and change nothing."""
        self.stores.grant_operate_read_only(grantee)

    def grant_operate(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` look at everything, and cancel, replay, discard, pause and reconcile."""
        self.stores.grant_operate(grantee)

    def metric_waiting(self, queue: str, tier: str = "normal") -> cloudwatch.Metric:
        """Messages that wait to be received."""
        return self._tier(queue, tier).metric_waiting()

    def metric_oldest_seconds(self, queue: str, tier: str = "normal") -> cloudwatch.Metric:
        """Age of the oldest message."""
        return self._tier(queue, tier).metric_oldest_seconds()

    def metric_dead(self, queue: str, tier: str = "normal") -> cloudwatch.Metric:
        """Dead letters that lie there."""
        return self._tier(queue, tier).metric_dead()

    def metric_own(self, name: str, queue: str | None = None) -> cloudwatch.Metric:
        """A count of tenure's own, "Succeeded" say, of one queue or of all. Raises KeyError for an unknown one."""
        return self._own.count(name, queue)

    def _tier(self, queue: str, tier: str) -> TaskQueue:
        self.stores.topology.tier(queue, tier)  # raises InvalidTopology, naming those there are
        return next(each for each in self.stores.tiers_of([queue]) if each.tier.tier == tier)


def ingredients(settings: Settings) -> Ingredients:
    """What the bundle of these settings is made from."""
    return Ingredients(
        app_module=settings.environment.app.partition(":")[0],
        requirements=settings.environment.requirements,
        python_version=settings.deployment.python_version,
        architecture=settings.deployment.architecture,
        services=settings.deployment.services,
    )
