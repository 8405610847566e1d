"""Building the pages. Needs the pinned `requirements.txt`."""
