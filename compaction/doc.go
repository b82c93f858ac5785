// Package compaction is Kafka's log cleaner: it keeps the last record of each key.
//
// A compacted log has a clean part, in which each key occurs once, a dirty part,
// which nobody has looked at yet, and behind that what must not be touched:
//
//	start          first dirty        first uncleanable        end
//	|  clean  . . . . . |  dirty . . . . . . |  active segment . . |
//
// A round cleans in two passes that read the log from front to back:
//
//  1. The dirty part is read, and for each key the offset of its last record put in
//     a KeyMap of bounded size. If the map gets full the round ends there, be it in the
//     middle of a segment, and the next one goes on behind it.
//  2. Every segment below that end is read and written anew without the records that
//     the map has a later offset for. Small segments become one. What a batch is, is
//     kept: its offsets, sequence numbers, epochs and codec. A batch that loses
//     nothing is copied byte for byte.
//
// When a tombstone, a record without a value, may go, and a transaction's marker, is
// said by a time in its batch, the delete horizon (KIP-534): the round that finds it
// with nothing left to delete sets it, and a round after it removes the record.
//
// The rules are those of Kafka's LogCleaner.scala, LogCleanerManager.scala and
// MemoryRecords.filterTo. The decisions are pure functions (choose.go, group.go,
// retain.go, transactions.go); rewrite.go and round.go carry them out. New segments
// are written under .cleaned names, which recovery throws away. To put them in the
// place of the old ones is for the owner of the log, as is all else that is about a
// log: this package knows segments only.
//
// This is a supporting package of seglog: its API may change between minor versions.
package compaction
