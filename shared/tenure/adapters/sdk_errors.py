"""The SDK's errors, told to a person: commands and producers say the same."""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
)


def explained(error: ClientError | BotoCoreError) -> str:
    """What was wrong and what to do, in a paragraph."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError | ProfileNotFound):
        return (
            f"AWS credentials: {error}. Sign in (aws sso login), set AWS_PROFILE, or start the embedded stack with "
            "`tenure dev`, which needs none."
        )
    if isinstance(error, NoRegionError):
        return (
            "AWS region: none is set. Set AWS_REGION, or a region in the profile that AWS_PROFILE names; or start the "
            "embedded stack with `tenure dev`, which needs none."
        )
    if isinstance(error, EndpointConnectionError):
        if ".amazonaws." in str(error):
            return f"{error} Nothing answers there. Is this machine online, and that Region the right one?"
        return (
            f"{error} Nothing answers there. If it was the embedded stack, it has stopped: start `tenure dev` again, "
            "or unset AWS_ENDPOINT_URL to reach AWS."
        )
    if isinstance(error, ReadTimeoutError | ConnectTimeoutError):
        return (
            f"{error} No answer came in time. If it is the embedded stack, this machine is too busy for it: let other "
            "work end, and try again."
        )
    if isinstance(error, ClientError):
        told = error.response.get("Error", {})
        code, message = told.get("Code", "unknown"), told.get("Message", "")
        return f"AWS refused {error.operation_name}: {code}. {message} `tenure doctor` checks what is reachable."
    return f"AWS: {error}"
