-- Selects a session, or an option of one, with `vim.ui.select`.

local client = require('pilcrow.client')
local questions = require('pilcrow.questions')
local sessions = require('pilcrow.session')
local view = require('pilcrow.view')

local M = {}

local OTHER_MODEL = 'Another model …'

--- Selects a session of the project, and shows it.
function M.resume()
  local params = vim.empty_dict()
  params.cwd = view.folder()
  local function shown(entry)
    local at = entry.last_active:sub(1, 16):gsub('T', ' ')
    return ('%s  %s%s'):format(at, entry.title, entry.running and ' (working)' or '')
  end
  local function show(entry)
    if entry then
      local session = sessions.find(entry.session) or sessions.new(entry.session, params.cwd)
      view.show(session)
      session:with(function()
        questions.ask(session)
      end)
    end
  end
  client.with(function(connection)
    client.request(connection, 'pilcrow/session/list', params, function(result)
      if #result.sessions == 0 then
        client.complain('there is no session yet')
      else
        vim.ui.select(result.sessions, { prompt = 'Resume', format_item = shown }, show)
      end
    end)
  end)
end

local function set(session, option, value)
  session:request('pilcrow/session/setOption', { option = option.id, value = value }, function(result)
    session.options = result.options
    session.model = option.id == 'model' and value or session.model
    session:refresh_status()
  end)
end

-- Selects the value of an option.
local function choose_value(session, option)
  local choices = vim.list_extend({}, option.options)
  if option.id == 'model' then
    table.insert(choices, { name = OTHER_MODEL })
  end
  local function shown(choice)
    return (choice.value == option.currentValue and '● ' or '  ') .. choice.name
  end
  vim.ui.select(choices, { prompt = option.name, format_item = shown }, function(choice)
    if choice and choice.value then
      set(session, option, choice.value)
    elseif choice then
      vim.ui.input({ prompt = 'Model: ' }, function(name)
        if name and vim.trim(name) ~= '' then
          set(session, option, vim.trim(name))
        end
      end)
    end
  end)
end

local function described(option)
  local current = vim.iter(option.options):find(function(choice)
    return choice.value == option.currentValue
  end)
  return ('%s: %s'):format(option.name, current and current.name or option.currentValue)
end

--- Selects an option of the session in view, for example `model`, and its value.
---@param id? string
function M.option(id)
  local session = view.session_of(vim.api.nvim_get_current_buf()) or sessions.current
  if not session then
    client.complain('no session is open; :Pilcrow opens one')
    return
  end
  session:with(function()
    local option = vim.iter(session.options):find(function(other)
      return other.id == id
    end)
    if option then
      choose_value(session, option)
      return
    end
    vim.ui.select(session.options, { prompt = 'Option', format_item = described }, function(chosen)
      if chosen then
        choose_value(session, chosen)
      end
    end)
  end)
end

return M
