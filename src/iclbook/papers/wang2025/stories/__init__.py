"""Language models of wang2025 on a reader's own stories: the command ``iclbook stories``, and the judge of table 3."""
