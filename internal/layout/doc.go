// Package layout names every file and directory of a log directory: it builds
// the names and parses them back. It touches no file.
//
// A log directory holds one directory for each partition and a few files that
// speak for all of them; a partition's directory holds the files of its segments
// and a few that speak for the whole log:
//
//	data/
//	  .lock                                  held while a process owns data/
//	  .kafka_cleanshutdown                   there after a clean stop
//	  meta.properties                        cluster, node and directory ids
//	  recovery-point-offset-checkpoint       below it everything is on disk
//	  log-start-offset-checkpoint            first readable offsets
//	  replication-offset-checkpoint          high watermarks
//	  cleaner-offset-checkpoint              first offsets not yet cleaned
//	  orders-3/
//	    00000000000000041022.log             record batches
//	    00000000000000041022.index           offset -> position
//	    00000000000000041022.timeindex       timestamp -> offset
//	    00000000000000041022.txnindex        aborted transactions, if any
//	    00000000000000041022.snapshot        producer state below offset 41022
//	    leader-epoch-checkpoint              leader epoch -> first offset
//	    partition.metadata                   id of the topic
//	    seglog.state                         our own: start, recovery point
//	    seglog.state.copy                    the same once more
//
// A number in a name is padded with zeros to 20 digits, so that names sort by
// offset. What is being removed or replaced says so in a second suffix:
//
//	00000000000000041022.log.deleted         waiting to be removed
//	00000000000000041022.log.cleaned         cleaner output, not yet complete
//	00000000000000041022.log.swap            complete, about to take its place
//	leader-epoch-checkpoint.tmp              being written
//
// The rules are those of Kafka's LogFileUtils.java, LocalLog.java and
// Snapshots.java. A name that does not follow them to the letter is Unknown,
// and the file or directory is nobody's to read, move or remove.
package layout
