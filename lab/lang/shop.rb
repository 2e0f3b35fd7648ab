# frozen_string_literal: true

# A shop's catalogue and baskets. A visit fills baskets and searches the catalogue.
Item = Struct.new(:name, :price, :stock, :words)
items = Array.new(160_000) do |i|
  Item.new("item #{i}", (i * 37) % 9973, i % 50, Array.new(4) { |k| "w#{(i * 7 + k * 131) % 3000}" })
end
by_word = Hash.new { |hash, word| hash[word] = [] }
items.each_with_index { |item, i| item.words.each { |word| by_word[word] << i } }
$stdout.sync = true
puts 'ready'
$stdin.each_line do |line|
  round = line.split[1].to_i
  total = 0
  20_000.times do |i|
    item = items[i < 16_000 ? i : (round * 7919 + i) % items.size]
    item.stock -= 1
    total += item.price
  end
  60.times { |query| total += by_word["w#{(round * 11 + query * 7) % 3000}"].sum { |i| items[i].price } }
  puts "done #{total}"
end
