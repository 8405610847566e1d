"""The digests of the source: a definition that can change a study's numbers counts, and nothing else does."""

import ast
import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from test_results import EVERY

from iclbook import store
from iclbook.definitions import Definition
from iclbook.errors import UserError
from iclbook.models import Attention
from iclbook.papers import wang2025
from iclbook.papers.he2025 import runs
from iclbook.papers.wang2025 import networks
from iclbook.sources import NEUTRAL, PACKAGE, Code, changed, roots, short
from iclbook.training import Study
from iclbook.training.computation import compute
from iclbook.training.study import train_study

STUDIES = {f"{paper}/{name}": study for paper, name, study in EVERY}
TRAINED = {name: study for name, study in STUDIES.items() if isinstance(study, Study)}
#: Computations that take training steps of their own.
STEPPING = {name for name in STUDIES.keys() - TRAINED.keys() if name.startswith("crossing/")}


@cache
def roots_of(name: str) -> set[tuple[str, str]]:
    return roots(STUDIES[name], train_study if name in TRAINED else compute)


CODE = Code()


def edited(file: str, old: str, new: str) -> Code:
    """The package with one edit."""
    text = (PACKAGE / file).read_text()
    assert old in text, f"{file} no longer holds {old!r}"
    return Code(edited={file: text.replace(old, new, 1)})


def moved(code: Code, name: str) -> list[str]:
    """The definitions of a study that differ."""
    return changed(CODE.digests(roots_of(name)), code.digests(roots_of(name)))


def stale(code: Code) -> set[str]:
    return {name for name in STUDIES if moved(code, name)}


# -- edits and the studies that each makes stale --------------------------------------------------------------------------


def uses(of: Callable[[Any], bool]) -> Callable[[Study], bool]:
    """Whether one of a study's groups is such."""
    return lambda study: any(of(group) for group in study.groups)


def never(study: Study) -> bool:
    return False


@pytest.mark.parametrize(
    ("file", "old", "new", "concerns"),
    [
        ("training/groups.py", "Optimiser = Sgd", "class Lion(Adam):\n    beta1 = 0.95\n\n\nOptimiser = Sgd", never),
        ("papers/he2025/runs.py", "HEADS = (*PAPER_HEADS, 8)", "HEADS = (*PAPER_HEADS, 6, 8)", never),
        ("draw.py", "\ndef outputs(", "\ndef is_book() -> bool:\n    return not number()\n\n\ndef outputs(", never),
        (
            "models/attention.py",
            '    "linear": lambda',
            '    "relu": lambda s: normalised(s.relu()),\n    "linear": lambda',
            uses(lambda group: issubclass(group.model, Attention)),
        ),
        ("native/attention.c", "LANES 16", "LANES 32", uses(lambda group: hasattr(group.model, "in_c"))),
        (
            "papers/he2025/runs.py",
            'names = ("error", "error_se")\n    return',
            'names = ("error", "error_se")\n    errors = errors or {}\n    return',
            lambda study: study.measure is runs.final_multitask_error,
        ),
        (
            "tasks/glyphs.py",
            "LOOK_ALIKE = 0.93",
            "LOOK_ALIKE = 0.9",
            lambda study: any(module == "tasks.glyphs" for module, _ in roots(study)),
        ),
        (
            "models/kernels.py",
            "def key_factor(kernel: str, n: int) -> float:\n",
            "def key_factor(kernel: str, n: int) -> float:\n    n = int(n)\n",
            uses(lambda group: group.model.__module__.endswith((".functional_gd", ".literal_blocks", ".trained_tf"))),
        ),
    ],
)
def test_an_edit_makes_those_studies_stale_that_it_concerns(file, old, new, concerns):
    concerned = {name for name, study in TRAINED.items() if concerns(study)}
    assert concerned <= stale(edited(file, old, new)) <= concerned | (STEPPING if concerned else set())


def test_another_number_of_heads_trains_one_group_alone(monkeypatch):
    monkeypatch.setattr(runs, "HEADS", (*runs.HEADS, 6))
    added = {
        name: store.missing_groups("he2025", "paper", name, s.describe()) for name, s in runs.studies("paper").items()
    }
    assert {name: groups for name, groups in added.items() if groups} == {"isotropic": ("h6",)}


# -- what counts of a definition ------------------------------------------------------------------------------------------


def test_comments_docstrings_formatting_annotations_and_messages_do_not_count(tmp_path):
    package = Path(shutil.copytree(PACKAGE, tmp_path / "iclbook", ignore=shutil.ignore_patterns("__pycache__")))
    for file, old, new in (
        ("models/attention.py", '"""One-layer multi-head attention', '"""Quite another description'),
        ("models/attention.py", '"""Predictions ``(N, B)`` from circuits', '"""Something else'),
        ("models/attention.py", '"""Multi-head attention with', '"""A class'),
        (
            "models/attention.py",
            "    d = query.shape[0]\n",
            "\n    # a remark\n    d = (  query.shape[ 0 ]  )  # another\n",
        ),
        ("models/attention.py", "context: Tensor", "context: object"),
        ("native/attention.c", "/* Prompts b", "// a remark\n/* A remark.\n   Prompts b"),
        ("native/vectors.h", "return converted<vf>(w);", "return ALL(0.0f);"),  # on a GPU
        ("training/groups.py", "has no parameter", "does not know"),
        ("training/groups.py", 'f"group {self.name!r} has no runs"', '"no runs"'),
    ):
        text = (package / file).read_text()
        assert old in text, f"{file} no longer holds {old!r}"
        (package / file).write_text(text.replace(old, new, 1))
    assert not stale(Code(package))


