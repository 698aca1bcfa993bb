-- Completion in the prompt buffer: links by the server, `/compact`.

local client = require('pilcrow.client')

local M = {}

-- Longest time that completion waits for the server.
local WAIT = 2000

--- The links that a text mentions.
---@return table[]
function M.links(session, text)
  local found = {}
  for name, uri in pairs(session.links) do
    local _, last = text:find('@' .. name, 1, true)
    -- Not the beginning of a longer name.
    if last and not text:find('^[%w_/#-]', last + 1) and not text:find('^%.%w', last + 1) then
      table.insert(found, { uri = uri })
    end
  end
  return found
end

--- A link to the file of the last window.
local function focus()
  local buffer = vim.fn.winbufnr(vim.fn.winnr('#'))
  local name = buffer > 0 and vim.bo[buffer].buftype == '' and vim.api.nvim_buf_get_name(buffer) or ''
  return name ~= '' and { uri = vim.uri_from_fname(name) } or nil
end

--- 'omnifunc' of the prompt buffer.
function M.omnifunc(findstart, base)
  local session = require('pilcrow.view').session_of(vim.api.nvim_get_current_buf())
  local connection = session and session.client and vim.lsp.get_client_by_id(session.client)
  if findstart == 1 then
    local before = vim.api.nvim_get_current_line():sub(1, vim.fn.col('.') - 1)
    local start = before:match('^()/%a*$') or before:match('.*()@%S*$')
    return start and connection and start - 1 or -3
  end
  if vim.startswith(base, '/') then
    local compact = { word = '/compact', menu = 'compact the session' }
    return { words = vim.startswith('/compact', base) and { compact } or {} }
  end
  local params = { query = base:sub(2), cwd = session.cwd, focus = focus() }
  local answer, why = connection:request_sync('pilcrow/context/complete', params, WAIT)
  if not answer or answer.err then
    client.complain(answer and answer.err.message or why)
    return {}
  end
  local words = {}
  for _, item in ipairs(answer.result.items) do
    session.links[item.name] = item.uri
    table.insert(words, { word = '@' .. item.name, menu = item.detail or item.kind })
  end
  return { words = words, refresh = 'always' }
end

return M
