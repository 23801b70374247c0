"""How often a server that ended is started again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often a server that was ready is started again after its end.

    Attributes:
        delays_s: Wait before each restart; their number is the limit.
        stable_s: A server that ran so long gets all its restarts back.
    """

    delays_s: tuple[float, ...] = (0.5, 2.0, 8.0)
    stable_s: float = 60.0


NORMAL_RESTARTS = RestartPolicy()
NO_RESTARTS = RestartPolicy(delays_s=())
