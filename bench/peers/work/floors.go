package work

// Floors is the name of the store that is none: what the machine itself can do. Its
// only workload has the same name.
const Floors = "floors"

// Floor is something no store can be faster than, in the way that it works.
type Floor struct {
	ID, Title, Unit string
	// Higher: more is better.
	Higher bool
}

// FloorRows are the figures of the floors.
var FloorRows = []Floor{
	{"write", "write(2) of 215 B, a batch of one record", "ns", false},
	{"pwrite-allocated", "pwrite(2) of 215 B into fallocate'd space", "ns", false},
	{"map", "memcpy of 215 B into a mapping that is populated 64 KiB ahead", "ns", false},
	{"fdatasync-growing", "fdatasync after 215 B, growing file, p50", "us", false},
	{"fdatasync-allocated", "fdatasync after 215 B into fallocate'd space, p50", "us", false},
	{"pread", "pread(2) of 4 KiB at random from the page cache", "ns", false},
	{"touch", "read of a random page that is mapped, dependent", "ns", false},
	{"memory", "memory read in order, 256 MiB", "GB/s", true},
	{"crc", "CRC-32C of memory in order, in pieces below 4 KiB", "GB/s", true},
	{"crc-whole", "CRC-32C of memory in order, in pieces of 16 KiB", "GB/s", true},
}
