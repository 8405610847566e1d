"""The measuring side: one process that pins itself, builds contenders, times them in turn and prints one line of JSON.

Run by :mod:`benchmarks.suite` as ``python -m benchmarks.measure '{"cases": [...], ...}'``.
"""

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable

from .work import NORMALS, Case


def pin(threads: int, beside: int = 0) -> bool:
    """Keep this process, and whatever thread pools it starts, on ``threads`` cores, beside so many other such processes; ``False`` where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    cores = sorted(os.sched_getaffinity(0))
    end = len(cores) - threads * beside  # the last ones: interrupts and other work favour the first
    os.sched_setaffinity(0, cores[max(0, end - threads) : end])
    return True


def peak_mb() -> float:
    """Largest resident memory of this process so far."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    except OSError:  # no /proc: kilobytes on most systems, bytes on macOS
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024 if sys.platform != "darwin" else 1024**2)


def prepared(case: Case) -> tuple[Callable[[int], None], int, float]:
    """The contender, its unit, and the seconds to build it and take its first unit of steps: compilation yes, imports no."""
    if case.contender.startswith("jax"):
        from .jax_peer import build  # not by way of contenders: its process should hold JAX alone
    else:
        from .contenders import build
    start = time.perf_counter()
    steps, unit = build(case)
    steps(unit)
    return steps, unit, time.perf_counter() - start


def suitable(steps: Callable[[int], None], unit: int, seconds: float) -> int:
    """How many steps take about ``seconds``; also the warm-up."""
    n = unit
    while True:
        start = time.perf_counter()
        steps(n)
        took = time.perf_counter() - start
        if took > seconds / 4:
            return max(1, round(n * seconds / took / unit)) * unit
        n *= 2


def meet(folder: str, others: int) -> None:
    """Wait until so many processes have come to the folder."""
    with open(os.path.join(folder, str(os.getpid())), "w"):
        pass
    while len(os.listdir(folder)) < others:
        time.sleep(0.001)


def interleaved(cases: list[Case], job: dict) -> list[dict]:
    """Run-steps per second of every case in every round; the order is reversed each round, so that drift favours nobody.

    With ``steps`` in the job, so many are taken in a round, otherwise as many as take about ``seconds``; with ``meet``, it begins when all have come.
    """
    rounds, seconds = job["rounds"], job["seconds"]
    contenders = [prepared(case) for case in cases]
    if "steps" in job:
        sizes = [max(1, job["steps"] // unit) * unit for _, unit, _ in contenders]
    else:
        sizes = [suitable(steps, unit, seconds) for steps, unit, _ in contenders]
    if "meet" in job:
        meet(*job["meet"])
    rates: list[list[float]] = [[] for _ in cases]
    for r in range(rounds):
        order = range(len(cases)) if r % 2 == 0 else reversed(range(len(cases)))
        for i in order:
            start = time.perf_counter()
            contenders[i][0](sizes[i])
            rates[i].append(sizes[i] * cases[i].runs / (time.perf_counter() - start))
    return [
        {**vars(case), "rates": rate, "first_s": first}
        for case, rate, (_, _, first) in zip(cases, rates, contenders, strict=True)
    ]


def floor(seconds: float) -> dict:
    """Seconds per standard normal: of torch's generator at the size of one step's data, and of the trainer's own numbers by counter."""
    import torch

    from .contenders import trainer

    buffer, source = torch.empty(NORMALS), torch.Generator().manual_seed(0)
    case = Case("compiled", 2, 8)
    ours = trainer(case)

    def torchs(n: int) -> None:
        for _ in range(n):
            buffer.normal_(generator=source)

    def by_counter(n: int) -> None:
        for step in range(n):
            ours._fresh(ours._keys, torch.tensor([step + 1]))

    return {
        "seconds_per_normal": _seconds(torchs, seconds) / NORMALS,
        "seconds_by_counter": _seconds(by_counter, seconds) / (case.runs * NORMALS),
        "normals_per_step": NORMALS,
    }


def _seconds(repeat: Callable[[int], None], seconds: float) -> float:
    """Seconds of one call, the median of five times about ``seconds / 5`` of calls; the first call may compile."""
    repeat(1)
    n = suitable(repeat, 1, seconds / 5)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        repeat(n)
        times.append((time.perf_counter() - start) / n)
    return statistics.median(times)


def main(text: str) -> None:
    """Do one job: ``cases`` timed in turn, or the ``floor``, or (neither) only the imports, whose memory is everyone's baseline."""
    job = json.loads(text)
    threads = job["threads"]
    answer: dict = {"pinned": pin(threads, job.get("beside", 0))}
    cases = [Case(**case) for case in job.get("cases", [])]
    with_torch = job.get("imports") == "torch" or any(not c.contender.startswith("jax") for c in cases)
    if with_torch or job.get("floor"):
        import torch

        torch.set_num_threads(threads)
        import benchmarks.contenders
    if job.get("imports") == "jax":
        import benchmarks.jax_peer  # noqa: F401
    if job.get("floor"):
        answer["floor"] = floor(job["seconds"])
    if job.get("apart"):
        from .contenders import apart

        answer["apart"] = apart(cases[0])
    if cases:
        answer["cases"] = interleaved(cases, job)
    answer["peak_mb"] = peak_mb()
    if with_torch and torch.cuda.is_available():
        answer["peak_gpu_mb"] = torch.cuda.max_memory_allocated() / 1024**2
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
