-- The command `:Pilcrow` and the handlers of events. Modules load on first use; there are no key mappings.

if vim.g.loaded_pilcrow then
  return
end
vim.g.loaded_pilcrow = true

vim.api.nvim_create_user_command('Pilcrow', function(opts)
  require('pilcrow').command(opts)
end, {
  nargs = '*',
  range = true,
  bang = true,
  desc = 'Open a session of Pilcrow; or send a prompt, with ! a message to the current run, or a subcommand',
  complete = function(lead, line)
    return require('pilcrow').complete(lead, line)
  end,
})

local group = vim.api.nvim_create_augroup('pilcrow', {})
vim.api.nvim_create_autocmd('LspProgress', {
  group = group,
  callback = function(event)
    require('pilcrow').on_progress(event)
  end,
})
vim.api.nvim_create_autocmd('LspAttach', {
  group = group,
  callback = function(event)
    local client = vim.lsp.get_client_by_id(event.data.client_id)
    if client and client.name == 'pilcrow' then
      require('pilcrow.debug').follow()
      require('pilcrow.review').on_attach(event.buf)
    end
  end,
})
vim.api.nvim_create_autocmd({ 'BufReadCmd', 'BufWinEnter', 'BufWipeout', 'WinEnter' }, {
  group = group,
  pattern = 'pilcrow://*',
  callback = function(event)
    require('pilcrow.view').on_buffer(event.event, event.buf)
  end,
})
vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile' }, {
  group = group,
  callback = function(event)
    vim.schedule(function()
      if vim.api.nvim_buf_is_loaded(event.buf) then
        require('pilcrow').attach(event.buf)
      end
    end)
  end,
})
