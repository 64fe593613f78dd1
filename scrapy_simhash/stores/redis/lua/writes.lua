-- A commit is a run of writes, see `Writes`: code, limit, and key, field and value behind their lengths.
-- A set is a field with its members side by side. Beyond `limit` members it becomes a sorted set of
-- its own, and an empty field marks it; when it has lost half of them it is a field again.
local function full_of(key, field)
  return key .. ':full:' .. (string.gsub(field, '.', function(octet)
    return string.format('%02x', octet:byte())
  end))
end

local function find_member(set, member)
  local at = 0
  repeat
    at = string.find(set, member, at + 1, true)
  until not at or (at - 1) % #member == 0
  return at
end

local function add(key, field, member, limit)
  local set = redis.call('HGET', key, field)
  if not set and limit > 0 then
    redis.call('HSET', key, field, member)
  elseif not set or set == '' then
    redis.call('HSET', key, field, '')
    redis.call('ZADD', full_of(key, field), 0, member)
  elseif not find_member(set, member) then
    if #set < limit * #member then
      redis.call('HSET', key, field, set .. member)
      return
    end
    local full = full_of(key, field)
    for at = 1, #set, #member do
      redis.call('ZADD', full, 0, string.sub(set, at, at + #member - 1))
    end
    redis.call('ZADD', full, 0, member)
    redis.call('HSET', key, field, '')
  end
end

local function discard(key, field, member, limit)
  local set = redis.call('HGET', key, field)
  if set == '' then
    local full = full_of(key, field)
    redis.call('ZREM', full, member)
    if redis.call('ZCARD', full) > limit / 2 then return end
    set = table.concat(redis.call('ZRANGE', full, 0, -1))
    redis.call('DEL', full)
  else
    local at = set and find_member(set, member)
    if not at then return end
    set = string.sub(set, 1, at - 1) .. string.sub(set, at + #member)
  end
  if set == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, set) end
end

local function apply(writes)
  local at, code, limit, key, field, value = 1
  while at <= #writes do
    code, limit, key, field, value, at = struct.unpack('>BI2I2c0I2c0I4c0', writes, at)
    if code == 1 then redis.call('HSET', key, field, value)
    elseif code == 2 then redis.call('HDEL', key, field)
    elseif code == 3 then add(key, field, value, limit)
    elseif code == 4 then discard(key, field, value, limit)
    elseif code == 5 then
      redis.call('HDEL', key, field)
      redis.call('DEL', full_of(key, field))
    end
  end
end

local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function list_valid(leases)
  return redis.call('ZRANGEBYSCORE', leases, string.format('%.0f', now()), '+inf')
end
