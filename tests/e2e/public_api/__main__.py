"""`python -m tests.e2e.public_api SEED COUNT`: print what came of COUNT operations."""

import sys
import time

from tests.e2e.public_api.programs import live
from tests.e2e.public_api.watched import KINDS


def main() -> None:
    """Run from the command line."""
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    begun_s = time.monotonic()
    found = live(seed, count)
    operations, refused = found.operations.total(), found.refused.total()
    print(f"{operations} operations in {time.monotonic() - begun_s:.0f} s, {refused} refused")
    for counter in (found.operations, found.refused, found.ran, found.facts):
        print(f"  {dict(counter.most_common())}")
    missed = set(KINDS) - {kind for kind, _ in found.reactions}
    print(f"listeners: {len(found.reactions)} pairs of event and action; missed: {missed}")
    print(f"{len(found.violations)} violations")
    for violation in found.violations[:10]:
        print(f"  {violation}")


if __name__ == "__main__":
    main()
