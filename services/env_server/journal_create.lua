-- Begin the lists of new sessions. KEYS: the sessions' keys. ARGV: time to live in ms, the encoded birth.
-- Returns 1 (begun) or 0 (there was such a list, and it stays as it is) for each key.
local begun = {}
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 0 then
    redis.call('RPUSH', key, ARGV[2])
    redis.call('PEXPIRE', key, ARGV[1])
    begun[i] = 1
  else
    begun[i] = 0
  end
end
return begun
