-- Restores the files, the conversation or both to the state before a message of the user.

local client = require('pilcrow.client')

local M = {}

local LABELS = { both = 'Files and conversation', files = 'Files', conversation = 'Conversation' }

local function count_of(files)
  return #files == 1 and '1 file' or ('%d files'):format(#files)
end

local function reasons_of(conflicts)
  return vim.iter(conflicts):map(function(conflict)
    return ('%s: %s'):format(vim.fn.fnamemodify(conflict.path, ':.'), conflict.reason)
  end):join('; ')
end

local function restore(session, message_id, scope)
  local params = { message_id = message_id, restore = scope }
  session:request('pilcrow/checkpoint/restore', params, function(restored)
    session.restored = restored.undo
    if client.value(restored.prompt) then
      require('pilcrow.view').put(session, restored.prompt)
    end
    if scope ~= 'files' then
      session:open()
    end
    if #restored.conflicts > 0 then
      client.complain('not restored: ' .. reasons_of(restored.conflicts))
    else
      vim.notify(('pilcrow: restored %s; U in the transcript undoes it'):format(LABELS[scope]:lower()))
    end
  end)
end

--- Shows what a restore before the message at the cursor would change, and asks what to restore.
---@param session pilcrow.Session
function M.restore(session)
  local key = session.transcript:key_at(vim.api.nvim_win_get_cursor(0)[1])
  local message_id = key and key:match('^user (.*)$')
  if not message_id then
    client.complain('no message of yours is here; go to one')
    return
  end
  local params = { cwd = session.cwd, message_id = message_id }
  session:request('pilcrow/checkpoint/preview', params, function(preview)
    local close = preview.diff ~= '' and client.show_diff(preview.diff) or function() end
    local prompt = ('Restore the state before this message (%s)'):format(count_of(preview.files))
    if #preview.conflicts > 0 then
      prompt = ('%s, without %s'):format(prompt, reasons_of(preview.conflicts))
    end
    local scopes = #preview.files > 0 and { 'both', 'files', 'conversation' } or { 'conversation' }
    local function shown(scope)
      return LABELS[scope]
    end
    vim.ui.select(scopes, { prompt = prompt, format_item = shown }, function(scope)
      close()
      if scope then
        restore(session, message_id, scope)
      end
    end)
  end)
end

--- Undoes the last restore of a session.
---@param session pilcrow.Session
function M.undo(session)
  local restored = session.restored
  if not restored then
    client.complain('nothing was restored in this session')
    return
  end
  session:request('pilcrow/checkpoint/undo', { undo = restored }, function()
    session.restored = nil
    if client.value(restored.entry) then
      session:open()
    end
  end)
end

return M
