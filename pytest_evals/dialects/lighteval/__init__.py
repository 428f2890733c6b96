"""lighteval's task modules (0.13.0): Python with a ``TASKS_TABLE``, and the names that
such modules import. No code of lighteval's runs here unless a module asks for a name
that we do not know."""
