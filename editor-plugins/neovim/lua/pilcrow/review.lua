-- Review of the agent's changes: marks in the buffers, decisions about changes, the quickfix list. The server
-- reports which sessions to review, computes their changes, and carries out the decisions.

local client = require('pilcrow.client')

local value = client.value

local M = {}

local MARKS = vim.api.nvim_create_namespace('pilcrow.review')
local TITLE = 'Pilcrow changes'
-- Time in which the server certainly gets a change of a text, beyond the delay of the client.
local MARGIN = 30

vim.api.nvim_set_hl(0, 'PilcrowAdded', { link = 'DiffAdd', default = true })
vim.api.nvim_set_hl(0, 'PilcrowRemoved', { link = 'DiffDelete', default = true })

---@class pilcrow.Reviewed
---@field cwd? string a path of its project
---@field files table<string, table> the files with changes, by path
---@field paths table<string, true> the files that had changes at some time
---@field is_stale boolean whether its changes must be listed again

---@type table<string, pilcrow.Reviewed>
local sessions = {}

---@class pilcrow.Change
---@field session string
---@field hunk table
---@field mark integer
---@field below? integer the mark of the proposed lines

-- The changes in each buffer that has some, or had.
---@type table<integer, pilcrow.Change[]>
local shown = {}

-- The server has the file's real path.
local function path_of(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  return name ~= '' and vim.bo[buffer].buftype == '' and (vim.uv.fs_realpath(name) or name) or nil
end

-- Lines of a change in a buffer, from 0, the end exclusive; nil if its mark is gone.
local function lines_of(buffer, change)
  local at = vim.api.nvim_buf_get_extmark_by_id(buffer, MARKS, change.mark, { details = true })
  if not at[1] then
    return nil
  elseif change.hunk.kind == 'created' or change.hunk.kind == 'content' then
    return 0, vim.api.nvim_buf_line_count(buffer)
  end
  return at[1], math.max(at[3].end_row or 0, at[1] + 1)
end

-- What happened to a whole file.
local function event_of(file, hunk)
  local events = { created = 'new file', deleted = 'deleted', content = 'changed, not text' }
  if value(hunk.proposed) then
    return 'proposed ' .. (hunk.edited and 'file is gone' or events[hunk.kind])
  end
  return events[hunk.kind] or 'moved from ' .. vim.fn.fnamemodify(value(file.moved_from) or '', ':.')
end

-- Whole lines for a place beside the text.
local function virtual_lines(buffer, text, group)
  local tab = (' '):rep(vim.bo[buffer].tabstop)
  return vim.tbl_map(function(line)
    local shown = line:gsub('\r$', ''):gsub('\t', tab)
    local padding = math.max(vim.o.columns - vim.fn.strdisplaywidth(shown), 0)
    return { { shown .. (' '):rep(padding), group } }
  end, vim.split((text:gsub('\n$', '')), '\n', { plain = true }))
end

-- Marks lines that the agent proposes to replace, with the proposed lines below them.
local function mark_proposed(buffer, hunk, options)
  local count = vim.api.nvim_buf_line_count(buffer)
  local first, last, below = hunk.now[1], hunk.now[2], nil
  local note = hunk.edited and '¶ proposed, conflicts with your text' or '¶ proposed'
  options.virt_text = { { note, 'Comment' } }
  options.virt_lines = hunk.proposed ~= '' and virtual_lines(buffer, hunk.proposed, 'PilcrowAdded') or nil
  if last == first then
    options.virt_lines_above = first < count
  else
    options.end_row, options.end_col = last, 0
    options.hl_group, options.hl_eol = 'PilcrowRemoved', true
    if last > first + 1 then
      below = vim.api.nvim_buf_set_extmark(buffer, MARKS, last - 1, 0, { virt_lines = options.virt_lines, strict = false })
      options.virt_lines = nil
    end
  end
  return vim.api.nvim_buf_set_extmark(buffer, MARKS, math.min(first, count - 1), 0, options), below
end

local function mark(buffer, file, hunk)
  local options = { strict = false, priority = 100 }
  local first = 0
  if hunk.kind == 'lines' and value(hunk.proposed) then
    return mark_proposed(buffer, hunk, options)
  elseif hunk.kind == 'lines' then
    local count = vim.api.nvim_buf_line_count(buffer)
    first = math.min(hunk.now[1], count - 1)
    options.virt_lines = hunk.removed ~= '' and virtual_lines(buffer, hunk.removed, 'PilcrowRemoved') or nil
    options.virt_lines_above = hunk.now[1] < count
    if hunk.now[2] > hunk.now[1] then
      options.end_row, options.end_col = hunk.now[2], 0
      options.hl_group, options.hl_eol = 'PilcrowAdded', true
    end
  else
    options.virt_text = { { '¶ ' .. event_of(file, hunk), 'Comment' } }
  end
  return vim.api.nvim_buf_set_extmark(buffer, MARKS, first, 0, options)
end

local KEYS = {
  next = { ']h', 'go to the next change' },
  previous = { '[h', 'go to the previous change' },
  keep = { '<LocalLeader>k', 'keep the change' },
  reject = { '<LocalLeader>r', 'reject the change' },
}

-- The user's own mappings of these keys, by buffer and key.
local replaced = {}

-- Maps the keys in a buffer with changes, and unmaps them in one without.
local function set_keys(buffer, has_changes)
  replaced[buffer] = replaced[buffer] or {}
  vim.api.nvim_buf_call(buffer, function()
    for action, key in pairs(KEYS) do
      local lhs = (vim.g.pilcrow_keys or {})[action]
      lhs = lhs == nil and key[1] or lhs
      local description = 'Pilcrow: ' .. key[2]
      local mapped = lhs and vim.fn.maparg(lhs, 'n', false, true) or {}
      local is_own = mapped.desc == description
      if lhs and has_changes and not is_own then
        replaced[buffer][lhs] = mapped.buffer == 1 and mapped or nil
        vim.keymap.set('n', lhs, function()
          M[action]()
        end, { buffer = buffer, desc = description })
      elseif is_own and not has_changes then
        vim.keymap.del('n', lhs, { buffer = buffer })
        if replaced[buffer][lhs] then
          vim.fn.mapset(replaced[buffer][lhs])
        end
      end
    end
  end)
end

local timer = assert(vim.uv.new_timer())

-- Lists the stale sessions once the server has all texts; `is_typing` waits for the end of the typing.
local function schedule(is_typing)
  if is_typing or not timer:is_active() then
    local connection = client.find()
    local delay = connection and connection.flags.debounce_text_changes or 150
    timer:start(delay + MARGIN, 0, vim.schedule_wrap(M.list))
  end
end

-- Lists the changes of a file again. A rejected change is not listed, but the buffer's undo restores it.
local function text_changed(path)
  for _, session in pairs(sessions) do
    if session.paths[path] then
      session.is_stale = true
      schedule(true)
    end
  end
end

-- Follows the text of a buffer.
local function follow(buffer, path)
  if not shown[buffer] then
    shown[buffer] = {}
    local function changed()
      text_changed(path)
    end
    local function ended()
      shown[buffer], replaced[buffer] = nil, nil
    end
    vim.api.nvim_buf_attach(buffer, false, { on_lines = changed, on_reload = changed, on_detach = ended })
  end
end

-- Shows the changes of a session in a buffer.
local function draw(buffer, path, id, file)
  follow(buffer, path)
  local changes = {}
  for _, change in ipairs(shown[buffer]) do
    if change.session == id then
      vim.api.nvim_buf_del_extmark(buffer, MARKS, change.mark)
      if change.below then
        vim.api.nvim_buf_del_extmark(buffer, MARKS, change.below)
      end
    else
      table.insert(changes, change)
    end
  end
  for _, hunk in ipairs(file and file.hunks or {}) do
    local id_of_mark, below = mark(buffer, file, hunk)
    table.insert(changes, { session = id, hunk = hunk, mark = id_of_mark, below = below })
  end
  shown[buffer] = changes
  set_keys(buffer, #changes > 0)
end

-- How many lines a change adds and removes.
local function lines_text(hunk, now, before)
  local proposed = value(hunk.proposed)
  local added = proposed and #vim.split(proposed, '\n', { trimempty = true }) or now[2] - now[1]
  return ('%s+%d -%d'):format(proposed and 'proposed ' or '', added, before[2] - before[1])
end

local function items()
  local found = {}
  for id, session in pairs(sessions) do
    for path, file in pairs(session.files) do
      for _, hunk in ipairs(file.hunks) do
        local now, before = value(hunk.now), value(hunk.before)
        table.insert(found, {
          filename = path,
          lnum = now and now[1] + 1 or 1,
          text = now and lines_text(hunk, now, before) or event_of(file, hunk),
          user_data = { session = id, hunk = hunk.id },
        })
      end
    end
  end
  table.sort(found, function(a, b)
    return a.filename < b.filename or a.filename == b.filename and a.lnum < b.lnum
  end)
  return found
end

-- The quickfix list that follows the review, and its entries.
local quickfix = { id = 0, items = {} }

local function update_quickfix()
  local current = vim.fn.getqflist({ id = quickfix.id, idx = 0 })
  local found = quickfix.id ~= 0 and current.id == quickfix.id and items()
  if found and not vim.deep_equal(found, quickfix.items) then
    quickfix.items = found
    local idx = math.max(math.min(current.idx, #found), 1)
    vim.fn.setqflist({}, 'r', { id = quickfix.id, items = found, idx = idx })
  end
end

--- `:Pilcrow changes`: lists all changes.
function M.changes()
  quickfix.items = items()
  if #quickfix.items == 0 then
    vim.notify('pilcrow: there are no changes to review')
    return
  end
  vim.fn.setqflist({}, ' ', { title = TITLE, items = quickfix.items })
  quickfix.id = vim.fn.getqflist({ id = 0 }).id
  vim.cmd('botright copen')
end

local function shows(id, session, ticks, connection)
  for buffer in pairs(connection.attached_buffers) do
    local path = vim.api.nvim_buf_is_loaded(buffer) and path_of(buffer)
    local file = path and session.files[path]
    if file or shown[buffer] then
      if ticks[buffer] == vim.api.nvim_buf_get_changedtick(buffer) then
        draw(buffer, path, id, file)
      else
        -- The answer is about an older text.
        session.is_stale = true
        schedule(true)
      end
    end
  end
  update_quickfix()
  vim.cmd.redrawstatus({ bang = true })
end

--- Lists the changes of the stale sessions.
function M.list()
  local connection = client.find()
  if not connection then
    return
  end
  local ticks = {}
  for buffer in pairs(connection.attached_buffers) do
    if vim.api.nvim_buf_is_loaded(buffer) then
      ticks[buffer] = vim.api.nvim_buf_get_changedtick(buffer)
    end
  end
  for id, session in pairs(sessions) do
    if session.is_stale then
      session.is_stale = false
      client.request(connection, 'pilcrow/review/list', { session = id, cwd = session.cwd }, function(view)
        session.files = {}
        for _, file in ipairs(view.files) do
          session.files[file.path], session.paths[file.path] = file, true
        end
        shows(id, session, ticks, connection)
      end)
    end
  end
end

--- `pilcrow/review/changed`
---@type lsp.Handler
function M.on_changed(_, params)
  local session = sessions[params.session] or { files = {}, paths = {} }
  sessions[params.session] = session
  session.cwd, session.is_stale = value(params.cwd), true
  schedule(false)
end

--- A buffer got the server.
function M.on_attach(buffer)
  local path = path_of(buffer)
  if path then
    text_changed(path)
  end
end

--- The server ended.
function M.on_exit()
  sessions = {}
  for buffer in pairs(shown) do
    vim.api.nvim_buf_clear_namespace(buffer, MARKS, 0, -1)
    set_keys(buffer, false)
    shown[buffer] = {}
  end
  update_quickfix()
end

--- Number of changes that wait for a decision.
function M.count()
  local count = 0
  for _, session in pairs(sessions) do
    for _, file in pairs(session.files) do
      count = count + #file.hunks
    end
  end
  return count
end

-- Moves the cursor to a change; after the last one comes the first.
local function go(direction)
  local buffer = vim.api.nvim_get_current_buf()
  local rows = {}
  for _, change in ipairs(shown[buffer] or {}) do
    table.insert(rows, (lines_of(buffer, change)))
  end
  if #rows == 0 then
    client.complain('the agent has no change in this file; :Pilcrow changes lists all')
    return
  end
  table.sort(rows)
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  for _ = 1, vim.v.count1 do
    local candidates = vim.tbl_filter(function(other)
      return (other - row) * direction > 0
    end, rows)
    candidates = #candidates > 0 and candidates or rows
    row = direction > 0 and candidates[1] or candidates[#candidates]
  end
  vim.cmd.normal({ "m'", bang = true })
  vim.api.nvim_win_set_cursor(0, { row + 1, 0 })
  vim.cmd.normal({ '^zv', bang = true })
  if row == 0 then
    -- Neovim shows lines above the first one only if they are scrolled into view.
    local above = 0
    for _, change in ipairs(shown[buffer]) do
      local is_proposed = value(change.hunk.proposed) ~= nil
      local lines = lines_of(buffer, change) == 0 and change.hunk.kind == 'lines' and not is_proposed and change.hunk.before
      above = above + (lines and lines[2] - lines[1] or 0)
    end
    vim.fn.winrestview({ topline = 1, topfill = above })
  end
end

function M.next()
  go(1)
end

function M.previous()
  go(-1)
end

-- Hunks of a range of lines, by session.
local function hunks_in(range)
  local found = {}
  local function add(session, hunk)
    found[session] = found[session] or { hunks = {} }
    table.insert(found[session].hunks, hunk)
  end
  if vim.bo.buftype == 'quickfix' then
    local listed = vim.fn.getqflist({ id = quickfix.id, items = true }).items
    for _, item in ipairs(vim.list_slice(listed, range[1], range[2])) do
      add(item.user_data.session, item.user_data.hunk)
    end
    return found
  end
  local buffer = vim.api.nvim_get_current_buf()
  for _, change in ipairs(shown[buffer] or {}) do
    local first, last = lines_of(buffer, change)
    if first and first < range[2] and last >= range[1] then
      add(change.session, change.hunk.id)
    end
  end
  return found
end

-- Parameters of a decision, by session.
local function selected(scope, range)
  local path = path_of(vim.api.nvim_get_current_buf())
  local found = {}
  for id, session in pairs(sessions) do
    if scope == 'all' and next(session.files) or scope == 'file' and session.files[path] then
      found[id] = { path = scope == 'file' and path or nil }
    end
  end
  return scope and found or hunks_in(range)
end

local NO_CHANGES = {
  all = 'there are no changes to review',
  file = 'the agent has no change in this file; :Pilcrow changes lists all',
  line = 'the agent has no change here; go to one first, or use :Pilcrow changes',
}

--- Keeps or rejects changes: of a file, all, or those at the cursor or in a range of lines.
---@param decision 'keep' | 'reject'
---@param scope? 'file' | 'all'
---@param range? { [1]: integer, [2]: integer }
function M.decide(decision, scope, range)
  local line = vim.api.nvim_win_get_cursor(0)[1]
  local requests = selected(scope, range or { line, line })
  local connection = client.find(0)
  if not connection or vim.tbl_isempty(requests) then
    client.complain(NO_CHANGES[scope or 'line'])
    return
  end
  local function send(reason)
    for id, params in pairs(requests) do
      params.session, params.cwd, params.reason = id, sessions[id] and sessions[id].cwd, reason
      client.request(connection, 'pilcrow/review/' .. decision, params, function(result)
        local conflicts = vim.tbl_map(function(conflict)
          return ('%s: %s'):format(vim.fn.fnamemodify(conflict.path, ':.'), conflict.reason)
        end, result.conflicts or {})
        if #conflicts > 0 then
          client.complain(('not %s: '):format(decision == 'keep' and 'kept' or 'rejected') .. table.concat(conflicts, '; '))
        end
      end)
    end
  end
  local is_live = vim.iter(pairs(requests)):any(function(id)
    return require('pilcrow.session').find(id) ~= nil
  end)
  if decision == 'keep' or not is_live then
    send()
    return
  end
  vim.ui.input({ prompt = 'Reason (optional): ' }, function(text)
    if text then
      send(vim.trim(text) ~= '' and text or nil)
    end
  end)
end

function M.keep()
  M.decide('keep')
end

function M.reject()
  M.decide('reject')
end

return M
