"""The env server's routes, one module for each resource."""
