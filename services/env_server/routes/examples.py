"""Examples for the OpenAPI document, as the server really answers."""

from typing import Any

_TASK = "pick_and_place_simple-TissueBox-None-Toilet-426/trial_T20190910_155319_795672"
_INFO: dict[str, Any] = {"won": False, "task_type": "pick_and_place_simple", "goal": "put some tissuebox on toilet"}

OBSERVATION: dict[str, Any] = {
    "session_id": "pX0r5Zy1mE2vQ8sT4uWkLg",
    "task_id": _TASK,
    "observation": "You are in the middle of a room. Looking quickly around you, you see a countertop 1, "
    "a sinkbasin 1, and a toilet 1.\n\nYour task is to: put some tissuebox on toilet.",
    "admissible_actions": [
        "go to countertop 1",
        "go to sinkbasin 1",
        "go to toilet 1",
        "help",
        "inventory",
        "look",
    ],
    "state_key": "a2d5f72538a32007",
    "true_state": "3199efa537b86cf1",
    "step_index": 0,
    "info": _INFO,
}
STEP_RESULT: dict[str, Any] = OBSERVATION | {
    "observation": "You arrive at countertop 1. On the countertop 1, you see a tissuebox 3.",
    "admissible_actions": [
        "examine countertop 1",
        "go to sinkbasin 1",
        "go to toilet 1",
        "help",
        "inventory",
        "look",
        "take tissuebox 3 from countertop 1",
    ],
    "state_key": "78e0666cd9cb6412",
    "true_state": "4757f47c6c2aa27d",
    "step_index": 1,
    "info": _INFO | {"valid_action": True},
    "reward": 0.0,
    "terminated": False,
    "truncated": False,
}
PROBLEM: dict[str, Any] = {
    "type": "/problems/step-conflict",
    "title": "The step does not fit the session's history",
    "status": 409,
    "detail": "step_index: step 7 is not next; session pX0r5Zy1mE2vQ8sT4uWkLg is at step 1, "
    "as GET /v1/sessions/pX0r5Zy1mE2vQ8sT4uWkLg tells.",
    "expected_step_index": 1,
}
SESSION_REQUEST: dict[str, Any] = {
    "environment": "alfworld",
    "split": "train",
    "index": 0,
    "count": 8,
    "true_state": True,
}
STEP_REQUEST: dict[str, Any] = {"action": "go to countertop 1", "step_index": 0}
STEP_BATCH: dict[str, Any] = {"steps": [{"session_id": OBSERVATION["session_id"], **STEP_REQUEST}]}
STEP_BATCH_RESULT: dict[str, Any] = {"results": [STEP_RESULT, PROBLEM]}
SESSION_STATE: dict[str, Any] = OBSERVATION | {
    "history_length": 0,
    "expires_in_s": 3600.0,
    "terminated": False,
    "truncated": False,
}

_SEEN = {name: value for name, value in STEP_RESULT.items() if name != "reward"}
OPENENV_RESET: dict[str, Any] = {"seed": 7, "split": "train", "options": {"expert": True}}
OPENENV_OPENED: dict[str, Any] = {
    "observation": OBSERVATION | {"terminated": False, "truncated": False},
    "reward": None,
    "done": False,
}
OPENENV_STEP: dict[str, Any] = {
    "session_id": OBSERVATION["session_id"],
    "action": {"action": "go to countertop 1", "step_index": 0},
}
OPENENV_STEPPED: dict[str, Any] = {"observation": _SEEN, "reward": 0.0, "done": False}
