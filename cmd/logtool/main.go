// Command logtool looks into commit logs and repairs them: those of seglog and
// those a Kafka broker has written.
package main

import (
	"context"
	"os"

	"github.com/seglog/seglog/cmd/logtool/internal/cli"
)

func main() {
	ctx, stop := cli.WithSignals(context.Background())
	status := cli.Run(ctx, cli.System(), os.Args[1:])
	stop()
	os.Exit(status)
}
