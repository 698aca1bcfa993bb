-- Inspects a running Neovim: reads one JSON object a line, answers one JSON object a line. Started by
-- tests/src/editors/neovim.rs.
--
--   nvim -l neovim-eyes.lua SOCKET
--
-- A Neovim that waits for a key evaluates nothing; the answer says so at once.

local channel = vim.fn.sockconnect('pipe', arg[1], { rpc = true })

local function look(request)
  local mode = vim.rpcrequest(channel, 'nvim_get_mode')
  if request.mode then
    return { value = mode }
  end
  if mode.blocking then
    return { blocked = mode.mode }
  end
  return { value = vim.rpcrequest(channel, 'nvim_eval', request.eval) }
end

for line in io.lines() do
  local ok, answer = pcall(function()
    return look(vim.json.decode(line))
  end)
  io.stdout:write(vim.json.encode(ok and answer or { error = tostring(answer) }), '\n')
  io.stdout:flush()
end
