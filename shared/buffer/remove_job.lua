-- Forget a job that is over, with everything of it.
-- KEYS: jobs hash, order list, the job's frontier, its state, every other key of the job
-- ARGV: id, states in which it may be removed (",completed,failed,"), seconds that a group may still be on its way
-- Returns {"removed" | "illegal" | "unknown", the state before}.
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 0 then return {"unknown", ""} end
local before = redis.call("GET", KEYS[4])
if not string.find(ARGV[2], "," .. before .. ",", 1, true) then return {"illegal", before} end
redis.call("HDEL", KEYS[1], ARGV[1])
redis.call("LREM", KEYS[2], 0, ARGV[1])
for i = 4, #KEYS do redis.call("UNLINK", KEYS[i]) end
-- A group that an orchestrator is still sending lies below this frontier, and is not kept.
redis.call("SET", KEYS[3], "9007199254740992", "EX", ARGV[3])
return {"removed", before}
