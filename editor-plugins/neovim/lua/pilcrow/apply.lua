-- What a language server cannot do in Neovim: an edit that is an undo step of its own, also while the
-- person is in insert mode. Everything else about the edit is Neovim's own doing.

local M = {}

---@param edit lsp.WorkspaceEdit
---@return integer[] buffers the loaded ones that the edit names
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

-- Setting 'undolevels', even to what it is, ends the current undo step (:help undo-break).
local function end_undo_step(buffer)
  vim.api.nvim_buf_call(buffer, function()
    vim.cmd('let &l:undolevels = &l:undolevels')
  end)
end

---@type lsp.Handler
function M.handler(err, params, ctx)
  local buffers = buffers_of(params.edit)
  vim.iter(buffers):each(end_undo_step)
  -- Neovim would print the label over whatever the person is reading.
  local unlabelled = vim.tbl_extend('force', params, { label = vim.NIL })
  unlabelled.label = nil
  local result = vim.lsp.handlers['workspace/applyEdit'](err, unlabelled, ctx)
  vim.iter(buffers):each(end_undo_step)
  return result
end

return M
