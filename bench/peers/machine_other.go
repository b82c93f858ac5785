//go:build unix && !linux

package main

import "github.com/seglog/seglog/bench/peers/report"

func describe(*report.Machine, string) {}

// cpu is not known here.
type cpu struct{}

func usage() cpu { return cpu{} }

func (cpu) since(cpu) (stolen, others float64) { return -1, -1 }

func settle(string, int64) error { return nil }
