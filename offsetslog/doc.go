// Package offsetslog keeps what consumer groups have read: Kafka's __consumer_offsets,
// in a seglog.Dir.
//
//	dir, err := seglog.OpenDir(path, offsetslog.Configure(seglog.DirOptions{}))
//	store, err := offsetslog.Open(dir, offsetslog.Options{})
//	err = store.Commit(ctx, offsetslog.CommitRequest{
//		Group:   "billing",
//		Offsets: []offsetslog.Commit{{TopicPartition: orders, Offset: 42, LeaderEpoch: -1}},
//	})
//	at, err := store.Fetch(ctx, offsetslog.FetchRequest{Group: "billing"})
//
// # What is stored
//
// The topic has 50 partitions, and is compacted. A group's records lie in the one that
// PartitionFor says. Each commit is one batch of records, one for each partition:
//
//	key    type 1 (2)  group  topic  partition (4)
//	value  version (2)  offset (8)  leader epoch (4)  metadata  commit timestamp (8)
//
// A record without a value, a tombstone, removes what has its key. A group with members
// has a record of its own. What a broker has written is read, and the other way round;
// records of newer kinds are left as they are, and counted.
//
// # Promises
//
// Commit returns when its records are on disk; only then does Fetch show them. So an
// offset that was shown is never taken back by a crash. Commits at the same time share
// syncs. Of two commits the later record in the log counts, also when one was made in a
// transaction that ended later.
//
// What a group may do is checked as Kafka's coordinator does, in its order and with its
// errors: see Error.
//
// # Concurrency
//
// All methods of a Store may be called from any goroutine. Fetch waits for no disk,
// once the group's partition was loaded. Lock order: partition.order, then
// partition.mu; the locks of a log come behind both.
package offsetslog
