# A ledger in dictionaries. A visit books entries and sums up.
set ledger [dict create]
for {set i 0} {$i < 200000} {incr i} {
    dict set ledger $i [list "entry $i" [expr {$i * 37 % 9973}] [string repeat "x$i" 4]]
}
fconfigure stdout -buffering line
puts ready
while {[gets stdin line] >= 0} {
    set round [lindex $line 1]
    set sum 0
    for {set i 0} {$i < 30000} {incr i} {
        set number [expr {$i < 24000 ? $i : ($round * 7919 + $i * 5) % 200000}]
        incr sum [lindex [dict get $ledger $number] 1]
        if {$i % 10 == 0} { dict set ledger $number [list "entry $number" $round "changed in $round"] }
    }
    puts "done $sum"
}
