"""What runs within the server: reading where a store stands, and committing, each in one go.

Scripts are sent by their hash, so that each version of this package runs its own. They are read and
written atomically by Redis, in the append-only file as in the memory: all of a commit, or nothing.

A server whose memory is full runs those with the flag `allow-oom` only: what keeps or ends what was
begun, and what removes.
"""

from __future__ import annotations

# What a commit consists of, see `redis_writes`: code, key, field, value, one after the other.
# A bucket beyond `limit` rows becomes a set of its own, which probes pass over, and an empty value
# marks it; when it has lost half of them it is a bucket again.
_APPLY = """
local function find_row(value, row)
  local at = 0
  repeat
    at = string.find(value, row, at + 1, true)
  until not at or (at - 1) % #row == 0
  return at
end

local function add_row(key, field, row, limit, full)
  local value = redis.call('HGET', key, field)
  if not value then
    redis.call('HSET', key, field, row)
  elseif value == '' then
    redis.call('SADD', full, row)
  elseif not find_row(value, row) then
    if limit and #value >= limit * #row then
      for at = 1, #value, #row do
        redis.call('SADD', full, string.sub(value, at, at + #row - 1))
      end
      redis.call('SADD', full, row)
      redis.call('HSET', key, field, '')
    else
      redis.call('HSET', key, field, value .. row)
    end
  end
end

local function drop_row(key, field, row, limit, full)
  local value = redis.call('HGET', key, field)
  if not value then return end
  if value == '' then
    redis.call('SREM', full, row)
    if redis.call('SCARD', full) > limit / 2 then return end
    value = table.concat(redis.call('SMEMBERS', full))
    redis.call('DEL', full)
  else
    local at = find_row(value, row)
    if not at then return end
    value = string.sub(value, 1, at - 1) .. string.sub(value, at + #row)
  end
  if value == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, value) end
end

local function hex(field)
  return (string.gsub(field, '.', function(octet) return string.format('%02x', octet:byte()) end))
end

local function apply(writes, limit)
  local at = 1
  local code, key, field, value
  while at <= #writes do
    code, key, field, value, at = struct.unpack('>BI2c0I2c0I4c0', writes, at)
    if code == 1 then redis.call('HSET', key, field, value)
    elseif code == 2 then redis.call('HDEL', key, field)
    elseif code == 3 then redis.call('SADD', key, value)
    elseif code == 4 then redis.call('SREM', key, value)
    elseif code == 5 then add_row(key, field, value)
    elseif code == 6 then drop_row(key, field, value)
    elseif code == 7 then add_row(key, field, value, limit, key .. ':full:' .. hex(field))
    elseif code == 8 then drop_row(key, field, value, limit, key .. ':full:' .. hex(field))
    elseif code == 9 then redis.call('DEL', key)
    elseif code == 10 then redis.call('SET', key, value)
    end
  end
end

local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
"""

# KEYS: header, seq, leases, log, applied. ARGV: 'cluster' or ''. Returns header, seq, the crawls
# that are alive, and in a cluster the commits that are not in all slots yet.
BEGIN = (
    "#!lua flags=no-writes\n"
    + _APPLY
    + """
return {
  redis.call('GET', KEYS[1]),
  redis.call('GET', KEYS[2]) or '0',
  redis.call('ZRANGEBYSCORE', KEYS[3], string.format('%.0f', now()), '+inf'),
  ARGV[1] == '' and {} or
    redis.call('XRANGE', KEYS[4], '(' .. (redis.call('GET', KEYS[5]) or '0'), '+'),
}
"""
)


def even_when_full(text: str) -> str:
    """Make a script that runs on a server without memory as well, from one that does not."""
    return text.replace("#!lua", "#!lua flags=allow-oom", 1)


# KEYS: seq, log, lock, applied. ARGV: the seq that was read, token of this commit, token of the
# lock or '', commits to remember, rows of a full bucket, what was touched, fingerprints, writes;
# in a cluster those to other slots, else ''.
# Returns {'done', seq}, {'missed', seq, commits since}, or {'locked'}.
COMMIT = (
    "#!lua\n"
    + _APPLY
    + """
local last = redis.call('GET', KEYS[1]) or '0'
if last ~= ARGV[1] then
  local missed = redis.call('XRANGE', KEYS[2], '(' .. ARGV[1], '+')
  for _, commit in ipairs(missed) do
    -- Its answer was lost on the way, and it was sent again.
    if commit[2][4] == ARGV[2] then return {'done', commit[1]} end
  end
  return {'missed', last, missed}
end
local holder = redis.call('GET', KEYS[3])
if holder and holder ~= ARGV[3] or not holder and ARGV[3] ~= '' then return {'locked'} end
if ARGV[9] ~= '' and redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[4]) then
  -- The oldest commit is forgotten now, and must be everywhere.
  local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1][1]
  if tonumber((oldest:gsub('-.*', ''))) > tonumber(redis.call('GET', KEYS[4]) or '0') then
    return {'missed', last, {}}
  end
end
local seq = string.format('%.0f', math.max(now(), tonumber(last) + 1))
apply(ARGV[8], tonumber(ARGV[5]))
redis.call('SET', KEYS[1], seq)
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[4], seq, 'after', last, 'token', ARGV[2],
  'touched', ARGV[6], 'fingerprints', ARGV[7], 'slots', ARGV[9])
return {'done', seq}
"""
)

# KEYS: the seq of a slot. ARGV: seq of a commit, rows of a full bucket, writes. Whoever comes late,
# after another one did this and went on, changes nothing.
APPLY = (
    "#!lua\n"
    + _APPLY
    + """
if tonumber(redis.call('GET', KEYS[1]) or '0') >= tonumber(ARGV[1]) then return end
apply(ARGV[3], tonumber(ARGV[2]))
redis.call('SET', KEYS[1], ARGV[1])
"""
)

# KEYS: applied. ARGV: seq of a commit that is in all slots, as are those before it.
APPLIED = """#!lua flags=allow-oom
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1])
end
"""

# KEYS: leases. ARGV: crawl, its holder (the crawl and a token), microseconds, 'new' to take it,
# 'old' to keep it. Returns whether the holder has it now: nobody takes what another one holds.
LEASE = (
    "#!lua flags=allow-oom\n"
    + _APPLY
    + """
local time = now()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', time))
if ARGV[4] == 'new' then
  for _, holder in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    local of_crawl = string.find(holder, ARGV[1] .. ' ', 1, true) == 1
    -- Its own where the answer was lost on the way, and this was sent again.
    if of_crawl and holder ~= ARGV[2] then return 0 end
  end
end
redis.call('ZADD', KEYS[1], string.format('%.0f', time + tonumber(ARGV[3])), ARGV[2])
return 1
"""
)

# KEYS: lock. ARGV: token, milliseconds, 'new' to take it, 'old' to keep it. Returns whether it is
# held now: one that ended is not kept, because others may have committed since.
LOCK = """#!lua flags=allow-oom
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] or not holder and ARGV[3] == 'old' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

# KEYS: lock. ARGV: token.
UNLOCK = """#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""
