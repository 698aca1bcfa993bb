-- Questions of a session: permissions and inputs. They are asked in the windows of the session only, in
-- normal mode; elsewhere a message says that there is one.

local client = require('pilcrow.client')
local sessions = require('pilcrow.session')

local M = {}

local LABELS = { once = 'Allow', session = 'Allow in this session', always = 'Always allow', no = 'Deny' }

-- Questions that were closed without an answer; they stay open.
local dismissed = {}

local function is_open(session, question)
  return vim.iter(session.questions):any(function(other)
    return other.request_id == question.request_id
  end)
end

local function is_in_view(session)
  return require('pilcrow.view').session_of(vim.api.nvim_get_current_buf()) == session
end

local function finish(session, question)
  session.asking = nil
  if is_open(session, question) then
    dismissed[question.request_id] = true
  end
end

local function answer(session, question, method, params)
  params.request_id = question.request_id
  session.asking = nil
  session:request(method, params, nil, function(err)
    -- Another client answered first.
    if vim.tbl_get(err, 'data', 'code') ~= 'not_found' then
      client.complain(err.message)
    end
  end)
end

local function ask_permission(session, question)
  local close = question.detail ~= '' and client.show_diff(question.detail) or function() end
  local options = {
    prompt = question.title,
    format_item = function(choice)
      return LABELS[choice] or choice
    end,
  }
  vim.ui.select(question.answers, options, function(choice)
    close()
    if not choice then
      finish(session, question)
    elseif choice ~= 'no' then
      answer(session, question, 'pilcrow/permission', { answer = choice })
    else
      vim.ui.input({ prompt = 'Reason (optional): ' }, function(text)
        local reason = text and vim.trim(text) ~= '' and text or nil
        answer(session, question, 'pilcrow/permission', { answer = choice, text = reason })
      end)
    end
  end)
end

local function ask_text(session, question)
  vim.ui.input({ prompt = question.question .. ' ' }, function(text)
    if text then
      answer(session, question, 'pilcrow/input', { answer = text })
    else
      finish(session, question)
    end
  end)
end

local OTHER = 'Another answer …'

local function ask_input(session, question)
  if #question.options == 0 then
    ask_text(session, question)
    return
  end
  local choices = vim.list_extend({}, question.options)
  table.insert(choices, OTHER)
  vim.ui.select(choices, { prompt = question.question }, function(choice, index)
    if index == #choices then
      ask_text(session, question)
    elseif choice then
      answer(session, question, 'pilcrow/input', { answer = choice })
    else
      finish(session, question)
    end
  end)
end

local function ask(session, question)
  client.in_normal_mode(function()
    if not is_open(session, question) or not is_in_view(session) then
      session.asking = nil
      return
    end
    if question.type == 'permission_request' then
      ask_permission(session, question)
    else
      ask_input(session, question)
    end
  end)
end

--- Asks the first open question, also one that was dismissed.
---@return boolean whether there is one
function M.ask(session)
  local question = session.questions[1]
  if question and not session.asking then
    session.asking = question.request_id
    ask(session, question)
  end
  return question ~= nil
end

--- The user is in a window of the session, or a question came.
function M.offer(session)
  local question = vim.iter(session.questions):find(function(other)
    return not dismissed[other.request_id]
  end)
  if question and not session.asking and is_in_view(session) then
    session.asking = question.request_id
    vim.schedule(function()
      ask(session, question)
    end)
  end
end

sessions.watch(function(session, event)
  if not event or event.type == 'permission_request' or event.type == 'input_request' then
    M.offer(session)
    if event and not is_in_view(session) then
      vim.notify(('pilcrow: %s (answer with :Pilcrow)'):format(event.title or event.question), vim.log.levels.WARN)
    end
  elseif event.type == 'permission_resolved' or event.type == 'input_resolved' then
    if session.asking == event.request_id then
      session.asking = nil
    end
    M.offer(session)
  end
end)

return M
