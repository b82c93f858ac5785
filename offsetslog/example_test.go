package offsetslog_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// open opens a Dir for the examples, with a topic of ten records.
func open() (*seglog.Dir, *offsetslog.Store, func()) {
	path, err := os.MkdirTemp("", "offsets")
	check(err)
	dir, err := seglog.OpenDir(path, offsetslog.Configure(seglog.DirOptions{}))
	check(err)
	store, err := offsetslog.Open(dir, offsetslog.Options{InitialRebalanceDelay: -1})
	check(err)
	orders, err := dir.CreatePartition("orders", 0, nil)
	check(err)
	_, err = orders.Append(make([]seglog.Record, 10), nil)
	check(err)
	return dir, store, func() {
		check(store.Close())
		check(dir.Close())
		check(os.RemoveAll(path))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func Example() {
	_, store, done := open()
	defer done()
	ctx := context.Background()
	orders := offsetslog.TopicPartition{Topic: "orders", Partition: 0}

	err := store.Commit(ctx, offsetslog.CommitRequest{
		Group:   "billing",
		Offsets: []offsetslog.Commit{{TopicPartition: orders, Offset: 4, LeaderEpoch: -1, Metadata: "invoice 17"}},
	})
	check(err)

	lags, err := store.Lags(ctx, "billing")
	check(err)
	for _, l := range lags {
		fmt.Printf("%s: next %d (%s), %d of %d left\n", l.TopicPartition, l.Offset, l.Metadata, l.Lag, l.End)
	}
	// Output:
	// orders-0: next 4 (invoice 17), 6 of 10 left
}

func ExampleStore_Reset() {
	_, store, done := open()
	defer done()
	ctx := context.Background()
	orders := offsetslog.TopicPartition{Topic: "orders", Partition: 0}

	reset := offsetslog.ResetRequest{
		Group:      "billing",
		Partitions: []offsetslog.TopicPartition{orders},
		To:         offsetslog.ToOffset(1000),
		Clamp:      true,
	}
	rows, err := store.Reset(ctx, reset) // says what it would do
	check(err)
	fmt.Println(rows[0].Before.Offset, "to", rows[0].Offset, "clamped:", rows[0].Clamped)
	reset.Execute = true
	_, err = store.Reset(ctx, reset)
	check(err)
	// Output:
	// -1 to 10 clamped: true
}

func ExampleStore_JoinGroup() {
	_, store, done := open()
	defer done()
	ctx := context.Background()

	subscription := offsetslog.Subscription{Topics: []string{"orders"}, Generation: -1}
	joined, err := store.JoinGroup(ctx, offsetslog.JoinRequest{
		Group:     "billing",
		Protocols: []offsetslog.Protocol{{Name: offsetslog.RangeProtocol, Metadata: subscription.AppendTo(nil)}},
	})
	check(err)
	var assignments map[string][]byte
	if joined.IsLeader() {
		assignments, err = joined.Assign(offsetslog.AssignRange, map[string]int32{"orders": 1})
		check(err)
	}
	mine, err := store.SyncGroup(ctx, offsetslog.SyncRequest{Group: "billing", Member: joined.Member, Assignments: assignments})
	check(err)
	assignment, err := offsetslog.ParseAssignment(mine)
	check(err)
	fmt.Println(assignment.Partitions)

	// While there are members nobody else may commit.
	err = store.Commit(ctx, offsetslog.CommitRequest{Group: "billing"})
	fmt.Println(errors.Is(err, offsetslog.ErrUnknownMember))
	check(store.LeaveGroup(ctx, "billing", joined.Member))
	// Output:
	// [orders-0]
	// true
}
