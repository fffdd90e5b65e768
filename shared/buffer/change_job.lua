-- Change a job's state if that is legal, with everything that follows from it: times, queue, active job, event.
-- KEYS: jobs hash, order list, active job, the job's state, its events, its policy version
-- ARGV: id, new state, legal states before it (",queued,running,"), "over" or "", reason or "", time (ISO 8601),
--       Unix time, most events to keep, id of this change
-- Returns {"changed" | "illegal" | "unknown", the state before}.
local id, to, reason, now = ARGV[1], ARGV[2], ARGV[5], ARGV[6]
local stored = redis.call("HGET", KEYS[1], id)
if not stored then return {"unknown", ""} end
local before = redis.call("GET", KEYS[4])
local record = cjson.decode(stored)
-- The client repeats a call whose answer was lost with the connection.
if before == to and record.change == ARGV[9] then return {"changed", before} end
if not string.find(ARGV[3], "," .. before .. ",", 1, true) then return {"illegal", before} end

record.change = ARGV[9]
record.reason = reason ~= "" and reason or cjson.null
record.ended_at = cjson.null
if to == "running" then
  if record.started_at == cjson.null then record.started_at = now end
  redis.call("SET", KEYS[3], id)
  -- The policy servers may hold another job's weights by now: the version counts again once the trainer has pushed it.
  local version = redis.call("GET", KEYS[6])
  if version then record.policy_version = tonumber(version) end
  redis.call("DEL", KEYS[6])
elseif to == "queued" then
  redis.call("LREM", KEYS[2], 0, id)
  redis.call("RPUSH", KEYS[2], id)
elseif ARGV[4] == "over" then
  record.ended_at = now
  if redis.call("GET", KEYS[3]) == id then redis.call("DEL", KEYS[3]) end
end
redis.call("HSET", KEYS[1], id, cjson.encode(record))
redis.call("SET", KEYS[4], to)
local payload = cjson.encode({state = to, before = before, reason = record.reason})
redis.call("XADD", KEYS[5], "MAXLEN", "~", ARGV[8], "*", "kind", "state", "time", ARGV[7], "payload", payload)
return {"changed", before}
