-- Live sessions: their state from the server's events, and the requests that change it.

local client = require('pilcrow.client')
local transcript = require('pilcrow.transcript')

local value = client.value

local M = {}

-- Longest body of a tool call in the transcript; `:Pilcrow transcript` has the whole.
local MAX_LINES = 400
local MAX_WIDTH = 2000

---@class pilcrow.Session
---@field number integer
---@field id? string the server's name; nil until the server made the session
---@field cwd? string
---@field seq integer the last event
---@field client? integer the server that has it open
local Session = {}
Session.__index = Session

---@type pilcrow.Session[]
M.all = {}

--- The session that was used last.
---@type pilcrow.Session?
M.current = nil

-- Callbacks for changes outside the transcript's items.
local watchers = {}

---@param watch fun(session: pilcrow.Session, event?: table)
function M.watch(watch)
  table.insert(watchers, watch)
end

--- Makes a session without opening it on the server.
---@param id? string
---@param cwd? string
function M.new(id, cwd)
  local self = setmetatable({ number = #M.all + 1, id = id, cwd = cwd, seq = 0, waiting = {}, links = {} }, Session)
  self.transcript = transcript.new('# Pilcrow')
  self:reset()
  M.all[self.number] = self
  M.current = self
  return self
end

---@param id string
function M.find(id)
  return vim.iter(pairs(M.all)):map(function(_, session)
    return session
  end):find(function(session)
    return session.id == id
  end)
end

-- Lines of a text, of limited number and width.
local function limited(text)
  local lines = vim.split(text, '\n', { plain = true, trimempty = true })
  local left = #lines - MAX_LINES
  if left > 0 then
    lines = vim.list_slice(lines, 1, MAX_LINES)
    table.insert(lines, ('… %d more lines'):format(left))
  end
  return vim.tbl_map(function(line)
    return #line > MAX_WIDTH and vim.fn.strcharpart(line, 0, MAX_WIDTH) .. ' …' or line
  end, lines)
end

-- A block of code whose fence does not occur in it.
local function fenced(text, language)
  local fence = '```'
  for run in text:gmatch('`+') do
    if #run >= #fence then
      fence = run .. '`'
    end
  end
  local lines = limited(text)
  table.insert(lines, 1, fence .. language)
  table.insert(lines, fence)
  return lines
end

local function text_of(content)
  content = value(content) or {}
  if type(content) == 'string' then
    return content
  end
  local texts = vim.tbl_map(function(block)
    return block.type == 'image' and '[image]' or value(block.text) or ''
  end, content)
  return table.concat(texts, '\n')
end

local function one_line(text)
  return (vim.trim(text):gsub('%s*\n.*', ' …'))
end

local function quoted(mark, text)
  local lines = limited(text)
  lines[1] = vim.trim(('**%s** %s'):format(mark, lines[1] or ''))
  return vim.tbl_map(function(line)
    return '> ' .. line
  end, lines)
end

--- Removes all state that events made.
function Session:reset()
  self.transcript:clear()
  self.running, self.compacting, self.notes = false, false, 0
  self.queue, self.plan, self.questions = {}, {}, {}
  self.calls, self.streams = {}, {}
end

-- Draws a tool call: one line, and below it the input, the output and the diff.
function Session:draw_call(call)
  local mark = call.is_error and '✗' or call.is_done and '✓' or '…'
  local head = ('▸ %s %s'):format(mark, one_line((call.label or call.name) .. call.subject))
  if call.duration then
    head = ('%s (%.1f s)'):format(head, call.duration / 1000)
  end
  local lines = { head }
  if call.input then
    vim.list_extend(lines, fenced(call.input, vim.startswith(call.input, '{') and 'json' or ''))
  end
  if call.is_done and call.output ~= '' then
    vim.list_extend(lines, fenced(call.output, ''))
  end
  if call.diff then
    vim.list_extend(lines, fenced(call.diff, 'diff'))
  end
  self.transcript:set('call ' .. call.id, lines, true)
end

local function input_of(arguments)
  arguments = value(arguments)
  if type(arguments) ~= 'table' or vim.tbl_isempty(arguments) then
    return nil
  end
  local keys = vim.tbl_keys(arguments)
  if #keys == 1 and type(arguments[keys[1]]) == 'string' then
    return arguments[keys[1]]
  end
  return vim.json.encode(arguments)
end

-- The subject of a call, for its first line.
local function subject_of(arguments)
  for _, key in ipairs({ 'path', 'command', 'query', 'pattern', 'action', 'question' }) do
    if type(arguments) == 'table' and type(arguments[key]) == 'string' then
      return ' ' .. arguments[key]
    end
  end
  return ''
end

---@return table
function Session:call(id, name, arguments)
  local call = self.calls[id]
  if not call then
    call = { id = id, name = name, input = input_of(arguments), subject = subject_of(arguments), output = '' }
    self.calls[id] = call
  end
  return call
end

function Session:end_call(call, content, details, is_error, duration)
  details = value(details)
  call.is_done, call.is_error, call.duration = true, is_error, value(duration)
  call.output = text_of(content)
  call.diff = type(details) == 'table' and type(details.diff) == 'string' and details.diff ~= '' and details.diff or nil
  self:draw_call(call)
end

--- Adds a note to the transcript.
function Session:note(mark, text)
  self.notes = self.notes + 1
  self.transcript:set('note ' .. self.notes, quoted(mark, text))
end

local function key_of(message_id, index)
  return ('%s %d'):format(message_id, index)
end

-- Shows a complete block of an assistant's message.
function Session:block(message_id, index, block)
  local key = key_of(message_id, index)
  if block.type == 'text' and vim.trim(block.text) ~= '' then
    self.transcript:set(key, vim.split(vim.trim(block.text), '\n', { plain = true }))
  elseif block.type == 'thinking' and vim.trim(block.thinking or '') ~= '' then
    self.transcript:set(key, vim.list_extend({ '▸ thinking' }, limited(block.thinking)), true)
  elseif block.type == 'toolCall' then
    self:draw_call(self:call(block.id, block.name, block.arguments))
  end
end

--- Shows a complete message.
function Session:message(message_id, message)
  if message.role == 'user' then
    local lines = vim.split(vim.trim(text_of(message.content)), '\n', { plain = true })
    self.transcript:set('user ' .. message_id, vim.list_extend({ '## You', '' }, lines))
  elseif message.role == 'assistant' then
    for index, block in ipairs(message.content) do
      if not self.streams[key_of(message_id, index - 1)] then
        self:block(message_id, index - 1, block)
      end
    end
  elseif message.role == 'toolResult' then
    local call = self:call(message.toolCallId, message.toolName)
    if not call.is_done then
      self:end_call(call, message.content, message.details, message.isError)
    end
  end
end

-- Shows a part of a message that is being streamed.
function Session:update(message_id, update)
  local key = key_of(message_id, update.index)
  local kind, part = update.type:match('^(%a+)_(%a+)$')
  if kind == 'toolcall' then
    if part == 'end' and update.call then
      self:draw_call(self:call(update.call.id, update.call.name, update.call.arguments))
    end
  elseif part == 'delta' then
    local stream = self.streams[key]
    if not stream then
      stream = {}
      self.streams[key] = stream
      self.transcript:set(key, kind == 'thinking' and { '▸ thinking', '' } or { '' }, kind == 'thinking')
    end
    table.insert(stream, update.delta)
    self.transcript:append(key, update.delta)
  elseif part == 'end' then
    local content = value(update.content) or {}
    local text = value(kind == 'thinking' and content.thinking or content.text) or ''
    local stream = self.streams[key]
    if not stream or table.concat(stream) ~= vim.trim(text) then
      self:block(message_id, update.index, { type = kind, text = text, thinking = text })
    end
    self.streams[key] = true
  end
end

local REASONS = {
  aborted = 'Stopped',
  disconnected = 'Disconnected',
  error = 'Error',
  timeout_total = 'Timeout',
  timeout_idle = 'Timeout',
  turn_limit = 'Turn limit reached',
}

local function place_of(problem)
  return ('%s %s:%d: %s'):format(problem.severity, problem.path, problem.line, problem.message)
end

local handlers = {}

function handlers.agent_start(self, event)
  self.running, self.model = true, value(event.model) or self.model
end

function handlers.agent_end(self, event)
  local reason, err = REASONS[event.reason], value(event.error)
  if reason or err then
    self:note(reason or 'Error', err or '')
  end
end

function handlers.agent_settled(self)
  self.running, self.compacting = false, false
  self:refresh_status()
end

function handlers.message_start(self, event)
  if value(event.message) then
    self:message(event.message_id, event.message)
  end
end

function handlers.message_update(self, event)
  self:update(event.message_id, event.update)
end

function handlers.message_end(self, event)
  self:message(event.message_id, event.message)
end

function handlers.tool_execution_start(self, event)
  local call = self:call(event.tool_call_id, event.tool_name, event.input)
  call.label, call.input = event.label, input_of(event.input)
  self:draw_call(call)
end

function handlers.tool_execution_update(self, event)
  local call = self:call(event.tool_call_id, event.tool_name or '')
  if event.update_type == 'stdout' or event.update_type == 'stderr' then
    if #call.output < MAX_LINES * 80 then
      call.output = call.output .. event.content
      if not self.transcript:has('call ' .. call.id) then
        self:draw_call(call)
      end
      self.transcript:append('call ' .. call.id, (call.is_streaming and '' or '\n') .. event.content)
      call.is_streaming = true
    end
  end
end

function handlers.tool_execution_end(self, event)
  local call = self:call(event.tool_call_id, event.tool_name)
  self:end_call(call, event.content, event.details, event.is_error, event.duration_ms)
end

function handlers.notice(self, event)
  self:note(event.level == 'warning' and 'Warning' or 'Note', event.text)
end

function handlers.retry_start(self, event)
  self:note('Retry', ('%d of %d: %s'):format(event.attempt, event.max, event.error))
end

function handlers.reloaded(self, event)
  if #event.problems > 0 then
    self:note('Warning', table.concat(event.problems, '\n'))
  end
end

function handlers.diagnostics(self, event)
  if #event.introduced > 0 then
    self:note('New problems', table.concat(vim.tbl_map(place_of, event.introduced), '\n'))
  end
end

function handlers.model_change(self, event)
  self.model = event.model
end

function handlers.compaction_start(self)
  self.compacting = true
end

function handlers.compaction_end(self, event)
  self.compacting = false
  self:note('Compacted', value(event.error) or ('kept the last %d messages'):format(event.kept))
end

function handlers.plan(self, event)
  self.plan = event.steps
end

function handlers.queue_update(self, event)
  self.queue = event.messages
end

function handlers.permission_request(self, event)
  table.insert(self.questions, event)
end
handlers.input_request = handlers.permission_request

function handlers.permission_resolved(self, event)
  self.questions = vim.tbl_filter(function(question)
    return question.request_id ~= event.request_id
  end, self.questions)
end
handlers.input_resolved = handlers.permission_resolved

-- The messages of a replaced transcript come without ids, so the state is requested.
function handlers.transcript_replaced(self)
  vim.schedule(function()
    self:open()
  end)
end

local STEP_MARKS = { done = '- [x] ', active = '- [ ] **now** ', pending = '- [ ] ' }

-- Shows the plan, the queue and the questions at the end of the transcript.
function Session:draw_footer()
  local lines = {}
  local function section(title, entries)
    if #entries > 0 then
      vim.list_extend(lines, { '', '---', '### ' .. title })
      vim.list_extend(lines, entries)
    end
  end
  section('Plan', vim.tbl_map(function(step)
    return (STEP_MARKS[step.status] or '- [ ] ') .. one_line(step.text)
  end, self.plan))
  section('Queue', vim.tbl_map(function(message)
    local when = message.queue == 'steering' and 'after this turn' or 'at the end'
    return ('- %s (%s)'):format(one_line(message.text), when)
  end, self.queue))
  section('Questions', vim.tbl_map(function(question)
    return '- ' .. one_line(question.title or question.question)
  end, self.questions))
  if self.is_lost then
    vim.list_extend(lines, { '', '> **The server ended.** The session continues with your next message.' })
  elseif self.running or self.compacting then
    vim.list_extend(lines, { '', self.compacting and '*compacting …*' or '*working …*' })
  end
  self.transcript:set_footer(lines)
end

-- After a change: draws the footer, and reports to the other modules.
function Session:changed(event)
  self:draw_footer()
  for _, watch in ipairs(watchers) do
    watch(self, event)
  end
end

-- Events that change nothing but the items of the transcript.
local QUIET = { message_update = true, tool_execution_update = true, turn_start = true, turn_end = true }

---@param envelope table
function Session:on_event(envelope)
  if self.is_opening then
    table.insert(self.early, envelope)
  elseif envelope.seq > self.seq + 1 then
    self:open(self.seq)
    table.insert(self.early, envelope)
  elseif envelope.seq > self.seq then
    self.seq = envelope.seq
    local event = envelope.event
    local handle = handlers[event.type]
    if handle then
      handle(self, event)
    end
    if not QUIET[event.type] then
      self:changed(event)
    end
  end
end

-- Applies the server's view of the session.
function Session:show(view, connection)
  self.id, self.cwd, self.client, self.is_lost = view.session, view.cwd, connection.id, false
  self.options = view.options
  local state = value(view.state)
  if state then
    self:reset()
    self.title, self.model, self.running, self.compacting = state.title, state.model, state.running, state.compacting
    local last_error
    for _, stored in ipairs(state.messages) do
      self:message(stored.message_id, stored.message)
      last_error = value(stored.message.errorMessage)
      if last_error then
        self:note('Error', last_error)
      end
    end
    local partial = value(state.partial)
    if partial then
      for index, block in ipairs(partial.message.content) do
        self:block(partial.message_id, index - 1, block)
        self.streams[key_of(partial.message_id, index - 1)] = { block.text or block.thinking or '' }
      end
    end
    self.queue, self.plan, self.questions = state.queue, state.plan, state.questions
    if value(state.error) and not last_error then
      self:note('Error', state.error)
    end
    self.seq = view.seq
  end
  local early = vim.list_extend(value(view.events) or {}, self.early)
  self.is_opening, self.early = false, {}
  for _, envelope in ipairs(early) do
    self:on_event(envelope)
  end
  self.seq = math.max(self.seq, view.seq)
  self:changed()
  local waiting = self.waiting
  self.waiting = {}
  for _, use in ipairs(waiting) do
    use(connection)
  end
end

--- Opens the session on the server, or makes it there.
---@param since? integer the last known event; without it, the whole state is requested
function Session:open(since)
  if self.is_opening then
    return
  end
  self.is_opening, self.early = true, {}
  client.with(function(connection)
    local method = self.id and 'pilcrow/session/open' or 'pilcrow/session/new'
    local params = vim.empty_dict()
    params.session, params.cwd, params.since = self.id, self.cwd, self.id and since or nil
    client.request(connection, method, params, function(view)
      self:show(view, connection)
    end, function(err)
      self.is_opening, self.early = false, {}
      -- A session without a message is not stored, so it ends with its server.
      local is_gone = vim.tbl_get(err, 'data', 'code') == 'not_found'
      if is_gone and self.id and vim.tbl_isempty(self.calls) and not self.transcript.items[2] then
        self.id = nil
        self:open()
        return
      end
      self.waiting = {}
      client.complain(err.message)
    end)
  end, function()
    self.is_opening, self.early, self.waiting = false, {}, {}
  end)
end

--- Calls `use` once the session is open in the server that runs now.
---@param use fun(connection: vim.lsp.Client)
function Session:with(use)
  local connection = self.client and vim.lsp.get_client_by_id(self.client)
  if connection and not connection:is_stopped() and not self.is_opening then
    use(connection)
  else
    table.insert(self.waiting, use)
    self:open(self.seq > 0 and self.seq or nil)
  end
end

--- Sends a request about this session.
---@param method string
---@param params table
---@param answered? fun(result: table)
---@param failed? fun(err: lsp.ResponseError)
function Session:request(method, params, answered, failed)
  self:with(function(connection)
    params.session = self.id
    client.request(connection, method, params, answered, failed)
  end)
end

--- Requests the tokens and the cost for the status line.
function Session:refresh_status()
  self:request('pilcrow/status', { cwd = self.cwd }, function(status)
    self.status = value(status.session)
    self:changed()
  end)
end

--- Renders the status line: model, state, queue and cost.
function Session:summary()
  local parts = { self.model or 'Pilcrow' }
  local function add(condition, text)
    if condition then
      table.insert(parts, text)
    end
  end
  add(self.is_lost, 'server ended')
  add(self.compacting, 'compacting')
  add(self.running and not self.compacting, 'working')
  add(#self.questions > 0, 'question')
  add(#self.queue > 0, ('%d queued'):format(#self.queue))
  local done = vim.iter(self.plan):filter(function(step)
    return step.status == 'done'
  end):totable()
  add(#self.plan > 0, ('plan %d/%d'):format(#done, #self.plan))
  local cost = self.status and value(vim.tbl_get(self.status, 'usage', 'cost', 'total'))
  add(cost and cost > 0, ('$%.2f'):format(cost or 0))
  return '¶ ' .. table.concat(parts, ' · ')
end

--- `pilcrow/event`
---@type lsp.Handler
function M.on_event(_, envelope, ctx)
  local session = M.find(envelope.session_id)
  if session and (session.client == ctx.client_id or session.is_opening) then
    session:on_event(envelope)
  end
end

--- A server is ready: opens the sessions of an earlier one again.
---@param connection vim.lsp.Client
function M.on_ready(connection)
  for _, session in pairs(M.all) do
    if session.is_lost and not session.is_opening then
      session:open(session.seq)
    end
  end
end

--- A server ended: its sessions wait for the next one.
function M.on_exit(client_id)
  for _, session in pairs(M.all) do
    if session.client == client_id or session.is_opening then
      session.client, session.is_opening, session.is_lost, session.running = nil, false, true, false
      session.questions = {}
      session:changed()
    end
  end
end

return M
