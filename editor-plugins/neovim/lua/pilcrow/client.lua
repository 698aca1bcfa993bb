-- The connection to the server: finds it, starts it, sends requests.

local M = {}

M.NAME = 'pilcrow'

---@param message string
function M.complain(message)
  vim.notify('pilcrow: ' .. message, vim.log.levels.ERROR)
end

--- The value, with JSON's null as nil in every version of Neovim.
function M.value(value)
  return value ~= vim.NIL and value or nil
end

---@param buffer? integer
---@return vim.lsp.Client?
function M.find(buffer)
  local filter = { name = M.NAME, bufnr = buffer }
  return vim.lsp.get_clients(filter)[1] or vim.lsp.get_clients({ name = M.NAME })[1]
end

--- Reports why there is no server.
function M.complain_missing()
  local path = vim.g.pilcrow_path or 'pilcrow'
  if vim.fn.executable(path) == 0 then
    M.complain(('%s is not found; install it or set g:pilcrow_path (:checkhealth pilcrow)'):format(path))
  elseif vim.lsp.is_enabled(M.NAME) then
    M.complain('the server is not running; it starts with the next file you open (:edit)')
  else
    M.complain("the server is not running; add vim.lsp.enable('pilcrow') to your init.lua and open a file")
  end
end

-- Functions that wait for an initialized server.
local waiting = {}

-- Starts the server for the open files, or without one.
local function start()
  local config = vim.lsp.is_enabled(M.NAME) and vim.lsp.config[M.NAME]
  if not config or vim.fn.executable(config.cmd[1]) == 0 then
    return false
  end
  -- Neovim attaches the open files again only when a server is enabled.
  vim.lsp.enable(M.NAME)
  config = vim.deepcopy(config)
  config.root_dir = vim.fs.root(0, config.root_markers) or vim.fn.getcwd()
  return vim.lsp.start(config, { attach = false, reuse_client = config.reuse_client }) ~= nil
end

--- Calls `use` with the initialized server, which is started if need be.
---@param use fun(client: vim.lsp.Client)
---@param failed? fun() called if there is none
function M.with(use, failed)
  local client = M.find(0)
  if client then
    use(client)
    return
  end
  table.insert(waiting, { use = use, failed = failed or function() end })
  if #vim.lsp.get_clients({ name = M.NAME, _uninitialized = true }) == 0 and not start() then
    M.complain_missing()
    M.give_up()
  end
end

--- Reports failure to all waiting callers.
function M.give_up()
  local given_up = waiting
  waiting = {}
  for _, entry in ipairs(given_up) do
    entry.failed()
  end
end

--- Runs the waiting functions with an initialized server.
---@param client vim.lsp.Client
function M.on_ready(client)
  local ready = waiting
  waiting = {}
  require('pilcrow.session').on_ready(client)
  for _, entry in ipairs(ready) do
    entry.use(client)
  end
end

--- The server's process ended; the user did not request it if there is a signal or a status.
function M.on_exit(code, signal, client_id)
  M.give_up()
  require('pilcrow.session').on_exit(client_id)
  require('pilcrow.review').on_exit()
  if vim.v.exiting == vim.NIL and (code ~= 0 or signal ~= 0) then
    local how = signal ~= 0 and ('by signal %d'):format(signal) or ('with status %d'):format(code)
    M.complain(('the server ended %s; it starts again with :Pilcrow or the next file you open'):format(how))
  end
end

--- Sends a request; reports an error unless `failed` takes it.
---@param client vim.lsp.Client
---@param method string
---@param params table
---@param answered? fun(result: table)
---@param failed? fun(err: lsp.ResponseError)
function M.request(client, method, params, answered, failed)
  client:request(method, params, function(err, result)
    if err and failed then
      failed(err)
    elseif err then
      M.complain(err.message)
    elseif answered then
      answered(result)
    end
  end, vim.api.nvim_get_current_buf())
end

--- Calls `run` in normal mode, so that typed text does not answer a question.
---@param run fun()
function M.in_normal_mode(run)
  if vim.api.nvim_get_mode().mode == 'n' then
    run()
    return
  end
  vim.api.nvim_create_autocmd('ModeChanged', {
    pattern = '*:n',
    once = true,
    callback = vim.schedule_wrap(function()
      M.in_normal_mode(run)
    end),
  })
end

--- Shows a diff in a window above, without the cursor.
---@param diff string
---@return fun() close
function M.show_diff(diff)
  local lines = vim.split(vim.trim(diff), '\n')
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].filetype = 'diff'
  vim.bo[buffer].modifiable = false
  local height = math.max(1, math.min(#lines, math.floor(vim.o.lines / 2)))
  local window = vim.api.nvim_open_win(buffer, false, { split = 'above', win = -1, height = height, style = 'minimal' })
  vim.cmd.redraw()
  return function()
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
  end
end

return M
