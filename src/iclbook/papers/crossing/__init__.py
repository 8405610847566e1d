"""Five Papers Examine Each Other."""
