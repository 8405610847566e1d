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


# -- Binder and the container ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_a_script_of_binder_is_bash_and_may_run(name):
    path = ROOT / ".binder" / name
    assert path.read_text().startswith("#!/usr/bin/env bash\n")
    assert os.access(path, os.X_OK)
    assert subprocess.run(["bash", "-n", str(path)], capture_output=True, check=False).returncode == 0


def test_binders_start_shows_jupyterlab_what_the_build_has_prepared_and_hands_its_arguments_on(tmp_path):
    call = [str(ROOT / ".binder" / "start"), "sh", "-c", 'echo "$JUPYTER_PATH" "$0" "$1"', "one word", "two"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}/.cache/lab one word two\n"


def test_binder_takes_the_lock_under_a_python_that_it_is_for():
    lines = [line for line in (ROOT / ".binder" / "requirements.txt").read_text().splitlines() if line[0] != "#"]
    assert lines == ["-r ../lock.txt"]
    assert (ROOT / ".binder" / "runtime.txt").read_text() == "python-3.11\n"


def instructions() -> list[tuple[str, str]]:
    """Instructions of the Dockerfile, a continued line as one."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def test_the_container_runs_as_an_ordinary_user_what_is_there():
    found = instructions()
    assert {word for word, _ in found} <= {"FROM", "RUN", "USER", "WORKDIR", "ARG", "COPY", "CMD"}
    (user,) = (rest for word, rest in found if word == "USER")
    below = found[[word for word, _ in found].index("USER") :]
    assert user != "root"
    for word, rest in found:
        if word == "RUN":
            assert subprocess.run(["bash", "-n"], input=rest, text=True, check=False).returncode == 0
        if word == "COPY":
            owner, *names, _ = rest.split()
            assert owner == f"--chown={user}"
            assert all((ROOT / name).exists() for name in names)
    targets = [target for word, rest in below if word == "RUN" for target in re.findall(r"\bmake (\w+)", rest)]
    assert targets == ["setup"]
    assert set(targets) <= TARGETS
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["remoteUser"] == user
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
