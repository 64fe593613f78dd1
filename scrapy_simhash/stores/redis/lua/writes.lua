-- A commit is a run of writes, see `Writes`: code, key, field, value each.
-- A bucket beyond `limit` rows becomes a set of its own, which probes pass over, and an empty value
-- marks it; when it has lost half of them it is a bucket again.
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
