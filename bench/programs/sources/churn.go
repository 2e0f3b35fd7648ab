// Goroutines that allocate maps and slices while the collector runs; prints a checksum.
package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
)

func work(seed uint32) (sum uint64) {
	state := seed*2654435761 + 1
	draw := func(below uint32) uint32 {
		state = state*1664525 + 1013904223
		return (state >> 8) % below
	}
	kept := make([][]byte, 0, 64)
	names := map[uint32]string{}
	for number := 0; number < 1500; number++ {
		size := uint32(1 << 14)
		if draw(8) == 0 {
			size = 1 << 20
		}
		block := make([]byte, 1+draw(size))
		for at := 0; at < len(block); at += 509 {
			if block[at] != 0 {
				panic("fresh memory is not zero")
			}
			block[at] = byte(number)
		}
		kept = append(kept, block)
		names[draw(5000)] = fmt.Sprint("name ", number)
		if len(kept) > 40 {
			chosen := draw(40)
			for _, value := range kept[chosen] {
				sum = sum*31 + uint64(value)
			}
			kept = append(kept[:chosen], kept[chosen+1:]...)
		}
		if number%300 == 0 {
			runtime.GC()
		}
	}
	return sum + uint64(len(names))
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
	output, err := exec.Command("sh", "-c", "head -c 3000000 /dev/zero | wc -c").Output()
	if err != nil {
		panic(err)
	}
	fmt.Print(string(output))
	var all uint64
	for _, sum := range sums {
		all = all*1009 + sum
	}
	fmt.Println("finished", all)
}
