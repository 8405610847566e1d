"""What the cells of the crossing measure, one module a law."""
