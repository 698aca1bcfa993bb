-- The commands: send requests to the server, show its progress and its answers.

local M = {}

local client = require('pilcrow.client')

local NAME = client.NAME
local ANSWER = 'pilcrow://answer'

--- Runs a command of the server, which reports by progress and messages.
---@param command string
---@param argument table
function M.execute(command, argument)
  local connection = client.find(0)
  if not connection then
    client.complain_missing()
    return
  end
  local params = { command = command, arguments = { argument } }
  client.request(connection, 'workspace/executeCommand', params)
end

--- Sends a prompt.
---@param text string
---@param range? { [1]: integer, [2]: integer } first and last line, from 1; default: the cursor
function M.prompt(text, range)
  local connection = client.find(0)
  local argument = { text = text }
  if connection and vim.lsp.buf_is_attached(0, connection.id) then
    local encoding = connection.offset_encoding
    local params
    if range then
      local last = vim.fn.getline(range[2])
      params = vim.lsp.util.make_given_range_params({ range[1], 0 }, { range[2], #last }, 0, encoding)
    else
      params = vim.lsp.util.make_range_params(0, encoding)
    end
    argument.uri = params.textDocument.uri
    argument.range = params.range
  end
  M.execute('pilcrow.prompt', argument)
end

-- The current file selects the project if several are open.
local function current_file()
  local connection = client.find(0)
  if connection and vim.lsp.buf_is_attached(0, connection.id) then
    return { uri = vim.uri_from_bufnr(0) }
  end
  return vim.empty_dict()
end

--- Sends a message to the current run, which receives it after its turn.
---@param text string
function M.steer(text)
  M.execute('pilcrow.steer', { text = text })
end

--- Selects an earlier session and shows it.
function M.resume()
  require('pilcrow.pickers').resume()
end

--- Selects the model of the session.
function M.model()
  require('pilcrow.pickers').option('model')
end

--- Selects an option of the session, and its value.
function M.options()
  require('pilcrow.pickers').option()
end

--- Stops the current run.
function M.stop()
  M.execute('pilcrow.stop', vim.empty_dict())
end

--- Reverts the last run.
function M.undo()
  M.execute('pilcrow.undo', current_file())
end

--- Reverts the last undo.
function M.redo()
  M.execute('pilcrow.redo', current_file())
end

--- Opens the transcript of the last run.
function M.transcript()
  M.execute('pilcrow.transcript', vim.empty_dict())
end

--- Opens the session that was used last, or a new one, in a split.
---@param range? { [1]: integer, [2]: integer } lines of the current file to mention in the prompt
function M.open(range)
  require('pilcrow.view').open(range)
end

--- Opens a new session.
function M.new()
  require('pilcrow.view').new()
end

--- One line for a status line: the session that was used last, and the number of changes to review.
function M.statusline()
  local session = package.loaded['pilcrow.session'] and require('pilcrow.session').current
  local count = package.loaded['pilcrow.review'] and require('pilcrow.review').count() or 0
  local summary = session and session:summary()
  if count == 0 then
    return summary or ''
  end
  return ('%s · %d %s'):format(summary or '¶ Pilcrow', count, count == 1 and 'change' or 'changes')
end

--- Offers actions about the diagnostics of the line. (Neovim sends a server only its own ones.)
function M.ask()
  local line = vim.api.nvim_win_get_cursor(0)[1] - 1
  local diagnostics = vim.diagnostic.get(0, { lnum = line })
  if #diagnostics == 0 then
    client.complain('no diagnostic is on this line')
    return
  end
  vim.lsp.buf.code_action({
    context = { diagnostics = vim.lsp.diagnostic.from(diagnostics), only = { 'quickfix.pilcrow' } },
  })
end

--- Lists the agent's changes that wait for a decision.
function M.changes()
  require('pilcrow.review').changes()
end

-- Subcommands of `:Pilcrow`; anything else is a prompt.
local SUBCOMMANDS = { 'stop', 'undo', 'redo', 'resume', 'answer', 'transcript', 'new', 'changes', 'ask', 'model', 'options' }

-- Decisions about changes, as subcommands.
local DECISIONS = { 'keep', 'keep file', 'keep all', 'reject', 'reject file', 'reject all' }

-- `:Pilcrow! …`: to the session of the window, else to the current run.
local function steer(text)
  local session = require('pilcrow.view').session_of(vim.api.nvim_get_current_buf())
  if session and text == '' then
    require('pilcrow.view').send(session, 'steer')
  elseif text == '' then
    client.complain('the message is empty; for example :Pilcrow! leave the tests alone')
  elseif session then
    session:request('pilcrow/prompt', { text = text, delivery = 'steer' })
  else
    M.steer(text)
  end
end

--- `:Pilcrow …`
function M.command(opts)
  local text = vim.trim(opts.args)
  local range = opts.range > 0 and { opts.line1, opts.line2 } or nil
  if opts.bang then
    steer(text)
  elseif text == '' then
    M.open(range)
  elseif text == 'answer' then
    M.show_answer()
  elseif vim.list_contains(DECISIONS, text) then
    local decision, scope = unpack(vim.split(text, ' '))
    require('pilcrow.review').decide(decision, scope, range)
  elseif vim.list_contains(SUBCOMMANDS, text) then
    M[text](range)
  else
    M.prompt(text, range)
  end
end

-- Beginnings of requests that need no model.
local BEGINNINGS = { 'rename ', 'move ', 'find references of ', 'organize imports', 'format', 'explain the diagnostics' }

--- Completion of the first words.
function M.complete(lead, line)
  if line:match('^%S*!') then
    -- `:Pilcrow!` takes a free-form message.
    return {}
  end
  local typed = line:match('^.-Pilcrow%s+(.*)$') or ''
  local matching = vim.tbl_filter(function(words)
    return vim.startswith(words, typed)
  end, vim.iter({ SUBCOMMANDS, DECISIONS, BEGINNINGS }):flatten():totable())
  -- Neovim replaces the last word only.
  return vim.tbl_map(function(words)
    return vim.trim(words:sub(#typed - #lead + 1))
  end, matching)
end

-- Maximum width of a line that needs no hit-enter prompt.
local function echo_width()
  return math.max(vim.v.echospace, 20)
end

-- Echoes one line, never with a hit-enter prompt, and not while the user types a command.
local function echo(text, highlight, keep)
  if vim.api.nvim_get_mode().mode:match('^[cr]') then
    return
  end
  local line = '¶ ' .. text:gsub('^Pilcrow: ', ''):gsub('%s*\n.*', ' …')
  while vim.fn.strdisplaywidth(line) > echo_width() do
    line = vim.fn.strcharpart(line, 0, vim.fn.strchars(line) - 2) .. '…'
  end
  vim.api.nvim_echo({ { line, highlight } }, keep or false, {})
end

--- Shows the server's progress in one line.
function M.on_progress(event)
  local connection = vim.lsp.get_client_by_id(event.data.client_id)
  local value = event.data.params.value
  if not connection or connection.name ~= NAME or type(value) ~= 'table' then
    return
  end
  local words = vim.tbl_filter(function(word)
    return type(word) == 'string' and word ~= ''
  end, { value.title, value.message })
  if #words > 0 then
    echo(table.concat(words, ': '), 'Comment')
  end
end

local function answer_buffer()
  local buffer = vim.fn.bufnr(ANSWER)
  if buffer == -1 then
    buffer = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(buffer, ANSWER)
    vim.bo[buffer].filetype = 'markdown'
  end
  return buffer
end

--- Opens the last answer below; the cursor stays in place.
function M.show_answer()
  local buffer = answer_buffer()
  local window = vim.fn.bufwinid(buffer)
  local splitkeep = vim.o.splitkeep
  vim.o.splitkeep = 'screen'
  if window == -1 then
    window = vim.api.nvim_open_win(buffer, false, { split = 'below', win = -1, height = 1, style = 'minimal' })
    vim.wo[window].wrap = true
    vim.wo[window].winfixheight = true
    vim.keymap.set('n', 'q', '<C-w>c', { buffer = buffer })
  end
  -- Screen lines: a long line takes several.
  local lines = vim.api.nvim_win_text_height(window, {}).all
  vim.api.nvim_win_set_height(window, math.min(lines, 12))
  vim.o.splitkeep = splitkeep
end

-- Whether the next answer is a list that the quickfix list shows.
local is_listed = false

local QUICKFIX_TYPES = { error = 'E', warning = 'W', information = 'I', hint = 'N' }

--- Puts the places of an answer into the quickfix list and opens it; the cursor stays in place.
function M.on_list(_, params)
  local items = vim.tbl_map(function(item)
    return {
      filename = item.path,
      lnum = item.line,
      col = item.column ~= vim.NIL and item.column or nil,
      text = item.text,
      type = QUICKFIX_TYPES[item.severity],
    }
  end, params.items)
  vim.fn.setqflist({}, ' ', { title = 'Pilcrow', items = items })
  is_listed = true
  -- Not while the user types or selects.
  if vim.api.nvim_get_mode().mode == 'n' then
    local window = vim.api.nvim_get_current_win()
    vim.cmd('botright copen')
    vim.api.nvim_set_current_win(window)
  end
end

--- Shows a message of the server in one line if it fits or is a list, else in a window below.
function M.on_message(_, params)
  local text = vim.trim(params.message):gsub('^Pilcrow: ', '')
  vim.api.nvim_buf_set_lines(answer_buffer(), 0, -1, false, vim.split(text, '\n'))
  local parts = vim.tbl_filter(function(line)
    return line ~= ''
  end, vim.tbl_map(vim.trim, vim.split(text, '\n')))
  local line = table.concat(parts, ' · ')
  if is_listed then
    is_listed = false
    line = parts[1] .. ' (:copen)'
  end
  if vim.fn.strdisplaywidth('¶ ' .. line) > echo_width() and not vim.api.nvim_get_mode().mode:match('^[cr]') then
    M.show_answer()
    line = parts[1] .. ' …'
  end
  local highlight = ({ 'ErrorMsg', 'WarningMsg' })[params.type] or 'Normal'
  echo(line, highlight, true)
end

-- Questions whose runs have ended, by client and the server's name for the question.
local cancelled = {}
local waiting = {}

-- Neovim does not say which request is cancelled, so the server names its questions.
function M.on_question_over(_, params, ctx)
  local id = ctx.client_id .. ' ' .. params.question
  cancelled[id] = waiting[id]
end

--- Delays a question of the server until normal mode, so that typed text does not answer it. Drops it if
--- its run has ended meanwhile. Shows the diff of a change while the question is open.
function M.on_question(err, params, ctx)
  local co, is_main = coroutine.running()
  local named = type(params.pilcrow) == 'table' and params.pilcrow.question
  local question = ctx.client_id .. ' ' .. (named or '')
  local echoed = false
  waiting[question] = true
  while co and not is_main and not cancelled[question] and vim.api.nvim_get_mode().mode ~= 'n' do
    if not echoed then
      echo(params.message .. ' (waits for normal mode)', 'WarningMsg')
      echoed = true
    end
    vim.api.nvim_create_autocmd('ModeChanged', {
      pattern = '*:n',
      once = true,
      callback = vim.schedule_wrap(function()
        coroutine.resume(co)
      end),
    })
    coroutine.yield()
  end
  waiting[question] = nil
  if cancelled[question] then
    cancelled[question] = nil
    return vim.NIL
  end
  local diff = named and params.pilcrow.diff
  local close = diff and client.show_diff(diff) or function() end
  local answer = vim.lsp.handlers['window/showMessageRequest'](err, params, ctx)
  close()
  return answer
end

--- Attaches to files without a type too, for which Neovim starts no servers.
---@param buffer integer
function M.attach(buffer)
  local plain = vim.bo[buffer].buftype == '' and vim.bo[buffer].filetype == ''
  if not plain or vim.api.nvim_buf_get_name(buffer) == '' or not vim.lsp.is_enabled(NAME) then
    return
  end
  local config = vim.deepcopy(vim.lsp.config[NAME])
  if vim.fn.executable(config.cmd[1]) == 1 then
    config.root_dir = vim.fs.root(buffer, config.root_markers)
    vim.lsp.start(config, { bufnr = buffer, reuse_client = config.reuse_client })
  end
end

return M
