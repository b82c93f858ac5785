package consumer_test

import (
	"context"
	"fmt"

	"github.com/seglog/seglog/consumer"
)

// Three records are handed out, from a log that compaction has left gaps in, and
// finished in any order.
func ExampleSafePosition() {
	s := consumer.NewSafePosition(5, 0)
	g := s.Generation()
	if err := s.Register(context.Background(), g, []int64{5, 8, 10}, 12); err != nil {
		fmt.Println(err)
	}
	for _, offset := range []int64{10, 8, 5} {
		if err := s.Complete(g, offset); err != nil {
			fmt.Println(err)
		}
		fmt.Println(offset, "is finished: commit", s.Position())
	}
	// Output:
	// 10 is finished: commit 5
	// 8 is finished: commit 5
	// 5 is finished: commit 12
}
