-- What the commands do: ask the server, show its progress and its answer. No more than that.

local M = {}

local NAME = 'pilcrow'
local ANSWER = 'pilcrow://answer'

local function complain(message)
  vim.notify('pilcrow: ' .. message, vim.log.levels.ERROR)
end

---@param buffer? integer
---@return vim.lsp.Client?
local function client_for(buffer)
  local filter = { name = NAME, bufnr = buffer }
  return vim.lsp.get_clients(filter)[1] or vim.lsp.get_clients({ name = NAME })[1]
end

--- Runs a command of the server. What comes of it is told by progress and messages.
---@param command string
---@param argument table
---@param answered? fun(result: table) gets the server's answer
function M.execute(command, argument, answered)
  local client = client_for(0)
  if not client then
    local path = vim.g.pilcrow_path or 'pilcrow'
    if vim.fn.executable(path) == 0 then
      complain(('%s is not found; install it or set g:pilcrow_path (:checkhealth pilcrow)'):format(path))
    elseif vim.lsp.is_enabled(NAME) then
      complain('the server is not running; it starts with the next file that is opened (:edit)')
    else
      complain("the server is not running; put vim.lsp.enable('pilcrow') into your init.lua and open a file")
    end
    return
  end
  local params = { command = command, arguments = { argument } }
  client:request('workspace/executeCommand', params, function(err, result)
    if err then
      complain(err.message)
    elseif answered then
      answered(result)
    end
  end, vim.api.nvim_get_current_buf())
end

--- Asks for something in words.
---@param text string
---@param range? { [1]: integer, [2]: integer } lines, first and last, from 1; without it the cursor
---@param resume? string the conversation that it goes on with
function M.prompt(text, range, resume)
  local client = client_for(0)
  local argument = { text = text, resume = resume }
  if client and vim.lsp.buf_is_attached(0, client.id) then
    local encoding = client.offset_encoding
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

-- The file tells which project is meant, where several are open.
local function about_here()
  local client = client_for(0)
  if client and vim.lsp.buf_is_attached(0, client.id) then
    return { uri = vim.uri_from_bufnr(0) }
  end
  return vim.empty_dict()
end

--- Says something to the run that goes on, after its turn.
---@param text string
function M.steer(text)
  M.execute('pilcrow.steer', { text = text })
end

--- Goes on with a conversation of before: which, and then with what.
function M.resume()
  M.execute('pilcrow.sessions', about_here(), function(result)
    if #result.sessions == 0 then
      complain('there is no conversation yet')
      return
    end
    local function shown(session)
      return ('%s  %s'):format(session.lastActive:sub(1, 16):gsub('T', ' '), session.title)
    end
    vim.ui.select(result.sessions, { prompt = 'Go on with', format_item = shown }, function(session)
      if not session then
        return
      end
      vim.ui.input({ prompt = 'Pilcrow: ' }, function(text)
        if text and vim.trim(text) ~= '' then
          M.prompt(text, nil, session.session)
        end
      end)
    end)
  end)
end

--- Ends what is running.
function M.stop()
  M.execute('pilcrow.stop', vim.empty_dict())
end

--- Takes back the last run.
function M.undo()
  M.execute('pilcrow.undo', about_here())
end

--- Takes back the last undo.
function M.redo()
  M.execute('pilcrow.redo', about_here())
end

--- Opens all that was said and done in the last run.
function M.transcript()
  M.execute('pilcrow.transcript', vim.empty_dict())
end

-- What `:Pilcrow` takes that is no prompt.
local WORDS = { 'stop', 'undo', 'redo', 'resume', 'answer', 'transcript' }

--- `:Pilcrow …`
function M.command(opts)
  local text = vim.trim(opts.args)
  if opts.bang then
    if text == '' then
      complain('what shall the run hear? For example :Pilcrow! leave the tests alone')
    else
      M.steer(text)
    end
  elseif text == 'answer' then
    M.show_answer()
  elseif vim.list_contains(WORDS, text) then
    M[text]()
  elseif text == '' then
    complain('what shall it do? For example :Pilcrow rename fetch to load')
  else
    M.prompt(text, opts.range > 0 and { opts.line1, opts.line2 } or nil)
  end
