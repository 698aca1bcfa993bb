-- Stands in for nvim-dap, which no package has: its public functions, and its messages in their order. The adapter
-- always answers the same.

local function named()
  return setmetatable({}, {
    __index = function(all, name)
      local new = {}
      rawset(all, name, new)
      return new
    end,
  })
end

local M = { listeners = { before = named(), after = named() }, asked = {}, line = 2 }
local Session = {}
Session.__index = Session

local answers = {
  initialize = function()
    return { supportsConfigurationDoneRequest = true, supportsSetVariable = true }
  end,
  setBreakpoints = function(arguments)
    return { breakpoints = vim.tbl_map(function(it)
      return { verified = true, line = it.line }
    end, arguments.breakpoints) }
  end,
  threads = function()
    return { threads = { { id = 1, name = 'main' } } }
  end,
  stackTrace = function()
    local source = { path = M.path }
    return { stackFrames = { { id = 1000, name = 'inner', line = M.line, column = 1, source = source } }, totalFrames = 1 }
  end,
  scopes = function()
    return { scopes = { { name = 'Locals', variablesReference = 5, expensive = false } } }
  end,
  variables = function()
    return { variables = { { name = 'n', value = '3', variablesReference = 0 } } }
  end,
}

function Session:event(name, body)
  for _, listener in pairs(M.listeners.before['event_' .. name]) do
    listener(self, body)
  end
end

function Session:request(command, arguments, callback)
  local seq = self.seq
  self.seq = seq + 1
  table.insert(M.asked, command)
  vim.schedule(function()
    local err, body
    if command == 'evaluate' then
      err = { message = 'no such name' }
    else
      body = answers[command] and answers[command](arguments) or nil
    end
    for _, listener in pairs(M.listeners.before[command]) do
      listener(self, err, body, arguments, seq)
    end
    if callback then
      callback(err, body)
    end
    if command == 'next' then
      M.line = M.line + 1
      self:event('stopped', { reason = 'step', threadId = 1, allThreadsStopped = true })
    end
  end)
end

function M.run(config)
  local session = setmetatable({ id = 1, seq = 1, config = config, on_close = {} }, Session)
  M.session = session
  local about = { clientID = 'neovim', adapterID = 'nvim-dap', pathFormat = 'path', linesStartAt1 = true, columnsStartAt1 = true }
  session:request('initialize', about, function()
    session:request(config.request, config)
    session:event('initialized')
    local source = { path = M.path, name = 'a.py' }
    session:request('setBreakpoints', { source = source, breakpoints = { { line = 2 } }, sourceModified = false }, function()
      session:request('setExceptionBreakpoints', { filters = {} }, function()
        session:request('configurationDone', nil, function()
          session:event('stopped', { reason = 'breakpoint', threadId = 1, allThreadsStopped = true })
        end)
      end)
    end)
  end)
end

function M.close()
  M.session:event('terminated')
  for _, closed in pairs(M.session.on_close) do
    closed(M.session)
  end
end

return M
