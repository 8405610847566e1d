"""The workflows, Binder and the container: valid by the published schema, commands that are there, and no more rights, time or network than each needs.

``data/github-workflow.schema.json`` is SchemaStore's (Apache-2.0). No runner is at hand here: what a workflow calls is what the other tests check.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = json.loads((Path(__file__).parent / "data" / "github-workflow.schema.json").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
NAMES = sorted(path.name for path in (ROOT / ".github" / "workflows").iterdir())
CONTEXTS = ("github.", "vars.", "runner.os", "steps.", "hashFiles(", "matrix.", "fromJSON(github.")
MAIN, REQUEST = "github.ref == 'refs/heads/main'", "github.event_name == 'pull_request'"


def read(name: str) -> dict:
    """A workflow; YAML 1.1 takes its word ``on`` for a truth value."""
    found = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return {"on" if key is True else key: value for key, value in found.items()}


def faults(workflow: dict) -> list[str]:
    """What the schema, the Makefile and bash say against a workflow, and what it leaves open."""
    found = [error.message[:200] for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(workflow)]
    for expression in re.findall(r"\$\{\{ (.*?) \}\}", json.dumps(workflow)):
        if not expression.startswith(CONTEXTS):
            found.append(f"unknown context: {expression}")
    if "permissions" not in workflow:
        found.append("no permissions")
    for name, job in workflow.get("jobs", {}).items():
        if "timeout-minutes" not in job:
            found.append(f"{name}: no timeout")
        if job.get("needs", name) not in workflow["jobs"]:
            found.append(f"{name}: needs {job['needs']}")
        for step in job.get("steps", []):
            found += step_faults(step)
    return found


def step_faults(step: dict) -> list[str]:
    if "uses" in step:
        keeps = "checkout" in step["uses"] and step.get("with", {}).get("persist-credentials") is not False
        found = ["a checkout leaves its token to notebooks"] if keeps else []
        return found + (
            [] if re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"]) else [f"no digest: {step['uses']}"]
        )
    script = step.get("run", "")
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    found = [checked.stderr] if checked.returncode else []
    found += ["an expression within a script"] if "${{" in script else []
    return found + [f"no target {t}" for t in re.findall(r"\bmake (\w+)", script) if t not in TARGETS]


@pytest.mark.parametrize("name", NAMES)
def test_a_workflow_is_sound(name: str) -> None:
    assert faults(read(name)) == []


def test_only_main_is_published_and_a_pull_request_leaves_its_pages() -> None:
    jobs = read("pages.yml")["jobs"]
    assert (jobs["deploy"]["if"], jobs["deploy"]["needs"]) == (MAIN, "build")
    assert jobs["deploy"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert "permissions" not in jobs["build"]
    kept = {s["uses"].partition("@")[0]: s for s in jobs["build"]["steps"] if "upload" in s.get("uses", "")}
    assert kept["actions/upload-artifact"]["if"] == REQUEST
    assert kept["actions/upload-pages-artifact"]["if"] == MAIN
    assert {step["with"]["path"] for step in kept.values()} == {"_build/html"}


def test_only_a_tag_is_released_and_only_its_job_may_write():
    workflow = read("release.yml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["release"]["permissions"] == {"contents": "write"}


def test_binder_and_the_container_call_what_is_there():
    for path in (ROOT / ".binder" / "postBuild", ROOT / ".binder" / "start"):
        assert os.access(path, os.X_OK)
        assert subprocess.run(["bash", "-n", str(path)], capture_output=True, check=False).returncode == 0
    text = (ROOT / "Dockerfile").read_text()
    copied = " ".join(re.findall(r"^COPY --chown=reader (.*) \S+$", text, re.MULTILINE)).split()
    assert "lock.txt" in copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {*re.findall(r"make (\w+) PYTHON", text)} == {"setup"} <= TARGETS
