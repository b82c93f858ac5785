// Package interop holds a real Apache Kafka against seglog.
//
// The package starts a Kafka broker (KRaft, one node, broker and controller in
// one process) from its Maven jars on free loopback ports, drives it with
// franz-go, and compares what Kafka stored and served with what seglog reads
// and writes:
//
//   - Kafka writes, seglog reads: every codec, transactions, compaction, many
//     small segments, deleted prefixes.
//   - seglog writes, Kafka reads: through Kafka's own dump tool, and through a
//     broker started over the files.
//
// It needs java, javac and mvn on the PATH and fails without them. The jars
// are resolved once, into target/, which version control ignores; later runs
// need no network. It is a module of its own, so that the library depends on
// none of this.
//
// The same data sets, at a smaller scale, are checked in as golden directories
// under testdata/kafka; `go test -run TestGoldensAreWhatKafkaDumps -update` makes them again.
package interop
