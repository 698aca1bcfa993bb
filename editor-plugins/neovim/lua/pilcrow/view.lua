-- The windows of a session: the transcript, and below it the buffer for prompts.

local checkpoints = require('pilcrow.checkpoints')
local client = require('pilcrow.client')
local questions = require('pilcrow.questions')
local sessions = require('pilcrow.session')

local M = {}

local PROMPT_HEIGHT = 5

-- The session and the role of each buffer.
local roles = {}

---@param role 'session' | 'prompt'
local function name_of(session, role)
  return ('pilcrow://%s/%d'):format(role, session.number)
end

--- The session whose buffer this is.
---@return pilcrow.Session?
function M.session_of(buffer)
  return roles[buffer] and roles[buffer].session
end

local function lines_of(buffer)
  return vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
end

--- Sends the prompt.
---@param delivery 'queue' | 'steer' | 'interrupt'
function M.send(session, delivery)
  local buffer = session.prompt_buffer
  local text = vim.trim(table.concat(lines_of(buffer), '\n'))
  if text == '' then
    client.complain('the prompt is empty; type a text first')
    return
  end
  local params = { text = text, delivery = delivery, context = require('pilcrow.prompt').links(session, text) }
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, {})
  session:request('pilcrow/prompt', params, nil, function(err)
    client.complain(err.message)
    -- The text is not lost, and what was typed since stays below it.
    M.put(session, text)
  end)
end

--- Puts a text before the text of the prompt.
function M.put(session, text)
  local buffer = M.buffer(session, 'prompt')
  local lines = vim.split(text, '\n', { plain = true })
  local is_empty = vim.deep_equal(lines_of(buffer), { '' })
  vim.api.nvim_buf_set_lines(buffer, 0, is_empty and -1 or 0, false, lines)
end

--- Cancels the run of a session.
function M.cancel(session)
  session:request('pilcrow/cancel', {}, function(result)
    if not result.cancelled then
      vim.notify('pilcrow: no run is active')
    end
  end)
end

local function map(buffer, mode, key, action, description)
  vim.keymap.set(mode, key, action, { buffer = buffer, desc = 'Pilcrow: ' .. description })
end

local setups = {}

function setups.session(session, buffer)
  vim.bo[buffer].filetype = 'markdown'
  vim.bo[buffer].undolevels = -1
  vim.bo[buffer].modifiable = false
  map(buffer, 'n', '<CR>', function()
    if not questions.ask(session) then
      pcall(vim.cmd.normal, { 'za', bang = true })
    end
  end, 'answer the question, or open and close the tool call')
  map(buffer, 'n', 'R', function()
    checkpoints.restore(session)
  end, 'restore the files or the conversation before this message')
  map(buffer, 'n', 'U', function()
    checkpoints.undo(session)
  end, 'undo the last restore')
  session.buffer = buffer
  session.transcript:attach(buffer)
end

function setups.prompt(session, buffer)
  vim.bo[buffer].filetype = 'pilcrow-prompt'
  vim.bo[buffer].omnifunc = "v:lua.require'pilcrow.prompt'.omnifunc"
  vim.bo[buffer].textwidth = 0
  local function send()
    M.send(session, 'queue')
  end
  map(buffer, 'n', '<CR>', send, 'send the prompt')
  map(buffer, 'i', '<C-s>', send, 'send the prompt')
  map(buffer, 'i', '<C-c>', function()
    M.cancel(session)
  end, 'cancel the run')
  session.prompt_buffer = buffer
end

-- Makes a buffer that shows this session; also after `:edit!`, which removes text and options.
local function set_up(session, role, buffer)
  roles[buffer] = { session = session, role = role }
  vim.bo[buffer].buftype = 'nofile'
  vim.bo[buffer].bufhidden = 'hide'
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].buflisted = false
  map(buffer, 'n', '<C-c>', function()
    M.cancel(session)
  end, 'cancel the run')
  setups[role](session, buffer)
end

--- The buffer of a session, made if need be.
---@param role 'session' | 'prompt'
---@return integer
function M.buffer(session, role)
  local name = name_of(session, role)
  local buffer = vim.fn.bufnr('^' .. name .. '$')
  if buffer == -1 then
    buffer = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(buffer, name)
  end
  if not roles[buffer] or not vim.api.nvim_buf_is_loaded(buffer) then
    vim.fn.bufload(buffer)
    set_up(session, role, buffer)
  end
  return buffer
end

-- Options of a window while it shows one of our buffers.
local function set_window(window, session, role)
  local options = vim.wo[window][0]
  options.wrap = true
  options.linebreak = true
  options.number = false
  options.relativenumber = false
  options.signcolumn = 'no'
  options.foldcolumn = '0'
  if role == 'session' then
    options.foldmethod = 'manual'
    options.foldtext = ''
    options.foldminlines = 0
    options.foldenable = true
    options.fillchars = 'fold: '
    options.winbar = ''
    session.transcript:fold_window(window)
  else
    options.winfixheight = true
    options.winbar = "%{v:lua.require'pilcrow.view'.winbar()}"
  end
