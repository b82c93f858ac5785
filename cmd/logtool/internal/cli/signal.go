package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// signalError is the cause of a context that a signal has ended.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return fmt.Sprintf("ended by signal: %v", e.signal) }

// Unwrap makes the cause of the end match the error most callers look for.
func (e signalError) Unwrap() error { return context.Canceled }

// WithSignals returns a context that ends at the first interrupt or request to
// terminate. The second one is no longer caught and ends the process at once.
// stop releases what it holds.
//
// A closed pipe is made an error of the write that meets it, where the default
// is to die of it: commands end as they would otherwise, with nothing left
// behind.
func WithSignals(parent context.Context) (ctx context.Context, stop func()) {
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(parent)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-caught:
			signal.Stop(caught)
			if s, ok := sig.(syscall.Signal); ok {
				cancel(signalError{s})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		cancel(nil)
	}
}
