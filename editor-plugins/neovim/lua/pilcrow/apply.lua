-- Handler of `workspace/applyEdit` with two guarantees that Neovim lacks: an edit is an undo step of its own,
-- even in insert mode, and a stale edit is refused as a whole. (Neovim drops a stale edit but reports it as
-- applied; it checks neither version 0 nor any file but the first.) Neovim does the rest.

local M = {}

---@param edit lsp.WorkspaceEdit
---@return integer[] buffers the loaded buffers of the edit
local function buffers_of(edit)
  local uris = vim.tbl_keys(edit.changes or {})
  for _, change in ipairs(edit.documentChanges or {}) do
    table.insert(uris, change.textDocument and change.textDocument.uri)
  end
  local buffers = {}
  for _, uri in ipairs(uris) do
    local buffer = vim.uri_to_bufnr(uri)
    if vim.api.nvim_buf_is_loaded(buffer) then
      table.insert(buffers, buffer)
    end
  end
  return buffers
end

-- Setting 'undolevels', even to its current value, ends the current undo step (:help undo-break).
local function end_undo_step(buffer)
  vim.api.nvim_buf_call(buffer, function()
    vim.cmd('let &l:undolevels = &l:undolevels')
  end)
end

---@param edit lsp.WorkspaceEdit
---@return string? uri of a file that changed since the server saw it, or was closed
local function stale(edit)
  for _, change in ipairs(edit.documentChanges or {}) do
    local document = change.textDocument
    if document and type(document.version) == 'number' then
      -- Not `uri_to_bufnr`, which would recreate a wiped-out buffer and edit it unseen.
      local buffer = vim.iter(vim.api.nvim_list_bufs()):find(function(buffer)
        return vim.api.nvim_buf_is_loaded(buffer) and vim.uri_from_bufnr(buffer) == document.uri
      end)
      if not buffer then
        return document.uri
      end
      local version = vim.lsp.util.buf_versions[buffer]
      if version and version ~= document.version then
        return document.uri
      end
    end
  end
end

---@type lsp.Handler
function M.handler(err, params, ctx)
  local changed = stale(params.edit)
  if changed then
    return { applied = false, failureReason = changed .. ' changed or was closed meanwhile' }
  end
  local buffers = buffers_of(params.edit)
  vim.iter(buffers):each(end_undo_step)
  -- Neovim would print the label over the text that the user is reading.
  local unlabelled = vim.tbl_extend('force', params, { label = vim.NIL })
  unlabelled.label = nil
  local result = vim.lsp.handlers['workspace/applyEdit'](err, unlabelled, ctx)
  vim.iter(buffers):each(end_undo_step)
  return result
end

return M