end

local on = {}

-- Neovim reads one of our buffers: `:edit!`, or its name after it was unloaded.
function on.BufReadCmd(buffer)
  local role, number = vim.api.nvim_buf_get_name(buffer):match('^pilcrow://(%a+)/(%d+)$')
  local session = sessions.all[tonumber(number)]
  if session and setups[role] then
    set_up(session, role, buffer)
  end
end

function on.BufWinEnter(buffer)
  local role = roles[buffer]
  if role and vim.api.nvim_win_get_buf(0) == buffer then
    set_window(vim.api.nvim_get_current_win(), role.session, role.role)
  end
end

function on.BufWipeout(buffer)
  roles[buffer] = nil
end

function on.WinEnter(buffer)
  local session = M.session_of(buffer)
  if session then
    sessions.current = session
    questions.offer(session)
  end
end

--- An event of a buffer named `pilcrow://…`.
function M.on_buffer(event, buffer)
  on[event](buffer)
end

-- The window of this tab that shows a buffer.
local function window_of(buffer)
  return vim.iter(vim.api.nvim_tabpage_list_wins(0)):find(function(window)
    return vim.api.nvim_win_get_buf(window) == buffer
  end)
end

--- Shows a session in this tab, with the cursor in the prompt.
function M.show(session)
  sessions.current = session
  local buffer, prompt = M.buffer(session, 'session'), M.buffer(session, 'prompt')
  local window, below = window_of(buffer), window_of(prompt)
  local shown = vim.iter(vim.api.nvim_tabpage_list_wins(0)):find(function(other)
    local role = roles[vim.api.nvim_win_get_buf(other)]
    return role ~= nil and role.role == 'session'
  end)
  if not window and shown then
    -- The windows of another session show this one.
    window = shown
    local old = M.session_of(vim.api.nvim_win_get_buf(shown))
    below = below or old and old.prompt_buffer and window_of(old.prompt_buffer)
    vim.api.nvim_win_set_buf(window, buffer)
  elseif not window then
    local width = math.max(math.floor(vim.o.columns * 0.4), math.min(60, math.floor(vim.o.columns / 2)))
    local right = { split = 'right', win = -1, width = width }
    window = vim.api.nvim_open_win(buffer, false, below and { split = 'above', win = below } or right)
    set_window(window, session, 'session')
    vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(buffer), 0 })
  end
  if below then
    vim.api.nvim_win_set_buf(below, prompt)
  else
    below = vim.api.nvim_open_win(prompt, false, { split = 'below', win = window, height = PROMPT_HEIGHT })
  end
  set_window(below, session, 'prompt')
  vim.api.nvim_set_current_win(below)
end

--- `:Pilcrow`: shows the session that was used last, or a new one.
---@param range? { [1]: integer, [2]: integer } lines of the current file to mention
function M.open(range)
  local mention, uri = nil, nil
  if range and vim.bo.buftype == '' and vim.api.nvim_buf_get_name(0) ~= '' then
    local lines = ('#L%d-L%d'):format(range[1], range[2])
    uri = vim.uri_from_bufnr(0) .. lines
    mention = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(0), ':.') .. lines
  end
  local session = M.session_of(vim.api.nvim_get_current_buf()) or sessions.current
  if not session then
    M.new(mention, uri)
    return
  end
  M.show(session)
  session:with(function()
    questions.ask(session)
  end)
  M.mention(session, mention, uri)
end

--- Adds a mention to the prompt.
function M.mention(session, mention, uri)
  if mention then
    session.links[mention] = uri
    M.put(session, '@' .. mention .. ' ')
    vim.cmd.normal({ '$', bang = true })
  end
end

--- The project of the current session, or the workspace folder of the current file.
function M.folder()
  local session = M.session_of(vim.api.nvim_get_current_buf())
  if session then
    return session.cwd
  end
  local connection = client.find(0)
  local path = vim.api.nvim_buf_get_name(0)
  for _, workspace_folder in ipairs(connection and connection.workspace_folders or {}) do
    local root = vim.uri_to_fname(workspace_folder.uri)
    if vim.fs.relpath(root, path) then
      return root
    end
  end
end

--- Shows a new session.
function M.new(mention, uri)
  local cwd = M.folder()
  client.with(function()
    local session = sessions.new(nil, cwd)
    M.show(session)
    M.mention(session, mention, uri)
    session:open()
  end)
end

--- The line above the prompt.
function M.winbar()
  local session = M.session_of(vim.api.nvim_get_current_buf())
  return session and session:summary() or ''
end

sessions.watch(function(session)
  local summary = session:summary()
  if summary ~= session.shown_summary then
    session.shown_summary = summary
    vim.cmd.redrawstatus({ bang = true })
  end
end)

return M
