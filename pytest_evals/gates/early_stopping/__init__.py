"""Early decisions of gates."""
