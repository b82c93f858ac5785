//go:build unix

// Command peers compares logs for Go, and stores that are used as logs, with seglog:
//
//	go run . failures    what comes of five small failures; see docs/failures.md
//	go run . bench       how fast they are; see docs/benchmarks/README.md
package main

import (
	"fmt"
	"os"

	"github.com/seglog/seglog/bench/peers/failures"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "failures":
			return failures.Main(args[1:])
		case "bench":
			return bench(args[1:])
		}
	}
	return fmt.Errorf("usage: peers failures | peers bench [flags]")
}
