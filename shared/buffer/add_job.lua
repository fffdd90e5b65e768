-- Put a job into the queue, once.
-- KEYS: jobs hash, order list, the job's recipe, its state, its events, its frontier
-- ARGV: id, record (JSON), recipe (JSON), state, Unix time, the event's payload (JSON), most events to keep
-- Returns "added", "same" (it is there with this recipe), "conflict" (with another), or "taken" (a run that no trainer
-- service keeps has the id).
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 1 then
  if redis.call("GET", KEYS[3]) == ARGV[3] then return "same" end
  return "conflict"
end
if redis.call("EXISTS", KEYS[4]) == 1 then return "taken" end

redis.call("DEL", KEYS[6])  -- of an earlier job of the same id, removed a moment ago
redis.call("SET", KEYS[3], ARGV[3])
redis.call("SET", KEYS[4], ARGV[4])
redis.call("HSET", KEYS[1], ARGV[1], ARGV[2])
redis.call("RPUSH", KEYS[2], ARGV[1])
redis.call("XADD", KEYS[5], "MAXLEN", "~", ARGV[7], "*", "kind", "state", "time", ARGV[5], "payload", ARGV[6])
return "added"
