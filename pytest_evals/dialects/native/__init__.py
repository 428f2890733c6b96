"""Our own dialect: evals as short YAML files and as Python functions."""
