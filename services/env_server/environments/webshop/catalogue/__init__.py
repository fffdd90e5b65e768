"""A shop on disk: one folder of memory-mapped files with a manifest. `build` writes it, `open` opens it."""
