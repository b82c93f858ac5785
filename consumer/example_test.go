package consumer_test

import (
	"context"
	"fmt"
	"os"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/consumer"
	"github.com/seglog/seglog/offsetslog"
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

// A group reads a topic; what each Poll returned is committed automatically.
func Example() {
	path, err := os.MkdirTemp("", "consumer")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(path)
	dir, err := seglog.OpenDir(path, offsetslog.Configure(seglog.DirOptions{}))
	if err != nil {
		panic(err)
	}
	defer dir.Close()
	store, err := offsetslog.Open(dir, offsetslog.Options{InitialRebalanceDelay: -1})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	log, err := dir.CreatePartition("orders", 0, nil)
	if err != nil {
		panic(err)
	}
	if _, err := log.Append([]seglog.Record{{Value: []byte("tea")}, {Value: []byte("coffee")}}, nil); err != nil {
		panic(err)
	}

	c, err := consumer.New(dir, consumer.Options{Group: "billing", Coordinator: store, OffsetReset: consumer.Earliest})
	if err != nil {
		panic(err)
	}
	if err := c.Subscribe("orders"); err != nil {
		panic(err)
	}
	batches, err := c.Poll(context.Background())
	if err != nil {
		panic(err)
	}
	for _, b := range batches {
		for _, r := range b.Records {
			fmt.Println(b.TopicPartition, r.Offset, string(r.Value))
		}
	}
	if err := c.Close(); err != nil { // commits
		panic(err)
	}
	lags, err := store.Lags(context.Background(), "billing")
	fmt.Println(lags[0].Committed.Offset, lags[0].Lag, err)
	// Output:
	// orders-0 0 tea
	// orders-0 1 coffee
	// 2 0 <nil>
}

// Workers finish records in any order; the commit stays at the first that is not finished.
func ExampleBatch_Complete() {
	path, err := os.MkdirTemp("", "consumer")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(path)
	dir, err := seglog.OpenDir(path, offsetslog.Configure(seglog.DirOptions{}))
	if err != nil {
		panic(err)
	}
	defer dir.Close()
	store, err := offsetslog.Open(dir, offsetslog.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	log, err := dir.CreatePartition("orders", 0, nil)
	if err != nil {
		panic(err)
	}
	for range 3 {
		if _, err := log.Append([]seglog.Record{{Value: []byte("order")}}, nil); err != nil {
			panic(err)
		}
	}

	ctx := context.Background()
	orders := offsetslog.TopicPartition{Topic: "orders"}
	c, err := consumer.New(dir, consumer.Options{Group: "billing", Coordinator: store, OffsetReset: consumer.Earliest, MaxInFlight: 100})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	if err := c.Assign(ctx, orders); err != nil {
		panic(err)
	}
	batches, err := c.Poll(ctx)
	if err != nil {
		panic(err)
	}
	for _, offset := range []int64{2, 0, 1} {
		if err := batches[0].Complete(offset); err != nil {
			panic(err)
		}
		if err := c.CommitSync(ctx, nil); err != nil {
			panic(err)
		}
		at, err := c.Committed(ctx, orders)
		fmt.Println(offset, "is finished: committed", at[0].Offset, err)
	}
	// Output:
	// 2 is finished: committed 0 <nil>
	// 0 is finished: committed 1 <nil>
	// 1 is finished: committed 3 <nil>
}
