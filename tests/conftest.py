"""What every test starts from, and what makes it quicker."""

import functools
import signal
import ssl

from hypothesis import settings

# A client of httpx makes a TLS context, and that reads all certificates of the system: a third of a test of a few
# requests to a server on this machine. One context does for all of them.
ssl.create_default_context = functools.cache(ssl.create_default_context)

# New examples in each run (the same ones in CI), half as many as by default: `--hypothesis-profile=default` has all.
settings.register_profile("quick", max_examples=50, deadline=None)  # a busy machine is no fault of the code
settings.load_profile("quick")

# A script's shell has what it runs in the background ignore Ctrl-C; so would the programs that tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)
