-- The language server, for `vim.lsp.enable('pilcrow')`. This file works alone too; the rest of the plugin
-- adds the handlers below.

local handlers = {}
local capabilities = {}
local on_init, on_exit
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
  handlers['pilcrow/list'] = function(...)
    return require('pilcrow').on_list(...)
  end
  handlers['pilcrow/event'] = function(...)
    return require('pilcrow.session').on_event(...)
  end
  handlers['pilcrow/review/changed'] = function(...)
    return require('pilcrow.review').on_changed(...)
  end
  handlers['pilcrow/debug/request'] = function(...)
    return require('pilcrow.debug').on_request(...)
  end
  -- Accepts whole answers, and shows long ones in a window; lists go to the quickfix list. Answers the questions
  -- of live sessions, and shows the review.
  capabilities = { experimental = { pilcrow = { answers = true, lists = true, questions = true, reviews = true } } }
  on_init = function(client)
    require('pilcrow.client').on_ready(client)
  end
  on_exit = vim.schedule_wrap(function(...)
    require('pilcrow.client').on_exit(...)
  end)
end

return {
  cmd = { vim.g.pilcrow_path or 'pilcrow', 'lsp' },
  -- No `filetypes`: the server needs every open file, whatever the language.
  root_markers = { '.git' },
  -- Sends changes almost at once instead of after 150 ms, so that few edits become stale on the way.
  flags = { debounce_text_changes = 20 },
  handlers = handlers,
  capabilities = capabilities,
  on_init = on_init,
  on_exit = on_exit,
  -- One server for everything; further projects become its workspace folders.
  reuse_client = function(client, config)
    if client.name ~= config.name or client:is_stopped() then
      return false
    end
    if config.root_dir then
      local workspace_folder = { uri = vim.uri_from_fname(config.root_dir), name = config.root_dir }
      client.workspace_folders = client.workspace_folders or {}
      for _, known in ipairs(client.workspace_folders) do
        if known.uri == workspace_folder.uri then
          return true
        end
      end
      client:notify('workspace/didChangeWorkspaceFolders', { event = { added = { workspace_folder }, removed = {} } })
      table.insert(client.workspace_folders, workspace_folder)
    end
    return true
  end,
}
