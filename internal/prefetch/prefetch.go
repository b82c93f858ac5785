//go:build amd64 || arm64

// Package prefetch asks the processor for memory that will be read soon.
package prefetch

// Bytes asks for the n bytes at an address, and does not wait for them. It is a hint: an
// address that is not mapped, or not any more, is passed over. Some ten cache lines of 64
// bytes can be under way at once; whoever asks for more waits.
//
//go:noescape
func Bytes(address uintptr, n int)
