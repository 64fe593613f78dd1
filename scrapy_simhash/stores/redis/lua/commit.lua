#!lua
-- KEYS: seq, log, lock, applied, a key that never exists. ARGV: the seq that was read, token of this
-- commit, holder of the lock or '', commits to remember, writes; for the log the keys that were
-- written, the fingerprints among them, and in a cluster the writes to other slots, else ''.
-- Returns {'done', seq}, {'missed', seq, commits since}, or {'locked'}.
local last = redis.call('GET', KEYS[1]) or '0'
if last ~= ARGV[1] then
  local missed = redis.call('XRANGE', KEYS[2], '(' .. ARGV[1], '+')
  for _, commit in ipairs(missed) do
    -- Its answer was lost on the way, and it was sent again.
    if commit[2][4] == ARGV[2] then return {'done', commit[1]} end
  end
  return {'missed', last, missed}
end
if (list_valid(KEYS[3])[1] or '') ~= ARGV[3] then return {'locked'} end
if ARGV[8] ~= '' and redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[4]) then
  -- The oldest commit is forgotten now, and must be everywhere.
  local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1][1]
  if tonumber((oldest:gsub('-.*', ''))) > tonumber(redis.call('GET', KEYS[4]) or '0') then
    return {'missed', last, {}}
  end
end
local seq = string.format('%.0f', math.max(now(), tonumber(last) + 1))
apply(ARGV[5])
redis.call('SET', KEYS[1], seq)
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[4], seq, 'after', last, 'token', ARGV[2],
  'written', ARGV[6], 'fingerprints', ARGV[7], 'slots', ARGV[8])
return {'done', seq}
