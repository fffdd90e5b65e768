"""vLLM's log in the form of ours, in each of its processes: ``vllm_logging.json``, which vLLM reads, names this."""

import logging
import os

from shared.telemetry import log_handler

SERVICE = "policy_server"


def handler() -> logging.Handler:
    """What vLLM's lines go through. Also sets their level, which a file can't take from the environment."""
    logging.getLogger("vllm").setLevel(os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"))
    return log_handler(SERVICE)
