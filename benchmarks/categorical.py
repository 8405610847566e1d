"""wang2025's one-block GD model: the literal construction beside the model that leaves out what nobody reads, on the same contexts.

Run by :mod:`benchmarks.suite` as ``python -m benchmarks.categorical '{"threads": 1, ...}'``: one process, pinned to one core, contenders in turn.
"""

import json
import sys
import time
from collections.abc import Callable

from .work import missing

#: Published sizes: minibatch and categories; both context sizes (text and published code).
BATCH, CLASSES, WIDTH, CONTEXTS = 512, 25, 5, (10, 125)
#: Runs of the ensemble, as many as the paper has initialisations.
RUNS = 5
LABELS = {
    "literal": "every matrix of appendix D, one run",
    "fast": "query row from cached relations, one run",
    "stacked": f"the same in the trainer, {RUNS} runs, eager",
    "compiled": f"the same in the trainer, {RUNS} runs, compiled",
}


class Held:
    """Contexts for a fixed set whose parts were made before."""

    def __init__(self, batch) -> None:
        self.parts = batch

    def draw(self, n, seed):
        """All of them."""
        return tuple(self.parts)

    def batch(self, parts, noise):
        """Chosen contexts as they are."""
        from iclbook.tasks import Batch

        return Batch(*parts)


def build(name: str, n: int, batch: int = BATCH) -> tuple[Callable[[int], None], int]:
    """A contender on contexts of size ``n``: a function that takes that many optimiser steps, and how many run-steps each is."""
    import torch

    from iclbook.models.functional_gd import FunctionalGD
    from iclbook.models.literal_blocks import LiteralBlocks
    from iclbook.papers.wang2025.contexts import sample_contexts, seen_as
    from iclbook.tasks import Batch
    from iclbook.tasks.categorical import Anchors
    from iclbook.training import FixedSet, Run, Trainer
    from iclbook.training.groups import Group, cross_entropy

    task = Anchors(N=n, n_classes=CLASSES, width=WIDTH)
    contexts = seen_as(sample_contexts(task, 2 * batch, 0), "tokens" if name == "literal" else "inner")
    kind = LiteralBlocks if name == "literal" else FunctionalGD
    sizes = {"n_classes": CLASSES, "width": WIDTH, "n_blocks": 1, "kernel": "softmax", "vector_rate": True}
    model = kind(**sizes)
    if name in ("stacked", "compiled"):
        group = Group("gd", kind, sizes, [Run(r, stream=0) for r in range(RUNS)], loss=cross_entropy)
        data = FixedSet(Held(contexts), 2 * batch)
        trainer = Trainer(data, [group], 10**9, batch, record=(), device="cpu", compile=name == "compiled")

        def run(steps: int) -> None:
            for _ in range(steps):
                trainer._run(1)

        return run, RUNS
    model.initialise(torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    source = torch.Generator().manual_seed(1)
    rows = [part.movedim(-1, 0).contiguous() for part in contexts]

    def one(steps: int) -> None:
        for _ in range(steps):
            index = torch.randint(2 * batch, (batch,), generator=source)
            loss = cross_entropy(model, Batch(*(part[index].movedim(0, -1) for part in rows)))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return one, 1


def interleaved(n: int, rounds: int, seconds: float, batch: int = BATCH) -> dict[str, list[float]]:
    """Run-steps a second of all contenders in every round, in turn."""
    names = [name for name in LABELS if name != "compiled" or missing("compiled", "cpu") is None]
    contenders = {name: build(name, n, batch) for name in names}
    sizes, rates = {}, {name: [] for name in names}
    for name, (run, _) in contenders.items():
        run(1)
        start = time.perf_counter()
        run(1)
        sizes[name] = max(1, round(seconds / (time.perf_counter() - start)))
    for r in range(rounds):
        for name in names if r % 2 == 0 else names[::-1]:
            run, runs = contenders[name]
            start = time.perf_counter()
            run(sizes[name])
            rates[name].append(sizes[name] * runs / (time.perf_counter() - start))
    return rates


def main(text: str) -> None:
    """Do one job and print its rates as JSON."""
    job = json.loads(text)
    from .measure import pin

    pinned = pin(job["threads"])
    import torch

    torch.set_num_threads(job["threads"])
    rates = {str(n): interleaved(n, job["rounds"], job["seconds"]) for n in job["contexts"]}
    print(json.dumps({"pinned": pinned, "rates": rates}))


if __name__ == "__main__":
    main(sys.argv[1])
