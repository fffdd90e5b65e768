-- Begin the lists of new sessions. KEYS: the sessions' keys. ARGV: time to live in ms, the encoded birth.
for _, key in ipairs(KEYS) do
  redis.call('RPUSH', key, ARGV[2])
  redis.call('PEXPIRE', key, ARGV[1])
end
