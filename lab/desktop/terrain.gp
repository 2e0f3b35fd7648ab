# Gnuplot with a terrain in memory. A visit draws one cut of it.
set print "-"
set terminal dumb
set output "/dev/null"
set samples 400
rows = 20000
array Height[rows * 40]
do for [i = 1:rows * 40] { Height[i] = sin(i * 0.001) * cos(i * 0.0007) * 100 }
print "ready"
