"""One package per paper: which runs each figure and table needs at each profile, and what is measured on them."""
