"""Errors that a user can cause or meet: each is one sentence, and knows its exit code."""

from __future__ import annotations


class PocketNASError(Exception):
    """Something failed that the user should know about (exit code 1)."""

    exit_code = 1


class UsageError(PocketNASError):
    """What was asked for is not possible: unknown names, impossible values (exit code 2)."""

    exit_code = 2


class ArchError(UsageError):
    """An arch, a block string or an arch file that does not describe a network."""


class SpaceError(UsageError):
    """A search space that does not exist, is malformed, or does not hold an arch."""


class DataError(PocketNASError):
    """A data set that is missing, unreadable or cannot be learned from."""


class ExportError(PocketNASError):
    """A network that cannot be exported, or whose exported file disagrees with torch."""


class RunError(PocketNASError):
    """A run folder that is missing, in use, full, or belongs to another search."""


class DeviceError(PocketNASError):
    """A device that could not measure a model; no latency came of it."""


class NoDeviceError(DeviceError):
    """No usable device (exit code 3)."""

    exit_code = 3
