// Package bench measures what a log costs. It holds benchmarks only:
//
//	go test -bench . -benchmem ./bench
//
// Numbers are for the machine they are taken on. Appends that wait for the disk
// say as much about the disk; each is there with and without.
package bench
