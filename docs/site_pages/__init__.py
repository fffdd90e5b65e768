"""What the documentation site has beside the pages of `docs/`: references made from code, the repository's files.

`docs/hooks.py` hands it to MkDocs. Pages in `docs/` are written for the repository view; here they become a site's.
"""
