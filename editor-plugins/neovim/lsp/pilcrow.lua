-- The language server, for `vim.lsp.enable('pilcrow')`. It works alone too; the handlers below are what
-- the rest of the plugin adds.

local handlers = {}
local capabilities = {}
local found, apply = pcall(require, 'pilcrow.apply')
if found then
  handlers['workspace/applyEdit'] = apply.handler
  handlers['window/showMessage'] = function(...)
    return require('pilcrow').on_message(...)
  end
  handlers['window/showMessageRequest'] = function(...)
    return require('pilcrow').on_question(...)
  end
  handlers['pilcrow/question/over'] = function(...)
    return require('pilcrow').on_question_over(...)
  end
  handlers['pilcrow/debug/request'] = function(...)
    return require('pilcrow.debug').on_request(...)
  end
  -- Answers come whole, and are shown in a window where they are long.
  capabilities = { experimental = { pilcrow = { answers = true } } }
end

return {
  cmd = { vim.g.pilcrow_path or 'pilcrow', 'lsp' },
  -- No `filetypes`: it has to know every open file, whatever the language.
  root_markers = { '.git' },
  -- What is typed is told at once, and not up to 150 ms later: an edit fits while it is on its way.
  flags = { debounce_text_changes = 20 },
  handlers = handlers,
  capabilities = capabilities,
  -- One server for everything; the project of a further file is told to it as a workspace folder.
  reuse_client = function(client, config)
    if client.name ~= config.name or client:is_stopped() then
      return false
    end
    if config.root_dir then
      local folder = { uri = vim.uri_from_fname(config.root_dir), name = config.root_dir }
      client.workspace_folders = client.workspace_folders or {}
      for _, known in ipairs(client.workspace_folders) do
        if known.uri == folder.uri then
          return true
        end
      end
      client:notify('workspace/didChangeWorkspaceFolders', { event = { added = { folder }, removed = {} } })
      table.insert(client.workspace_folders, folder)
    end
    return true
  end,
}