@pytest.mark.parametrize(
    ("file", "old", "new", "name"),
    [
        ("tasks/linear_regression.py", "/ math.sqrt(self.d)", "* math.sqrt(self.d)", "LinearRegression"),
        ("models/attention.py", "1 / math.sqrt(self.width)", "2 / math.sqrt(self.width)", "Attention"),
        ("training/groups.py", "beta2: float = 0.999", "beta2: float = 0.99", "Adam"),
        ("draw.py", "[0]) >> 1", "[0]) >> 2", "torch_rng"),
        ("training/data.py", "before = steps - 1", "before = steps - 2", None),
        ("training/ensemble.py", "rates = {k: r * factor", "rates = {k: r / factor", None),
        ("training/trainer.py", "self._t += 1", "self._t += 2", "Trainer"),
        ("training/groups.py", "assert asked <= names", "assert names", "Group"),
        ("native/attention.c", "g[n] * (2.0f / t->B)", "g[n] * (1.0f / t->B)", "attention.c"),
        ("native/vectors.h", "define SHIFT 12582912.0f", "define SHIFT 12582911.0f", "vectors.h"),
        ("native/adam.c", "sqrtf", "sqrt", "adam.c"),
        ("native/__init__.py", "-ffp-contract=off", "-ffp-contract=fast", "FLAGS"),
        ("training/study.py", "batch_size: int = 256", "batch_size: int = 128", "Study"),
        ("store.py", "np.savez_compressed(buffer", "np.savez(buffer", "save"),
    ],
)
def test_a_definition_that_counts_is_named(file, old, new, name):
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") if file.endswith(".py") else "native"
    study = (
        "he2025/isotropic" if name else "he2025/decay"
    )  # the first steps in C, the second has a schedule and a fixed rate
    found = moved(edited(file, old, new), study)
    assert found == [f"{module}.{name}"] if name else all(each.startswith(module) for each in found)


def test_results_of_other_code_say_which_definition_changed(monkeypatch):
    study = TRAINED["he2025/isotropic"]
    other = edited("training/groups.py", "eps: float = 1e-8", "eps: float = 1e-7").digests(roots_of("he2025/isotropic"))
    with pytest.raises(UserError, match=r"made from other training code \(training.groups.Adam changed\)") as caught:
        store.load("he2025", "paper", "isotropic", study.describe(), other)
    assert "--verify" in caught.value.hint
    assert short(other) != short(study.source())


def test_digests_name_what_is_new_where_nothing_else_changed():
    before = {"a": "f 00000001, g 00000002"}
    assert changed(before, {"a": "g 00000002, f 00000001"}) == []
    assert changed(before, {"a": "f 00000001, g 00000003", "b": "h 00000004"}) == ["a.g"]
    assert changed(before, before | {"b": "h 00000004"}) == ["b.h"]
    assert changed(before, {}) == ["a.f", "a.g"]


def test_committed_weights_of_other_code_are_not_used(monkeypatch):
    network = wang2025.studies("paper")["images_unseen0"].data.prompts.task.network
    read = store.read_provenance
    monkeypatch.setattr(networks.store, "read_provenance", lambda *a: read(*a) | {"source": {"a": "f 00000000"}})
    with pytest.raises(UserError, match="other training code"):
        networks.weights.__wrapped__(network)  # whatever the cache holds


# -- how names are followed -----------------------------------------------------------------------------------------------

