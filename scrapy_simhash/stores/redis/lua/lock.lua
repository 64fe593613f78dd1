#!lua flags=allow-oom
-- KEYS: lock. ARGV: token, milliseconds, 'new' to take it, 'old' to keep it. Returns whether it is
-- held now. A lock that ended cannot be kept, because others may have committed since.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] or not holder and ARGV[3] == 'old' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
