"""Every limit in one place, each with the page that sets it. Units come last in the name.

AWS's pages are under docs.aws.amazon.com; "service model" is the JSON model that botocore ships, which AWS generates
from the service itself.
"""

from __future__ import annotations

# Amazon SQS -----------------------------------------------------------------------------------------------------
SQS_MESSAGE_BYTES_MAX = 1_048_576
"""Body plus message attributes (names, types, values), UTF-8. AWSSimpleQueueService/…/quotas-messages.html"""
SQS_MESSAGE_BYTES_MIN = 1024
"""The lowest MaximumMessageSize that a queue can be given. Service model, CreateQueue."""
SQS_BATCH_BYTES_MAX = 1_048_576
"""Sum over the entries of one SendMessageBatch. Service model, SendMessageBatch."""
SQS_BATCH_ENTRIES_MAX = 10
"""Entries in a SendMessageBatch, DeleteMessageBatch, ChangeMessageVisibilityBatch, or one ReceiveMessage."""
SQS_ATTRIBUTES_MAX = 10
"""User attributes on a message. AWSSimpleQueueService/…/quotas-messages.html"""
SQS_BILLED_CHUNK_BYTES = 65_536
"""Each started 64 KiB of a message is billed as one request. aws.amazon.com/sqs/pricing"""
SQS_DELAY_SECONDS_MAX = 900
"""DelaySeconds of one message (standard queues only). Service model, SendMessage."""
SQS_VISIBILITY_SECONDS_MAX = 43_200
"""Visibility timeout, and the total from the receive: SQS refuses more, it does not clamp. ChangeMessageVisibility."""
SQS_WAIT_SECONDS_MAX = 20
"""Long poll. Service model, ReceiveMessage."""
SQS_RETENTION_SECONDS_MAX = 1_209_600
"""14 days. Service model, CreateQueue."""
SQS_RETENTION_SECONDS_DEFAULT = 345_600
"""4 days. Service model, CreateQueue."""
SQS_NAME_CHARS_MAX = 80
"""Queue name, the .fifo suffix included. Service model, CreateQueue."""
SQS_GROUP_ID_CHARS_MAX = 128
"""MessageGroupId and MessageDeduplicationId: alphanumeric and punctuation, no spaces. Service model, SendMessage."""
SQS_RECEIVE_COUNT_MAX = 1000
"""maxReceiveCount of a redrive policy. Service model, CreateQueue."""
SQS_DEDUPLICATION_SECONDS = 300
"""How long FIFO remembers a deduplication id, deleted messages too. FIFO-queues-exactly-once-processing.html"""

# AWS Lambda -----------------------------------------------------------------------------------------------------
LAMBDA_TIMEOUT_SECONDS_MAX = 900
"""Longest invocation that every Region and CloudFormation's own validator take (the service model says 1,800)."""
LAMBDA_EVENT_BYTES_MAX = 6_291_456
"""One invocation's event: a batch of messages with their metadata. lambda/…/gettingstarted-limits.html"""
LAMBDA_ENVIRONMENT_BYTES_MAX = 4096
"""All environment variables of a function together. lambda/…/gettingstarted-limits.html"""
LAMBDA_RECURSION_INVOCATIONS = 16
"""A chain Lambda -> SQS -> Lambda is cut about here. lambda/…/invocation-recursion.html"""

# Amazon ECS -----------------------------------------------------------------------------------------------------
FARGATE_STOP_SECONDS_MAX = 120
"""stopTimeout on Fargate: from SIGTERM to SIGKILL. Service model, ContainerDefinition."""

# Amazon DynamoDB ------------------------------------------------------------------------------------------------
DYNAMODB_ITEM_BYTES_MAX = 409_600
"""One item, attribute names included. amazondynamodb/…/ServiceQuotas.html"""
DYNAMODB_KEY_BYTES_MAX = 2048
"""Partition key value. amazondynamodb/…/ServiceQuotas.html"""
DYNAMODB_WRITE_UNIT_BYTES = 1024
"""A write is billed by the whole item in steps of this size. amazondynamodb/…/read-write-operations.html"""
DYNAMODB_BATCH_GET_KEYS_MAX = 100
"""Keys in one BatchGetItem. Service model, BatchGetItem."""

