-- A simulated world of cells and walkers. A visit moves the walkers and grows one region.
local cells, walkers = {}, {}
for i = 1, 600000 do cells[i] = { height = i % 101, owner = i % 7 } end
for i = 1, 20000 do walkers[i] = { at = i, name = "walker " .. i } end
io.stdout:setvbuf("no")
print("ready")
for line in io.lines() do
  local round = tonumber(line:match("%d+"))
  local sum = 0
  for step = 1, 5 do
    for _, walker in ipairs(walkers) do
      walker.at = (walker.at + round + step) % 120000 + 1
      sum = sum + cells[walker.at].height
    end
  end
  local first = (round * 60000) % 540000
  for i = first + 1, first + 40000 do cells[i].height = (cells[i].height + round) % 101 end
  print("done " .. sum)
end
