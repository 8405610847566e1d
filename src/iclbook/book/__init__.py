"""Running the chapters and building the HTML. Needs the pinned `requirements.txt`; the rest of the library does not."""
