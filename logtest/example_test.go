package logtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// Inbox is the code under test: it keeps messages until they were worked on.
type Inbox struct{ log *seglog.Log }

func OpenInbox(opts seglog.Options) (*Inbox, error) {
	log, err := seglog.Open("inbox-0", opts)
	return &Inbox{log}, err
}

// Put returns when the message is safe.
func (b *Inbox) Put(message string) error {
	_, err := b.log.Append([]seglog.Record{{Value: []byte(message)}}, nil)
	return err
}

// Done removes the n oldest messages.
func (b *Inbox) Done(n int64) error { return b.log.DeleteBefore(b.log.Offsets().Start + n) }

// A program that uses a log is cut off at every step it takes, in every way a disk
// may come out of it, and must find again what it had promised.
func Example() {
	ctx := context.Background()
	disk := logtest.NewDisk(logtest.DiskOptions{})
	var promises logtest.Model
	var failures []error
	crashes := 0

	// The check after each crash: the program starts again on the disk that is left.
	disk.OnCrash(30, 1, &promises, func(c logtest.Crash) {
		crashes++
		inbox, err := OpenInbox(seglog.Options{FS: c.Disk.FS(), SegmentIndexBytes: 1 << 10})
		if err == nil {
			err = errors.Join(c.Check(ctx, inbox.log), inbox.Put("one more"), inbox.log.Close())
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", c, err))
		}
	})

	// The workload, which says what it was promised. Where a message ends up in the
	// log the inbox does not tell; for removal it matters, so it is told.
	inbox, err := OpenInbox(seglog.Options{FS: disk.FS(), SegmentBytes: 300, SegmentIndexBytes: 1 << 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range int64(6) {
		message := fmt.Sprintf("message %d", i)
		put := promises.Attempt(i, seglog.Record{Value: []byte(message)})
		if err := inbox.Put(message); err != nil {
			put.Failed(err)
			continue
		}
		put.Appended(i)
		put.Durable()
	}
	done := promises.Deleting(5)
	if err := inbox.Done(5); err == nil {
		done(5)
	}
	_ = inbox.log.Close()

	fmt.Println("enough crashes:", crashes > 500)
	fmt.Println("failures:", failures)
	// Output:
	// enough crashes: true
	// failures: []
}

// The third sync fails. What was acknowledged before is there, and the error says
// what was the matter.
func ExampleDisk_Fail() {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	log, err := seglog.Open("orders-0", seglog.Options{FS: disk.FS()})
	if err != nil {
		fmt.Println(err)
		return
	}
	disk.Fail(logtest.Calls{Kind: logtest.Sync, Name: "*.log", Nth: 3}, errors.New("the disk is on fire"))
	for range 4 {
		at, err := log.Append([]seglog.Record{{Value: []byte("order")}}, nil)
		fmt.Println(at.BaseOffset, err, errors.Is(err, seglog.ErrFailed))
	}
	_ = log.Close()
	fmt.Println("files left open:", disk.Open())
	// Output:
	// 0 <nil> false
	// 1 <nil> false
	// 2 append: log failed, open it again to write: sync orders-0/00000000000000000000.log: the disk is on fire true
	// 0 append: log failed, open it again to write: sync orders-0/00000000000000000000.log: the disk is on fire true
	// files left open: 0
}
