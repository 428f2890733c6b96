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

# Write the JSON Schemas and the tables of the pages again
generate:
    python tests/json_schemas.py
    python tests/reference_tables.py

# Build the distribution in dist/, check its metadata, and try the wheel
build:
    .ci/build
