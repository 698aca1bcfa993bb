-- `:checkhealth pilcrow`

local M = {}

local function version_of(path)
  local done, result = pcall(function()
    return vim.system({ path, '--version' }, { text = true }):wait(10000)
  end)
  if not done then
    return nil, result
  end
  if result.code ~= 0 then
    return nil, vim.trim(result.stderr or '')
  end
  return vim.trim(result.stdout)
end

function M.check()
  local health = vim.health
  health.start('pilcrow')

  if vim.fn.has('nvim-0.11.2') == 1 then
    health.ok('Neovim ' .. tostring(vim.version()))
  else
    health.error('Neovim is too old', { 'Install Neovim 0.11.2 or newer' })
    return
  end

  local path = vim.g.pilcrow_path or 'pilcrow'
  if vim.fn.executable(path) == 1 then
    local version, why = version_of(path)
    if version then
      health.ok(('%s: %s'):format(vim.fn.exepath(path), version))
    else
      health.error(('%s does not run: %s'):format(path, why))
    end
  else
    health.error(('%s is not found'):format(path), {
      'Install it: cargo install --locked --path crates/pilcrow',
      'or set its path before you enable the server: vim.g.pilcrow_path = "/path/to/pilcrow"',
    })
  end

  if vim.lsp.is_enabled('pilcrow') then
    health.ok('the server is enabled')
  else
    health.warn('the server is not enabled', { "Add vim.lsp.enable('pilcrow') to your init.lua" })
  end

  local clients = vim.lsp.get_clients({ name = 'pilcrow' })
  if #clients == 0 then
    health.info('the server is not running; it starts with the first file you open')
  end
  for _, client in ipairs(clients) do
    local projects = vim.tbl_map(function(workspace_folder)
      return vim.uri_to_fname(workspace_folder.uri)
    end, client.workspace_folders or {})
    health.ok(
      ('running, %d files open, projects: %s'):format(
        vim.tbl_count(client.attached_buffers),
        #projects > 0 and table.concat(projects, ', ') or 'none'
      )
    )
    if client.handlers['workspace/applyEdit'] == nil then
      health.warn('edits join your own undo step while you are in insert mode', {
        'Add the whole plugin to the runtime path, not only lsp/pilcrow.lua',
      })
    end
  end

  if vim.fn.executable('git') == 1 then
    health.ok('git is found')
  else
    health.info('git is not found; Pilcrow finds projects by their directory .git')
  end
  health.info('language servers: run `pilcrow doctor` in the project')
end

return M
