-- The figures of a training step's groups, once all are there; only the first who asks then gets them.
-- KEYS: figures hash
-- ARGV: number of groups that the step has
if redis.call("HLEN", KEYS[1]) < tonumber(ARGV[1]) then return {} end
local figures = redis.call("HVALS", KEYS[1])
redis.call("DEL", KEYS[1])
return figures