# AWS Systems Manager --------------------------------------------------------------------------------------------
SSM_PARAMETER_BYTES_MAX = 4096
"""A standard parameter's value. systems-manager/…/parameter-store-advanced-parameters.html"""

# tenure's own ---------------------------------------------------------------------------------------------------
INLINE_BYTES_MAX = 1024
"""Payloads, results and checkpoints up to this size live in the row: one write unit covers the common row."""
SIBLING_BYTES_MAX = 8192
"""Up to this they live in an item beside the row; above, in S3, whose PUT costs as much as 8 write units."""
ENVELOPE_INLINE_BYTES_MAX = 49_152
"""Payloads up to this size travel in the message, so that message and envelope stay within one billed chunk."""
RESEND_ROOM_BYTES = 132
"""By how much a message can outgrow the first of its task: `sends`, `row_version`, `due_at_ms`, `max_attempts` and
`fence_floor`, each with its name and the 16 digits of the largest number that an envelope may hold. Ours."""
SKEW_SECONDS = 5
"""How far a worker's corrected clock may be off. A lease is taken over only this long after it lapsed."""
IDEMPOTENCY_KEY_BYTES_MAX = 1024
"""A longer idempotency key is refused rather than cut."""
TENANT_BYTES_MAX = 256
"""It travels in every message and row of the tenant."""
ORDERING_KEY_BYTES_MAX = 256
"""It travels in every message and row of the key."""
DELAY_SECONDS_MAX = 366 * 86_400
"""Longest delay of a submit. A longer one is more likely a mistaken unit than a plan."""
TIMEOUT_SECONDS_MIN = 1
"""A handler that may run for less could not be told from one that hangs."""
TIMEOUT_SECONDS_MAX = 86_400
"""No pool runs a task for longer than a day (topology.Pool.longest_runtime_seconds)."""
LEASE_SECONDS_MIN = 10
"""A lease is beaten after a third of it; a shorter one would be lost to a slow call and a clock 5 seconds off."""
LEASE_SECONDS_MAX = 43_200
"""SQS hides a message for 12 hours at most, and a longer lease would outlast any sign of its worker's death."""
PAYLOAD_LIFE_SECONDS = 90 * 86_400
"""How long after its task is due a payload beside the row is kept: 60 days to end in, and then the row's own life."""
CHECKPOINT_LIFE_SECONDS = PAYLOAD_LIFE_SECONDS
"""How long after it was made a checkpoint beside the row is kept; an attempt that comes later begins without it."""
RESUBMIT_GRACE_SECONDS = 5
"""A queued row younger than this is being sent by the submit that wrote it; an older one may never have been sent."""
TAKE_BACK_SECONDS = 120
"""A submit that SQS refuses takes its row back only this long after it began: more than the SDK's tries of row and send
take together (adapters/clients.py)."""
RELY_SECONDS = 2 * TAKE_BACK_SECONDS
"""Another submit of its key writes a row that is younger, so that it is not taken back: the same once more for the
write that takes back, and for clocks that differ."""
TRACEBACK_BYTES_MAX = 2048
"""The tail of a traceback kept in the row."""
ERROR_MESSAGE_BYTES_MAX = 512
"""The head of an error's message, or of a reason that somebody gave, kept in the row."""
DETAIL_BYTES_MAX = 256
"""What a line of the history says; a row bears up to 12 of them in every write."""
NAME_BYTES_MAX = 256
"""The name of a worker, a pool, a person or an error's class in the row."""
HISTORY_EVENTS_MAX = 12
"""Latest events kept in the row; older ones fall off (the audit log keeps what must be kept)."""
DUE_SHARDS = 8
"""Shards of a queue's due index: one index partition takes 1,000 writes a second."""
RECONCILE_GRACE_SECONDS = 120
"""How long after it was due a task's message may be missing before reconcile sends another."""
RECONCILE_BACKOFF_SECONDS_MAX = 3600
"""The grace doubles with every re-send, up to this."""
ROW_LIFE_SECONDS_MIN = 29 * 86_400
"""A final row outlives its queue's and DLQ's longest retention (14 d each) and a day, so that no old message can
meet an absent row and be taken for new work."""
