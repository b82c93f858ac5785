//go:build !linux

package vfs

// KnowsResident says whether Resident ever says true on this system.
const KnowsResident = false

// Resident reports whether all of b, which is mapped memory, is known to lie in main
// memory. On this system it is not known.
func Resident([]byte) bool { return false }
