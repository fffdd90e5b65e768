"""Small real environments for the tests. Each is also an example of bringing your own in one file."""