end

-- How requests begin that need no model.
local BEGINNINGS = { 'rename ', 'move ', 'find references of ', 'organize imports', 'format', 'explain the diagnostics' }

--- Completion of the first words.
function M.complete(lead, line)
  if line:match('^%S*!') then
    -- After `:Pilcrow!` come words to the run that goes on.
    return {}
  end
  local typed = line:match('^.-Pilcrow%s+(.*)$') or ''
  local matching = vim.tbl_filter(function(words)
    return vim.startswith(words, typed)
  end, vim.list_extend(vim.deepcopy(WORDS), BEGINNINGS))
  -- Neovim replaces the last word only.
  return vim.tbl_map(function(words)
    return vim.trim(words:sub(#typed - #lead + 1))
  end, matching)
end

-- How wide a line may be that is shown without a prompt to press a key.
local function room()
  return math.max(vim.v.echospace, 20)
end

-- One line below the text, never a prompt to press a key, nothing while the person types a command.
local function echo(text, highlight, keep)
  if vim.api.nvim_get_mode().mode:match('^[cr]') then
    return
  end
  local line = '¶ ' .. text:gsub('^Pilcrow: ', ''):gsub('%s*\n.*', ' …')
  while vim.fn.strdisplaywidth(line) > room() do
    line = vim.fn.strcharpart(line, 0, vim.fn.strchars(line) - 2) .. '…'
  end
  vim.api.nvim_echo({ { line, highlight } }, keep or false, {})
end

--- Progress of the server, in one line.
function M.on_progress(event)
  local client = vim.lsp.get_client_by_id(event.data.client_id)
  local value = event.data.params.value
  if not client or client.name ~= NAME or type(value) ~= 'table' then
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

--- Opens the last answer below, the cursor stays where it is.
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
  -- As many as are shown: a long line takes more than one.
  local lines = vim.api.nvim_win_text_height(window, {}).all
  vim.api.nvim_win_set_height(window, math.min(lines, 12))
  vim.o.splitkeep = splitkeep
end

--- What the server says: in one line where it fits, else in a window below.
function M.on_message(_, params)
  local text = vim.trim(params.message):gsub('^Pilcrow: ', '')
  vim.api.nvim_buf_set_lines(answer_buffer(), 0, -1, false, vim.split(text, '\n'))
  local parts = vim.tbl_filter(function(line)
    return line ~= ''
  end, vim.tbl_map(vim.trim, vim.split(text, '\n')))
  local line = table.concat(parts, ' · ')
  if vim.fn.strdisplaywidth('¶ ' .. line) > room() and not vim.api.nvim_get_mode().mode:match('^[cr]') then
    M.show_answer()
    line = parts[1] .. ' …'
  end
  local highlight = ({ 'ErrorMsg', 'WarningMsg' })[params.type] or 'Normal'
  echo(line, highlight, true)
end

-- Questions whose runs ended, by what the server calls them.
local over = {}
local waiting = {}

-- Neovim does not say which request is cancelled, so the server names its questions.
function M.on_question_over(_, params, ctx)
  local id = ctx.client_id .. ' ' .. params.question
  over[id] = waiting[id]
end

--- A question of the server waits until the person is in normal mode: what they type is no answer. It
--- is not asked any more when its run has ended meanwhile.
function M.on_question(err, params, ctx)
  local co, is_main = coroutine.running()
  local named = type(params.pilcrow) == 'table' and params.pilcrow.question
  local question = ctx.client_id .. ' ' .. (named or '')
  local told = false
  waiting[question] = true
  while co and not is_main and not over[question] and vim.api.nvim_get_mode().mode ~= 'n' do
    if not told then
      echo(params.message .. ' (asked when you are back in normal mode)', 'WarningMsg')
      told = true
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
  if over[question] then
    over[question] = nil
    return vim.NIL
  end
  return vim.lsp.handlers['window/showMessageRequest'](err, params, ctx)
end

--- Neovim starts servers for files that have a type; this one has to know the others too.
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
