#!lua
-- KEYS: the seq of a slot, a key that never exists. ARGV: seq of a commit or '', writes.
-- A process that comes late, after another one did this and went on, changes nothing.
if tonumber(redis.call('GET', KEYS[1]) or '0') >= (tonumber(ARGV[1]) or math.huge) then return end
apply(ARGV[2])
if ARGV[1] ~= '' then redis.call('SET', KEYS[1], ARGV[1]) end