TOY = {
    "__init__.py": "",
    "parts/__init__.py": "from .deep import passed as handed\nfrom . import deep\n",
    "parts/deep.py": "LEVEL = 3\ndef passed():\n    return LEVEL\ndef other():\n    pass\n",
    "parts/noisy.py": "import torch\nLOUD = 1\ntorch.set_num_threads(1)\ndef quiet():\n    pass\n",
    "registry.py": "TABLE = {}\ndef register(f):\n    TABLE[f.__name__] = f\n    return f\n",
    "m.py": """
from typing import TYPE_CHECKING
from .parts import deep, handed, noisy
from .registry import TABLE, register
if TYPE_CHECKING:
    from .registry import LATE
A = B = 1
C, D = 2, 3
class Base:
    size = C
@register
def listed():
    return D
""",
}
BASE = {("m", "<module>"), ("m", "D"), ("registry", "register"), ("registry", "TABLE")}
DEEP = {("parts.deep", "passed"), ("parts.deep", "LEVEL")}


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("def f(): return 1", set()),
        ("def f(): return A", {("m", "A")}),
        ("def f(A): return A", set()),
        ("def f(A=A): return A", {("m", "A")}),
        ("def f():\n    A = 2\n    return lambda x: x + A", set()),
        ("def f():\n    global A\n    A += 1\n    return A", {("m", "A")}),
        ("def f(): return [A for A in range(3)]", set()),
        ("def f(): return [A for A in A]", {("m", "A")}),
        ("def f(): return {A: D for C in [1] if B}, C", {("m", name) for name in "ABCD"}),
        ("def f(): return f'{A!r:>{B}}'", {("m", "A"), ("m", "B")}),
        ("def f(x: A) -> B:\n    y: C = 1", set()),
        ("class f:\n    x: A\n    y: B = C", {("m", "C")}),
        ("from pydantic.dataclasses import dataclass\nclass f:\n    x: A\n    y: B = 1", {("m", "A"), ("m", "B")}),
        ("f = D + 1", {("m", "D")}),
        ("class f(Base): pass", {("m", "Base"), ("m", "C")}),
        ("class f:\n    A = 1\n    def B(self): return B(A)", {("m", "A"), ("m", "B")}),
        ("def f():\n    class K:\n        def A(self): pass\n    return A", {("m", "A")}),
        ("def f():\n    try: pass\n    except ValueError as A: raise A", set()),
        ("def f(): return handed()", DEEP),
        ("def f(): return deep.passed()", DEEP),
        ("def f():\n    from .parts import handed as mine\n    return mine()", DEEP),
        ("def f():\n    import toy.parts.deep\n    return toy.parts.deep.passed()", DEEP),
        ("def f():\n    from toy import parts\n    return parts.deep.passed()", DEEP),
        ("def f(name): return getattr(deep, name)", {*DEEP, ("parts.deep", "other")}),
        ("def f(): return deep.__dict__", {*DEEP, ("parts.deep", "other")}),
        ("from .parts.deep import *\ndef f(): return passed()", {*DEEP, ("parts.deep", "other")}),
        ("def f(): return globals()['A']", {("m", name) for name in ("A", "B", "C", "Base", "listed")}),
        ("def f(): return noisy.quiet()", {("parts.noisy", "quiet"), ("parts.noisy", "<module>")}),
        ("def f(): raise UserError(A)", set()),
        ("def f(): raise ValueError(A)", {("m", "A")}),
        ("def f():\n    assert B, A", {("m", "B")}),
        ("if A:\n    def f(): return C\nelse:\n    f = D", {("m", "A"), ("m", "C")}),
        ("f = 1\nf += A", {("m", "A")}),
        ("f = {}\nf['a'] = A", {("m", "A")}),
        ("def f(): return LATE", set()),
    ],
)
def test_names_are_followed(tmp_path, text, reached):
    package = tmp_path / "toy"
    for file, content in (TOY | {"m.py": TOY["m.py"] + text}).items():
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text(content)
    found = Code(package).reached([("m", "f")])
    assert found == BASE | {("m", "f")} | reached


def test_a_text_that_python_3_12_adds_does_not_count():
    tree, other = (ast.parse("""f"{'a':<{1}}\"""") for _ in range(2))
    other.body[0].value.values[0].format_spec.values.append(ast.Constant(""))
    assert Definition().text(tree) == Definition().text(other)


@pytest.mark.parametrize("release", ["3.12", "3.13"])
def test_another_release_of_python_gives_the_same_digests(release):
    python = shutil.which(f"python{release}")
    if python is None or subprocess.run([python, "-c", ""]).returncode:
        pytest.skip(f"there is no Python {release}")
    every = sorted(set().union(*map(roots_of, STUDIES)))
    script = "import json, sys; from iclbook.sources import Code; print(json.dumps(Code().digests(map(tuple, json.load(sys.stdin)))))"
    call = [python, "-S", "-c", f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); {script}"]
    there = subprocess.run(call, input=json.dumps(every), capture_output=True, text=True, check=True)
    assert json.loads(there.stdout) == CODE.digests(every)


# -- what runs is reached -------------------------------------------------------------------------------------------------


def test_every_function_that_runs_is_reached():
    """Two steps of a training and its measure, with every call watched."""
    name, ran = "he2025/multitask_code", set()

    def watch(frame: Any, event: str, arg: object) -> None:
        path, called = Path(frame.f_code.co_filename), frame.f_code.co_qualname.split(".")[0]
        if event == "call" and path.is_relative_to(PACKAGE) and not called.startswith("<"):
            ran.add((path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("/__init__"), called))

    study = dataclasses.replace(STUDIES[name], steps=2)
    sys.setprofile(watch)
    try:
        study.measure(study, study.trainer("cpu").train(progress=False))
    finally:
        sys.setprofile(None)
    reached = {(module.replace(".", "/"), definition) for module, definition in CODE.reached(roots_of(name))}
    assert ("training/trainer", "Trainer") in ran
    assert {each for each in ran - reached if each[0].replace("/", ".") not in NEUTRAL} == set()
