"""Conditions that are computed rather than looked up: an expression tree, its functions, its evaluator."""
