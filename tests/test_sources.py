"""The digest of the source: what can change a study's numbers counts, and nothing else does."""

import ast
import shutil
from pathlib import Path

import pytest

import iclbook
from iclbook import sources, store
from iclbook.errors import UserError
from iclbook.papers import agarwal2025, he2025, nagy2026, wang2025
from iclbook.papers.wang2025 import networks
from iclbook.sources import reached, source_digest
from iclbook.training import study as study_module

ROOTS = (
    "iclbook.training.study",
    "iclbook.tasks.linear_regression",
    "iclbook.models.attention",
    "iclbook.models.reduced",
)


@pytest.fixture
def package(tmp_path) -> Path:
    """A copy of the package's sources."""
    ignore = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(Path(iclbook.__file__).parent, tmp_path / "iclbook", ignore=ignore))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path.name} no longer holds {old!r}"
    path.write_text(text.replace(old, new, 1))


def test_the_digest_of_a_copy_is_the_same(package):
    assert source_digest(ROOTS, package) == source_digest(ROOTS)


def test_every_release_of_python_reads_the_same_code():
    said = "Module(body=[Expr(value=JoinedStr(values=[FormattedValue(value=Constant(value='a') conversion=-1%s)]))])"
    assert sources._module("""f"{'a'}\"""").code == said % ""
    width = " format_spec=JoinedStr(values=[Constant(value='<') FormattedValue(value=Constant(value=1) conversion=-1)])"
    assert sources._module("""f"{'a':<{1}}\"""").code == said % width


def test_a_text_that_python_3_12_adds_does_not_count():
    tree, other = (ast.parse("""f"{'a':<{1}}\"""") for _ in range(2))
    other.body[0].value.values[0].format_spec.values.append(ast.Constant(""))
    for node in (node for each in (tree, other) for node in ast.walk(each)):
        sources._reduce(node)
    assert sources._text(tree) == sources._text(other)


def test_comments_docstrings_formatting_annotations_and_messages_do_not_count(package):
    before = source_digest(ROOTS, package)
    file = package / "models" / "attention.py"
    edit(file, '"""One-layer multi-head attention', '"""Quite another description')  # of the module
    edit(file, '"""Predictions ``(N, B)`` from circuits', '"""Something else')  # of a function
    edit(file, '"""Multi-head attention with', '"""A class')  # of a class
    edit(file, "    d = query.shape[0]\n", "\n    # a remark\n    d = (  query.shape[ 0 ]  )  # another\n\n")
    edit(file, "context: Tensor", "context: object")
    edit(package / "native" / "attention.c", "/* Prompts b", "// a remark\n/* A remark.\n   Prompts b")
    edit(package / "training" / "groups.py", "has no parameter", "does not know")
    edit(package / "training" / "groups.py", 'f"group {self.name!r} has no runs"', '"no runs"')
    assert source_digest(ROOTS, package) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tasks/linear_regression.py", "/ math.sqrt(self.d)", "* math.sqrt(self.d)"),
        ("models/attention.py", "1 / math.sqrt(self.width)", "2 / math.sqrt(self.width)"),
        ("models/attention.py", '"mu", n_heads, sd=1.0', '"mu", n_heads, sd=2.0'),
        ("training/groups.py", "beta2: float = 0.999", "beta2: float = 0.99"),
        ("draw.py", "[0]) >> 1", "[0]) >> 2"),
        ("training/data.py", "before = steps - 1", "before = steps - 2"),
        ("training/ensemble.py", "rates = {k: r * factor", "rates = {k: r / factor"),
        ("training/trainer.py", "self._t += 1", "self._t += 2"),
        ("training/groups.py", "assert asked <= names", "assert names"),
        ("training/ensemble.py", "ensemble.steps)))", "2 * ensemble.steps)))"),
        ("native/attention.c", "g[n] * (2.0f / t->B)", "g[n] * (1.0f / t->B)"),
        ("native/vectors.h", "define SHIFT 12582912.0f", "define SHIFT 12582911.0f"),
        ("native/counter.c", "ROUNDS 10", "ROUNDS 9"),
        ("native/adam.c", "sqrtf", "sqrt"),
        ("native/__init__.py", "-ffp-contract=off", "-ffp-contract=fast"),
        ("training/study.py", "batch_size: int = 256", "batch_size: int = 128"),
    ],
)
def test_code_counts(package, file, old, new):
    before = source_digest(ROOTS, package)
    edit(package / file, old, new)
    assert source_digest(ROOTS, package) != before


