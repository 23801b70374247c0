"""The limits on restarts of a server that ended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The restarts of a server that was ready before it ended.

    Attributes:
        delays_s: Wait before each restart; their number is the limit.
        stable_s: A server that ran this long gets all its restarts back.
    """

    delays_s: tuple[float, ...] = (0.5, 2.0, 8.0)
    stable_s: float = 60.0


NORMAL_RESTARTS = RestartPolicy()
NO_RESTARTS = RestartPolicy(delays_s=())
