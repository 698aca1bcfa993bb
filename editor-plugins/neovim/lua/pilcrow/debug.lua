-- Debug sessions that the user starts with nvim-dap: reports the messages between it and the adapter to
-- Pilcrow, and sends the agent's requests through nvim-dap. The agent's own sessions are not reported.

local M = {}

-- Commands whose requests and responses are reported; other responses may be large.
local REPORTED_COMMANDS = {
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

-- Reported sessions, by nvim-dap's own number.
local followed = {}

local function send(session, event)
  event.session = tostring(session.id)
  for _, client in ipairs(vim.lsp.get_clients({ name = 'pilcrow' })) do
    client:notify('pilcrow/debug/event', event)
  end
end

local function report(session, message)
  if followed[session.id] then
    send(session, { message = message })
  end
end

local function on_end(session)
  if followed[session.id] then
    followed[session.id] = nil
    send(session, { ended = true })
  end
end

-- The first event of a session is its adapter's response to `initialize`.
local function begin(session, err, capabilities, arguments, seq)
  local config = session.config or {}
  if err or config.type == 'pilcrow' or followed[session.id] then
    return
  end
  local directory = type(config.cwd) == 'string' and config.cwd or vim.fn.getcwd()
  local parent = session.parent and tostring(session.parent.id) or nil
  followed[session.id] = { session = session, agent_requests = {} }
  send(session, {
    started = { name = config.name, type = config.type, uri = vim.uri_from_fname(directory), parent = parent },
  })
  report(session, { seq = seq, type = 'request', command = 'initialize', arguments = arguments })
  report(session, {
    seq = 0,
    type = 'response',
    request_seq = seq,
    success = true,
    command = 'initialize',
    body = capabilities or vim.empty_dict(),
  })
  local request = session.request
  -- Requests are reported when sent, before their responses.
  session.request = function(self, command, args, callback)
    local entry = followed[self.id]
    if entry and not entry.sending and vim.list_contains(REPORTED_COMMANDS, command) then
      report(self, { seq = self.seq, type = 'request', command = command, arguments = args })
    elseif entry and entry.sending then
      entry.agent_requests[self.seq] = true
    end
    return request(self, command, args, callback)
  end
  if session.on_close then
    session.on_close.pilcrow = on_end
  end
end

local function answered(command)
  return function(session, err, body, _, seq)
    local entry = followed[session.id]
    if not entry or entry.agent_requests[seq] then
      return
    end
    report(session, {
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

--- Follows the sessions of nvim-dap, if installed. May be called repeatedly.
function M.follow()
  local found, dap = pcall(require, 'dap')
  if not found then
    return
  end
  local before = dap.listeners.before
  before.initialize.pilcrow = begin
  for _, command in ipairs(REPORTED_COMMANDS) do
    before[command].pilcrow = answered(command)
  end
  for _, event in ipairs(EVENTS) do
    before['event_' .. event].pilcrow = function(session, body)
      report(session, { seq = 0, type = 'event', event = event, body = body })
    end
  end
end

--- `pilcrow/debug/request`: sends a request of the agent to an adapter.
---@type lsp.Handler
function M.on_request(_, params)
  local entry
  for id, candidate in pairs(followed) do
    if tostring(id) == params.session then
      entry = candidate
    end
  end
  if not entry then
    return nil, vim.lsp.rpc.rpc_response_error(-32803, 'this debug session has ended')
  end
  if params.command == 'terminate' or params.command == 'disconnect' then
    require('dap').terminate({ session = entry.session })
    return vim.NIL
  end
  local co = coroutine.running()
  local waits, done, err, body = false, false, nil, nil
  entry.sending = true
  entry.session:request(params.command, params.arguments, function(failed, answer)
    done, err, body = true, failed, answer
    if waits then
      coroutine.resume(co)
    end
  end)
  entry.sending = false
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
