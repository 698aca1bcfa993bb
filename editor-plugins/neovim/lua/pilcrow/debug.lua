-- Debug sessions that the person starts with nvim-dap: what passes between it and the adapter is told to
-- Pilcrow, and what the agent asks goes through nvim-dap. Sessions of the agent's own are joined, not told.

local M = {}

-- Answers that say more than that a request was carried out, and may be large, stay here.
local ANSWERS = {
  'attach',
  'configurationDone',
  'continue',
  'disconnect',
  'goto',
  'launch',
  'next',
  'pause',
  'restart',
  'restartFrame',
  'reverseContinue',
  'setBreakpoints',
  'setDataBreakpoints',
  'setExceptionBreakpoints',
  'setExpression',
  'setFunctionBreakpoints',
  'setInstructionBreakpoints',
  'setVariable',
  'stepBack',
  'stepIn',
  'stepOut',
  'terminate',
  'writeMemory',
}
local EVENTS = {
  'breakpoint',
  'capabilities',
  'continued',
  'exited',
  'initialized',
  'invalidated',
  'loadedSource',
  'memory',
  'module',
  'output',
  'process',
  'stopped',
  'terminated',
  'thread',
}

-- Sessions that are told, by nvim-dap's own number.
local followed = {}

local function send(session, what)
  what.session = tostring(session.id)
  for _, client in ipairs(vim.lsp.get_clients({ name = 'pilcrow' })) do
    client:notify('pilcrow/debug/event', what)
  end
end

local function tell(session, message)
  if followed[session.id] then
    send(session, { message = message })
  end
end

local function over(session)
  if followed[session.id] then
    followed[session.id] = nil
    send(session, { ended = true })
  end
end

-- The first that is known of a session is its adapter's answer to `initialize`.
local function begin(session, err, capabilities, arguments, seq)
  local config = session.config or {}
  if err or config.type == 'pilcrow' or followed[session.id] then
    return
  end
  local folder = type(config.cwd) == 'string' and config.cwd or vim.fn.getcwd()
  local parent = session.parent and tostring(session.parent.id) or nil
  followed[session.id] = { session = session, ours = {} }
  send(session, {
    started = { name = config.name, type = config.type, uri = vim.uri_from_fname(folder), parent = parent },
  })
  tell(session, { seq = seq, type = 'request', command = 'initialize', arguments = arguments })
  tell(session, {
    seq = 0,
    type = 'response',
    request_seq = seq,
    success = true,
    command = 'initialize',
    body = capabilities or vim.empty_dict(),
  })
  local request = session.request
  -- What is sent is told before its answer comes, as it passes.
  session.request = function(self, command, args, callback)
    local it = followed[self.id]
    if it and not it.asking and vim.list_contains(ANSWERS, command) then
      tell(self, { seq = self.seq, type = 'request', command = command, arguments = args })
    elseif it and it.asking then
      it.ours[self.seq] = true
    end
    return request(self, command, args, callback)
  end
  if session.on_close then
    session.on_close.pilcrow = over
  end
end

local function answered(command)
  return function(session, err, body, _, seq)
    local it = followed[session.id]
    if not it or it.ours[seq] then
      return
    end
    tell(session, {
      seq = 0,
      type = 'response',
      request_seq = seq,
      success = not err,
      command = command,
      body = body,
      message = err and tostring(err.message or err) or nil,
    })
  end
end

--- Follows what nvim-dap does from now on, where it is there. May be called again.
function M.follow()
  local found, dap = pcall(require, 'dap')
  if not found then
    return
  end
  local before = dap.listeners.before
  before.initialize.pilcrow = begin
  for _, command in ipairs(ANSWERS) do
    before[command].pilcrow = answered(command)
  end
  for _, event in ipairs(EVENTS) do
    before['event_' .. event].pilcrow = function(session, body)
      tell(session, { seq = 0, type = 'event', event = event, body = body })
    end
  end
end

--- `pilcrow/debug/request`: what the agent asks of an adapter.
---@type lsp.Handler
function M.on_request(_, params)
  local it
  for id, candidate in pairs(followed) do
    if tostring(id) == params.session then
      it = candidate
    end
  end
  if not it then
    return nil, vim.lsp.rpc.rpc_response_error(-32803, 'this debug session is over')
  end
  if params.command == 'terminate' or params.command == 'disconnect' then
    require('dap').terminate({ session = it.session })
    return vim.NIL
  end
  local co = coroutine.running()
  local waits, done, err, body = false, false, nil, nil
  it.asking = true
  it.session:request(params.command, params.arguments, function(failed, answer)
    done, err, body = true, failed, answer
    if waits then
      coroutine.resume(co)
    end
  end)
  it.asking = false
  if not done then
    waits = true
    coroutine.yield()
  end
  if err then
    return nil, vim.lsp.rpc.rpc_response_error(-32803, tostring(err.message or err))
  end
  return body or vim.NIL
end

return M
