-- The buffer that shows a session: a list of items (messages, tool calls, notes) and a footer.
--
-- Items are only appended or changed, and a change is drawn at most 20 times a second. The cursor and the
-- scroll position stay where the user put them; a window follows only if its cursor is on the last line.
--
-- Folds are manual, because Neovim updates no other ones while the user types.

local M = {}

local INTERVAL = 50
local HIGHLIGHTS = vim.api.nvim_create_namespace('pilcrow.transcript')

---@class pilcrow.Item
---@field key string
---@field fold boolean its first line is shown, the others are folded
---@field lines string[] lines to draw
---@field tail string[] text to append
---@field start integer first drawn line, from 0
---@field gap integer 1 if a blank line precedes it
---@field count? integer number of drawn lines, with the gap; nil before the first drawing
---@field is_reset boolean all lines may have changed

---@class pilcrow.Transcript
---@field buffer? integer
---@field items pilcrow.Item[]
---@field by_key table<string, integer>
---@field footer string[]
local Transcript = {}
Transcript.__index = Transcript

---@param title string the first line
function M.new(title)
  local timer = assert(vim.uv.new_timer())
  local self = setmetatable({ title = title, footer = {}, footer_count = 0, timer = timer }, Transcript)
  self:clear()
  return self
end

--- Removes all items.
function Transcript:clear()
  self.items, self.by_key, self.first_dirty, self.is_new = {}, {}, 1, true
  self:set('title', { self.title })
end

--- Draws into this buffer from now on.
---@param buffer integer
function Transcript:attach(buffer)
  self.buffer = buffer
  self.is_new = true
  self:schedule()
end

--- Adds an item, or replaces its lines.
---@param key string
---@param lines string[]
---@param fold? boolean
function Transcript:set(key, lines, fold)
  local index = self.by_key[key]
  local item = self.items[index]
  if not item then
    index = #self.items + 1
    item = { key = key, start = 0 }
    self.items[index], self.by_key[key] = item, index
    local previous = self.items[index - 1]
    item.gap = previous and not (previous.fold and fold) and 1 or 0
  end
  item.fold, item.lines, item.tail, item.is_reset = fold or false, lines, {}, true
  self:touch(index)
end

--- Appends text to an item.
---@param key string
---@param text string
function Transcript:append(key, text)
  local index = self.by_key[key]
  if index and text ~= '' then
    table.insert(self.items[index].tail, text)
    self:touch(index)
  end
end

function Transcript:has(key)
  return self.by_key[key] ~= nil
end

--- The key of the item at a line, from 1; nil in the footer.
---@param line integer
---@return string?
function Transcript:key_at(line)
  local item = vim.iter(self.items):find(function(other)
    return other.count and line > other.start and line <= other.start + other.count
  end)
  return item and item.key
end

---@param lines string[]
function Transcript:set_footer(lines)
  if not vim.deep_equal(lines, self.footer) then
    self.footer, self.is_footer_dirty = lines, true
    self:schedule()
  end
end

function Transcript:touch(index)
  self.first_dirty = math.min(self.first_dirty, index)
  self:schedule()
end

function Transcript:schedule()
  if not self.is_scheduled then
    self.is_scheduled = true
    -- A timer counts from the beginning of the event loop's turn otherwise.
    vim.uv.update_time()
    self.timer:start(INTERVAL, 0, vim.schedule_wrap(function()
      self.is_scheduled = false
      self:draw()
    end))
  end
end

-- Appends the pending text to the lines of an item; returns the number of lines before the changed ones.
local function merge(item)
  local kept = #item.lines
  if #item.tail > 0 then
    local added = vim.split(table.concat(item.tail), '\n', { plain = true })
    item.tail = {}
    kept = math.max(kept - 1, 0)
    added[1] = (item.lines[kept + 1] or '') .. added[1]
    for index, line in ipairs(added) do
      item.lines[kept + index] = line
    end
  end
  return kept
end

-- Windows with the buffer: whether they follow, else the place to keep.
local function places(buffer)
  local found = {}
  local last = vim.api.nvim_buf_line_count(buffer)
  local current, mode = vim.api.nvim_get_current_win(), vim.api.nvim_get_mode().mode
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    local cursor = vim.api.nvim_win_get_cursor(window)
    local place = { cursor = cursor, top = vim.fn.line('w0', window) }
    place.follows = cursor[1] == last and (window ~= current or mode == 'n')
    found[window] = place
  end
  return found
end

