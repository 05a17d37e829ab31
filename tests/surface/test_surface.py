"""What is public, what may import what, and that documents tell the truth."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import epsworth as ew

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "epsworth").rglob("*.py"))


def test_public_names_are_frozen():
    assert ew.__all__ == [
        "FAMILIES", "Approximate", "Bounds", "Classifier", "ClassifierError", "CurveParts", "Curves", "Domain",
        "Feature",
        "LeakWarning", "Mechanism", "Perturb", "Policy", "Population", "PrivacyIndicator", "Probabilistic", "Pure",
        "Radii", "Radius", "Receipt", "Recommendation", "SafeBox", "Split", "Study", "StudyResult", "Tailored",
        "as_classifier", "ceiling", "compose",
        "epsilon_needed", "gaussian_sigma", "load_model", "perturb", "perturb_file", "perturb_files",
        "radii", "radius", "recommend", "remote", "safe_box", "split_budget", "stability", "stability_in_parts",
        "tailor",
    ]  # fmt: skip
    for name in ew.__all__:
        assert name == "FAMILIES" or getattr(ew, name).__module__.startswith("epsworth")
        assert name in dir(ew)
    assert ew.exact.kernel("krr", 1, k=2).points == 2
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = ew.nope


def test_public_names_of_the_learner_are_frozen_and_documented():
    assert ew.learner.__all__ == [
        "MECHANISMS", "Accuracies", "Aggregator", "AuditedClassifier", "Category", "Certificates", "Classifier",
        "Client", "Holder", "LDPClassifier", "LatticeConfig", "Number", "Plan", "PrivateValidation", "Round",
        "ScoreAudit", "TableClassifier", "TableConfig", "TableLearner", "aggregate_files", "assigned_rounds",
        "assigned_rows", "chernoff", "expected_accuracy", "learn_table", "plan", "published_bound", "rate",
        "report_file", "simulate", "write_reports",
    ]  # fmt: skip
    document = (ROOT / "docs" / "learner.md").read_text() + (ROOT / "docs" / "reference.md").read_text()
    for name in ew.learner.__all__:
        assert name == "MECHANISMS" or getattr(ew.learner, name).__doc__
        assert f"`{name}" in document, f"the documents do not mention {name}"
    for name, kind in ew.learner.MECHANISMS.items():
        assert kind.reference
        assert f"`{name}`" in document


def test_every_public_name_is_documented():
    for name in ew.__all__:
        if name != "FAMILIES":
            assert getattr(ew, name).__doc__
    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in ew.__all__:
        assert f"`{name}" in reference, f"docs/reference.md does not mention {name}"


def test_names_of_the_release_part_are_frozen_and_documented():
    from epsworth import exact

    assert exact.__all__ == [
        "KERNELS", "Kernel", "KernelLaw", "KernelMechanism", "Pieces", "RegionKernel", "kernel", "region_kernel",
    ]  # fmt: skip
    reference, draws = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("reference", "draws"))
    for name in exact.__all__:
        assert f"`exact.{name}" in reference, name
    assert set(exact.KERNELS) == set(ew.FAMILIES) - {"laplace", "gaussian", "boosted_laplace"}
    for name in exact.KERNELS:
        assert f"`{name}`" in draws, name


def test_the_audit_is_public():
    from epsworth import release

    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in ("Audit", "SamplerAudit", "audit_policy", "audit_sampler"):
        assert name in release.__all__
        assert getattr(release, name).__doc__
        assert f"`{name}" in reference


def test_names_of_the_parts_are_frozen_and_documented():
    from epsworth import pac

    assert pac.__all__ == [
        "MI", "Attack", "DPEquivalent", "Exposure", "FixedForest", "FoundBudget", "Ledger", "Mechanism",
        "PACPrivatizer", "Posterior", "RecordPosterior", "Release", "Responder", "ResponseServer", "Utility",
        "WorldModels", "allocate", "budget", "dp_epsilon", "dp_posterior",
        "generalised_prior", "lira", "pool_test", "posterior", "procrustes", "tpr_bound",
    ]  # fmt: skip
    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in pac.__all__:
        assert getattr(pac, name).__doc__
        assert f"`{name}" in reference, f"docs/reference.md does not mention pac.{name}"
        assert name in dir(pac)


def test_names_of_pages_are_frozen_and_documented():
    from epsworth import reports

    assert reports.__all__ == ["RESULTS", "Page", "report", "report_document", "report_file"]
    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in reports.__all__:
        assert f"`reports.{name}" in reference, name


def test_names_of_coverage_are_frozen_and_documented():
    from epsworth import coverage

    assert coverage.__all__ == [
        "BlackBox", "CoverageError", "CoverageWarning", "Encoded", "ExPost", "Kernels", "Neighbours",
        "OutputPerturbation", "Profile", "Release", "Transcript", "TypicalProfile", "Usefulness", "Window",
        "WorstCase", "black_box", "descend", "encode", "expost_diffprivlib", "expost_objective", "fit_base",
        "kernels", "linear_gradients", "loo", "norm_bound", "onset", "plateau_ends", "profile", "release",
        "sensitivity", "stand_in", "torch_gradients", "typical_profile", "window", "worst_case",
    ]  # fmt: skip
    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in coverage.__all__:
        assert getattr(coverage, name).__doc__
        assert f"`{name}" in reference, f"docs/reference.md does not mention {name}"


def test_names_of_the_noise_part_are_frozen_and_documented():
    from epsworth import noise

    assert noise.__all__ == [
        "Channel", "Choice", "Grouped", "LatticeRelease", "Optimum", "Ranking", "Responses", "best_confidence",
        "boosted", "channel", "cheapest", "delta", "groups", "largest_T", "most_releases", "narrowest_interval",
        "on_simplex", "optimal_noise", "pb_grr", "published_delta", "published_epsilon", "published_renyi",
        "release_of", "renyi", "split_users", "windows",
    ]  # fmt: skip
    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in noise.__all__:
        assert f"`noise.{name}" in reference, name
    assert ew.noise is noise  # reached without importing it by name


def test_every_family_states_its_source():
    for name, kind in ew.FAMILIES.items():
        assert kind.reference
        assert kind.title
        assert kind.__doc__
        assert f"`{name}`" in (ROOT / "docs" / "mechanisms.md").read_text()


def test_imports_follow_the_path_of_the_data():
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or "lint-imports"
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


HEAVY = ("sklearn", "matplotlib", "polars", "pandas", "skops", "torch")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import epsworth, epsworth.cli", ("numpy", "scipy", "rich.console", *HEAVY)),
        ("import epsworth as ew; ew.stability; ew.FAMILIES; ew.recommend", HEAVY),
        ("from epsworth import exact; exact.kernel('pm', 1)", ("cryptography", *HEAVY)),
        ("import epsworth as ew; ew.learner.Client", HEAVY),
    ],
)
def test_importing_loads_nothing_heavy(code, absent):
    code = f"import sys; {code}; print([m for m in {absent} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_claims_name_functions_and_tests_that_exist():
    rows = re.findall(
        r"^\| (?!claim \||---)(.+?) \| (.+?) \| `(.+?)` \| `(.+?)` \| `.+` \|$",
        (ROOT / "docs" / "claims.md").read_text(),
        re.M,
    )
    assert len(rows) > 100
    for _, _, function, tests in rows:
        module, _, name = function.rpartition(".")
        owner = importlib.import_module(module) if not module.split(".")[-1][0].isupper() else None
        if owner is None:
            home, _, cls = module.rpartition(".")
            owner = getattr(importlib.import_module(home), cls)
        assert hasattr(owner, name), function
        for test in tests.split("`, `"):
            file, _, test_name = test.partition("::")
            assert f"def {test_name}(" in (ROOT / file).read_text(), test


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_in_documents_run(path, tmp_path, monkeypatch):
    """The blocks of one document run in order, in one namespace; some need packages that may be missing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    space: dict[str, object] = {}
    for needs, block in re.findall(r"```python(?: needs=(\S+))?\n(.*?)```", path.read_text(), re.S):
        if all(importlib.util.find_spec(package) for package in needs.split(",") if package):
            with warnings.catch_warnings():
                if needs:
                    warnings.simplefilter("ignore")  # of other people's packages
                exec(compile(block, str(path), "exec"), space)


def test_no_source_file_outgrows_a_head():
    for path in SOURCES:
        assert len(path.read_text().splitlines()) <= 400, path


def test_every_benchmark_is_a_part_that_the_command_runs(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.__main__ import PARTS

    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.startswith("former_")}
    files -= {"__init__", "__main__", "memory", "timing"}
    assert set(PARTS) == files
    assert "-m benchmarks --short" in (ROOT / ".ci" / "run").read_text()


def test_the_oldest_declared_versions_are_tried():
    """Every runtime dependency declares a lower bound, and CI installs exactly those."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert all(">=" in dependency for dependency in project["dependencies"])
    assert ".ci/smoke 3.11 lowest-direct" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda page: page.name
)
def test_every_row_of_a_table_belongs_to_a_table(page):
    """A header, a line of dashes, rows without a gap: else Markdown shows bars."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for block in re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE):
        rows = block.splitlines()
        assert len(rows) > 2, rows
        assert re.fullmatch(r"\|(?: *:?-+:? *\|)+", rows[1]), rows[0]
        columns = {len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in rows}
        assert len(columns) == 1, rows[0]
