-- Append one action to each session's list, but only where the list is exactly as long as the caller believes.
-- KEYS: the sessions' keys. ARGV: time to live in ms, then for each key: the expected length, the action.
-- Returns 1 (appended) or 0 (the list is of another length, or gone) for each key.
local appended = {}
for i, key in ipairs(KEYS) do
  local expected = tonumber(ARGV[2 * i])
  if redis.call('LLEN', key) == expected then
    redis.call('RPUSH', key, ARGV[2 * i + 1])
    redis.call('PEXPIRE', key, ARGV[1])
    appended[i] = 1
  else
    appended[i] = 0
  end
end
return appended
