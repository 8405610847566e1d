"""Whether other programs use the machine: numbers are published from an idle one only."""

import os
import time

from iclbook.errors import UserError

#: Cores that others may use, on average, before and during a measurement that is to be published.
ALLOWED = 0.1
#: Seconds of watching before the start.
BEFORE = 3.0


def busy_seconds() -> float | None:
    """Core-seconds since the start of the machine in which its cores did anything, also for other guests of the same host; ``None`` where unknown."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Core-seconds of this process and of those that it started and waited for."""
    return sum(os.times()[:4]) + _unwaited


#: Core-seconds of processes that a measurement started and nobody waited for, such as a browser's: what measures them adds them here.
_unwaited = 0.0


def add_own(seconds: float) -> None:
    """Count so many core-seconds as ours."""
    global _unwaited
    _unwaited += seconds


def tree_seconds(pid: int) -> float:
    """Core-seconds of the processes that descend from one and still run; 0 where the system does not tell."""
    parents: dict[int, tuple[int, float]] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            parents[int(entry)] = int(fields[1]), sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            continue
    children = [child for child, (parent, _) in parents.items() if parent == pid]
    return sum(parents[child][1] + tree_seconds(child) for child in children)


class Watch:
    """Watches others from its making on."""

    def __init__(self) -> None:
        self._start, self._busy, self._own = time.monotonic(), busy_seconds(), own_seconds()

    def others(self) -> float:
        """Cores that other programs used on average; by the load of the last minute where the system tells no more."""
        now = busy_seconds()
        if now is None or self._busy is None:
            return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        spent = now - self._busy - (own_seconds() - self._own)
        return round(max(0.0, spent) / max(time.monotonic() - self._start, 1e-9), 3)


def before() -> float:
    """Cores that others use now."""
    watch = Watch()
    time.sleep(BEFORE)
    return watch.others()


def require(cores: float, when: str, hint: str) -> None:
    """Refuse a busy machine.

    Raises:
        UserError: others use more than :data:`ALLOWED` cores.
    """
    if cores > ALLOWED:
        raise UserError(
            f"the machine is busy: other programs used {cores:.2g} of its {os.cpu_count()} cores {when}, and no numbers are published from a busy machine",
            hint,
        )
