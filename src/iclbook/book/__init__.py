"""Running the chapters and building the HTML. Needs the pinned `requirements.txt`; the rest of the library does not."""

import sys

# What reads notebooks checks them with jsonschema, which, where it finds this module, compiles a grammar of addresses for a second. No schema of a
# notebook asks for one, and jsonschema does without.
sys.modules.setdefault("rfc3987_syntax", None)