def test_a_gradient_in_c_counts_for_the_models_that_offer_it(package):
    others = ["iclbook.training.study", "iclbook.models.trained_tf"]
    before = source_digest(others, package)
    edit(package / "native" / "attention.c", "LANES 16", "LANES 32")
    assert source_digest(others, package) == before
    edit(package / "native" / "counter.c", "ROUNDS 10", "ROUNDS 9")
    assert source_digest(others, package) != before


def test_only_what_is_reached_counts(package):
    before = source_digest(ROOTS, package)
    (package / "cli.py").write_text("x = 1\n")
    (package / "models" / "more.py").write_text("x = 1\n")
    edit(package / "tasks" / "spectral_regression.py", "weight_var: float = 1.0", "weight_var: float = 2.0")
    assert source_digest(ROOTS, package) == before
    edit(package / "models" / "attention.py", "\nimport torch\n", "\nimport torch\nfrom .more import x\n")
    added = source_digest(ROOTS, package)
    assert added != before
    (package / "models" / "more.py").write_text("x = 2\n")
    assert source_digest(ROOTS, package) not in (before, added)


def test_imports_are_followed_through_packages_that_pass_names_on():
    names = {f.name for f in reached(ROOTS)}
    assert {"batch.py", "trainer.py", "groups.py", "attention.py"} <= names
    assert not names & {"spectral_regression.py", "errors.py", "cli.py"}


def digest_of(study, package: Path) -> str:
    """The digest of a study as it would be with the sources in ``package``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_module, "source_digest", lambda roots: source_digest(roots, package))
        return study.source()


@pytest.mark.parametrize(
    ("document", "name", "file", "old", "new"),
    [
        (nagy2026, "masks", "papers/nagy2026/studies.py", "if self.low:", "if not self.low:"),
        (agarwal2025, "fair", "papers/agarwal2025/chain_runs.py", "INIT_SCALE = 0.1", "INIT_SCALE = 0.2"),
        (wang2025, "square_softmax", "papers/wang2025/contexts.py", "probes(self.n)", "probes(2 * self.n)"),
        (wang2025, "images_unseen0", "tasks/glyphs.py", "LOOK_ALIKE = 0.93", "LOOK_ALIKE = 0.9"),
        (he2025, "isotropic", "store.py", "np.savez_compressed(buffer", "np.savez(buffer"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith(".py") else "",
)
def test_what_a_study_its_groups_and_the_store_do_counts(package, document, name, file, old, new):
    study = document.studies("paper")[name]
    before = digest_of(study, package)
    edit(package / file, old, new)
    assert digest_of(study, package) != before


def test_committed_weights_of_other_code_are_not_used(monkeypatch):
    network = wang2025.studies("paper")["images_unseen0"].data.prompts.task.network
    read = store.read_provenance
    monkeypatch.setattr(networks.store, "read_provenance", lambda *a: read(*a) | {"source": "0" * 16})
    with pytest.raises(UserError, match="other training code"):
        networks.weights.__wrapped__(network)  # whatever the cache holds


def test_a_study_stands_on_its_own_task_and_models():
    paper = he2025.studies("paper")
    assert paper["isotropic"].source() != nagy2026.studies("paper")["masks"].source()
    assert paper["isotropic"].source() == he2025.studies("smoke")["isotropic"].source()
