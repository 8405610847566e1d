"""Executable reproductions of five documents on how attention learns in context."""
