# One visit: raise a strip, then draw it.
first = (round % 40) * rows
do for [i = first + 1:first + rows:4] { Height[i] = Height[i] + 0.01 * round }
plot [1:rows] Height[first + int(x)] notitle
print "done"
