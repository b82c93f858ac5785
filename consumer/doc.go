// Package consumer reads the partitions of a seglog.Dir as a Kafka consumer reads those of
// a broker: alone or in a group, and committing how far it has come.
//
//	c, err := consumer.New(dir, consumer.Options{Group: "billing", Coordinator: store, OffsetReset: consumer.Earliest})
//	err = c.Subscribe("orders")
//	for rec, err := range c.Records(ctx) { ... }
//	err = c.Close()
//
// The coordinator is an offsetslog.Store in the same process, mostly in the same Dir.
//
// # What is committed
//
// The position: the offset of the next record to be read, which lies behind all that
// delivers nothing, such as transaction markers. It is committed when all below it is done:
//
//   - automatically, at the Poll after the one that has returned the records, every
//     Options.AutoCommitInterval, when partitions are given up, and by Close;
//   - by CommitSync and CommitAsync, when the caller says so;
//   - with Options.MaxInFlight, up to the first record that Complete was not called for, in
//     whatever order the others were: see SafePosition.
//
// A later commit is never undone by an earlier one, nor is one sent for partitions that
// have gone. What is committed is on disk, and so are the records it is about.
//
// # What is promised
//
// A record is delivered at least once: a crash, or a rebalance, between the work and the
// commit has it delivered again. Dedup recognizes it by an id. Who writes results to a
// database has them take effect once by writing the position with them:
// examples/sqlconsumer. Who writes them to a Dir commits the position within the same
// transaction: Consumer.Member, and offsetslog.Store.CommitTransactional.
//
// # Differences from Kafka's consumer
//
// Groups rebalance eagerly: all partitions are given up before a rebalance, also with
// assignors that would not need it. There are no topic patterns and no groups of the
// protocol of KIP-848. A commit names partitions that are assigned, and no others.
// auto.offset.reset knows no by_duration. A log that was cut below the position in the same
// leader epoch, while nobody read it, counts as out of range.
//
// # Concurrency
//
// Poll and Records are for one goroutine at a time; they call the Listener. All other
// methods may be called from any, also while a Poll waits. Heartbeats and asynchronous
// commits are sent by goroutines of the consumer, which end with Close. Lock order:
// turn, sending, mu, and behind them that of a SafePosition. Under mu no method of a log
// or of the coordinator is called, and of the Dir only Partitions.
package consumer
