"""lighteval's templates: a prompt function for a kind of question in a language."""
