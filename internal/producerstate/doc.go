// Package producerstate keeps what a log knows about the producers that write
// to it, so that a batch that is sent twice is stored once, a producer that was
// replaced cannot write any more, and readers know which transactions are over
// (KIP-98, KIP-360, KIP-890). The rules are those of Kafka's
// ProducerStateManager.java, ProducerAppendInfo.java and ProducerStateEntry.java.
//
// A Manager is that state at one offset, the end: every record below it counts,
// none above does. For each producer it has the epoch, the last five batches and
// the open transaction. It does no I/O but for snapshots, has no clock and no
// lock: whoever appends holds the lock of the log.
//
// An append goes through it in three steps:
//
//	verdict, err := m.Check(batch, origin) // refused, or a duplicate: write nothing
//	...                                    // write the batch
//	if txn, ok := m.Ends(batch); ok { ... }// an aborted one goes to the transaction index
//	m.Apply(batch)
//
// Check and Ends change nothing and Apply cannot fail, so a failed write leaves no
// trace. If the transaction index cannot be written, Apply is left out: the
// transaction counts as open, and no reader gets beyond it. Batches that are in a
// log already, a leader's or this one, are not checked at all.
//
// Readers of committed data stop at the last stable offset: at the first record of
// a transaction that is open, or whose marker lies at or above the high watermark.
//
// A snapshot is the state at one offset, in the file <offset>.snapshot. When a log
// is opened, TruncateAndReload takes the newest good one, and the caller applies
// the batches behind it. Snapshots are taken at the base offset of each segment
// when it is begun, and at the end when a log is closed. They go with their
// segments. A damaged one is removed, and the one before is used, or the log.
//
// What must never happen is that the snapshot of records that were truncated away
// is used for the others that took their place: a batch could then count as
// stored that is not. So truncation makes the removal of snapshots durable before
// it returns, and a snapshot that was being written meanwhile is dropped.
//
// A producer takes about 240 bytes of memory: 192 and its place in a map and a
// list. Check and Apply cost a map look-up and, but for a producer that is new,
// allocate nothing. Producers go when they have been silent for long (see
// Manager.RemoveExpired), not when their records do.
package producerstate
