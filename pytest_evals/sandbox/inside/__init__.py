"""The half that runs in the sandbox: standard library only, relative imports only,
because a new interpreter imports this folder without the package around it."""
