# `just` lists these recipes. They use the environment that CONTRIBUTING.md sets up.
export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

[private]
default:
    @just --list

# Create the environment with all tools
setup:
    python3 -m venv .venv
    pip install --quiet --upgrade pip
    pip install --quiet -c constraints.txt -e '.[hf,xdist]' --group tests --group lint --group docs

# Format the code and fix what ruff can fix
format:
    ruff format .
    ruff check --fix .

# Check format, lint, types and import contracts
lint:
    ruff format --check .
    ruff check .
    mypy
    lint-imports --no-logo

# Run the quick tests, or those of some paths: `just test tests/gates`
test *arguments:
    pytest -n 2 {{ arguments }}

# Run the slow tests
slow *arguments:
    pytest -n 2 -m slow {{ arguments }}

# Build the pages; fails on broken links
docs:
    zensical build --clean --strict

# Check a change: lint and quick tests
check: lint test

# Write the task schemas and the tables of the pages again
generate:
    python -m pytest_evals.dialects.lm_eval.schema > task.schema.json.new
    mv task.schema.json.new pytest_evals/dialects/lm_eval/task.schema.json
    python -m pytest_evals.dialects.native.schema > eval.schema.json.new
    mv eval.schema.json.new docs/eval.schema.json
    python tests/reference_tables.py

# Build the distribution in dist/ and check its metadata
build:
    rm -rf dist
    python -m build
    twine check --strict dist/*
