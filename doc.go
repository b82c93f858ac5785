// Package seglog is an embeddable commit log that stores its data in Apache
// Kafka's own on-disk format.
//
// A [Log] is one partition: a directory of segments, each a file of record
// batches with two sparse indexes. What it writes, a Kafka broker and Kafka's
// tools read; what they write, it reads.
//
//	log, err := seglog.Open("orders-0", seglog.Options{})
//	at, err := log.Append([]seglog.Record{{Key: key, Value: value}}, nil)
//	rec, err := log.Get(at.BaseOffset)
//	for rec, err := range log.Records(ctx, 0, nil) { ... }
//
// A [Dir] is a log directory, as a broker has it: many partitions that share one lock,
// one limit of open files, one goroutine that maintains and one that compacts them.
//
//	dir, err := seglog.OpenDir("kafka-logs", seglog.DirOptions{})
//	log, err := dir.Partition("orders", 0)
//
// # Durability
//
// Append returns when its batch is on disk, unless [Options.Sync] says
// otherwise. A batch is stored whole or not at all, across errors and crashes.
// After a failed sync the log refuses writes until it is opened again, since
// what the kernel dropped cannot be written by trying once more; reading goes on.
//
// A log stays where it was opened, whatever becomes of the working directory. Do not
// move its directory while it is open. If it is, and its path leads to another log,
// nothing is written there: rolling, removing and closing give ErrMoved. Readers that
// have to open a file may find the other's, though.
//
// # Concurrency
//
// All methods of a Log may be called from any goroutine. Appends are ordered by
// one lock, under which nothing is encoded, checksummed or synced. Readers take
// no lock of the log: they hold the segment they read for the length of one read,
// so retention and truncation never pull a file from under them. Lock order:
// maintain, removing, sync, append, then a segment's own. Those of a Dir are in its
// comment.
//
// # Bytes
//
// Slices passed in are not kept after a call returns. Slices handed out belong
// to the caller where the documentation says so (Get), and are otherwise valid
// until the next step of the iteration that yielded them; Record.Clone makes a
// copy to keep.
package seglog
