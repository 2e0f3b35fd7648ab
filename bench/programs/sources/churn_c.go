// Goroutines that allocate with malloc of C beside Go's own heap; prints a checksum.
package main

// #include <stdlib.h>
// #include <string.h>
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

func work(seed uint32) (sum uint64) {
	state := seed*2654435761 + 1
	draw := func(below uint32) uint32 {
		state = state*1664525 + 1013904223
		return (state >> 8) % below
	}
	for number := 0; number < 2000; number++ {
		size := 1 + draw(400000)
		block := (*[1 << 28]byte)(C.malloc(C.size_t(size)))
		C.memset(unsafe.Pointer(block), C.int(number&127), C.size_t(size))
		own := make([]byte, draw(100000)+1)
		own[0] = block[size-1]
		sum = sum*31 + uint64(own[0])
		C.free(unsafe.Pointer(block))
		if number%500 == 0 {
			runtime.GC()
		}
	}
	return sum
}

func main() {
	sums := make([]uint64, 8)
	var group sync.WaitGroup
	for seed := range sums {
		group.Add(1)
		go func(seed int) {
			defer group.Done()
			sums[seed] = work(uint32(seed))
		}(seed)
	}
	group.Wait()
	var all uint64
	for _, sum := range sums {
		all = all*1009 + sum
	}
	fmt.Println("finished", all)
}
