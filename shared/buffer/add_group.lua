-- Put one group, or the tombstone of a dropped one, into the stream, once.
-- KEYS: groups stream, seen hash, held bytes, frontier, wanted, figures hash of the step
-- ARGV: step, index, kind ("group" or "dropped"), payload (a group's bytes, or the reason), byte limit (0: none),
--       the group's figures (empty: none), seconds to keep them
-- Returns "added", "known", or "full".
local step = tonumber(ARGV[1])
local field = ARGV[1] .. ":" .. ARGV[2]
if step < tonumber(redis.call("GET", KEYS[4]) or "0") then return "known" end
if redis.call("HEXISTS", KEYS[2], field) == 1 then return "known" end

local size = #ARGV[4]
local held = tonumber(redis.call("GET", KEYS[3]) or "0")
local limit = tonumber(ARGV[5])
-- Entries stay until a checkpoint covers them, so a strict bound could keep out the very groups that the trainer waits
-- for before it writes that checkpoint. Those always come in; so does a single group larger than the bound.
local wanted = tonumber(redis.call("GET", KEYS[5]) or "-1")
if limit > 0 and held > 0 and held + size > limit and step > wanted then return "full" end

local id = redis.call("XADD", KEYS[1], "*", "step", ARGV[1], "index", ARGV[2], ARGV[3], ARGV[4])
redis.call("HSET", KEYS[2], field, id .. " " .. size)
redis.call("INCRBY", KEYS[3], size)
-- In the same moment as the group, so that the figures of a whole step are there whoever of its makers dies.
if ARGV[6] ~= "" then
  redis.call("HSET", KEYS[6], ARGV[2], ARGV[6])
  redis.call("EXPIRE", KEYS[6], ARGV[7])
end
return "added"