-- Replaces lines, and moves the kept places with them.
local function replace(buffer, kept, first, last, lines, has_folds)
  local until_line = last
  if has_folds then
    -- Neovim removes folds with deleted lines only; a buffer always has a line.
    until_line = math.max(first, 1)
    vim.api.nvim_buf_set_lines(buffer, until_line, last, false, {})
  end
  vim.api.nvim_buf_set_lines(buffer, first, until_line, false, lines)
  local change = #lines - (last - first)
  local function moved(line)
    if line > last then
      return line + change
    end
    return line > first and math.max(math.min(line, first + #lines), 1) or line
  end
  for _, place in pairs(kept) do
    place.cursor[1], place.top = moved(place.cursor[1]), moved(place.top)
  end
end

local function restore(kept, last)
  for window, place in pairs(kept) do
    if place.follows then
      vim.api.nvim_win_set_cursor(window, { last, 0 })
    else
      local cursor = vim.api.nvim_win_get_cursor(window)
      if cursor[1] ~= place.cursor[1] or vim.fn.line('w0', window) ~= place.top then
        vim.api.nvim_win_call(window, function()
          vim.fn.winrestview({ lnum = place.cursor[1], col = place.cursor[2], topline = place.top })
        end)
      end
    end
  end
end

-- Closes the lines of an item below its first one, in the current window.
local function fold(item, is_open)
  local first, last = item.start + item.gap + 1, item.start + item.count
  vim.cmd.fold({ range = { first, last } })
  if is_open then
    vim.cmd.foldopen({ range = { first, last } })
  end
end

-- The folds that the user opened, by window and item.
local function opened(windows, items, from)
  local found = {}
  for window in pairs(windows) do
    found[window] = {}
    vim.api.nvim_win_call(window, function()
      for index = from, #items do
        local item = items[index]
        if item.fold and item.count then
          found[window][item] = vim.fn.foldclosed(item.start + item.gap + 1) == -1
        end
      end
    end)
  end
  return found
end

--- Folds the tool calls in a window that just got the buffer.
---@param window integer
function Transcript:fold_window(window)
  vim.api.nvim_win_call(window, function()
    vim.cmd.normal({ 'zE', bang = true })
    for _, item in ipairs(self.items) do
      if item.fold and item.count and not self.is_new then
        fold(item)
      end
    end
  end)
end

local DIFF_HIGHLIGHTS = { ['+'] = 'Added', ['-'] = 'Removed', ['@'] = 'Special' }

-- Highlights the first lines of tool calls, and lines of diffs.
local function highlight(buffer, item)
  if not item.fold then
    return
  end
  local first = item.start + item.gap
  vim.api.nvim_buf_clear_namespace(buffer, HIGHLIGHTS, first, item.start + item.count)
  local is_diff = false
  for index, line in ipairs(item.lines) do
    local group = index == 1 and 'Comment' or is_diff and DIFF_HIGHLIGHTS[line:sub(1, 1)]
    if line:match('^```+diff$') then
      is_diff = true
    elseif line:match('^```+$') then
      is_diff, group = false, nil
    end
    if group then
      local row = first + index - 1
      local mark = { end_row = row + 1, end_col = 0, hl_group = group, strict = false }
      vim.api.nvim_buf_set_extmark(buffer, HIGHLIGHTS, row, 0, mark)
    end
  end
end

function Transcript:draw()
  local buffer = self.buffer
  if not buffer or not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  if self.is_new then
    self.first_dirty, self.is_footer_dirty = 1, true
    for _, item in ipairs(self.items) do
      item.count = nil
    end
  end
  local from = self.first_dirty
  local kept = places(buffer)
  local is_open = opened(kept, self.items, from)
  -- The lines below stay as they are.
  local last = vim.api.nvim_buf_line_count(buffer) - (self.is_footer_dirty and 0 or self.footer_count)
  local before = self.items[from - 1]
  local first = before and before.start + before.count or 0
  local at, same, lines, has_folds = first, 0, {}, self.is_new
  for index = from, #self.items do
    local item = self.items[index]
    local only_appended = index == from and item.count and not item.is_reset and not item.fold
    local unchanged = merge(item)
    if only_appended then
      same = item.gap + unchanged
      vim.list_extend(lines, item.lines, unchanged + 1)
    else
      vim.list_extend(lines, item.gap == 1 and { '' } or {})
      vim.list_extend(lines, item.lines)
    end
    has_folds = has_folds or item.fold
    item.start, item.count, item.is_reset = at, item.gap + #item.lines, false
    at = at + item.count
  end
  if self.is_footer_dirty then
    vim.list_extend(lines, self.footer)
    self.footer_count = #self.footer
  end
  vim.bo[buffer].modifiable = true
  replace(buffer, kept, first + same, last, lines, has_folds)
  vim.bo[buffer].modifiable = false
  for index = from, #self.items do
    highlight(buffer, self.items[index])
  end
  for window in pairs(kept) do
    vim.api.nvim_win_call(window, function()
      for index = from, #self.items do
        local item = self.items[index]
        if item.fold then
          fold(item, is_open[window][item])
        end
      end
    end)
  end
  self.is_new, self.is_footer_dirty, self.first_dirty = false, false, #self.items + 1
  restore(kept, vim.api.nvim_buf_line_count(buffer))
end

return M
