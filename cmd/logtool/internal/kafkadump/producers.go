package kafkadump

import (
	"fmt"
	"hash/crc32"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

const abortedTxnSize = 34

// txnIndex prints a transaction index. The tool reads all of it before it prints
// the first entry, and fails over one of a later version (TransactionIndex.java).
func (d *Dumper) txnIndex(path, name string) error {
	if _, err := baseOffset(name); err != nil {
		return err
	}
	s, err := d.open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	entries := s.end / abortedTxnSize
	for i := range entries {
		b, err := s.read(i*abortedTxnSize, abortedTxnSize)
		if err != nil {
			return err
		}
		if version := int8(b[0]); version > 0 { // the tool reads half of the field
			d.damaged = true
			return exceptionf(kafkaException, "Unexpected aborted transaction version %d in transaction index %s, current version is 0",
				version, d.absolute(path))
		}
	}
	for i := range entries {
		b, err := s.read(i*abortedTxnSize, abortedTxnSize)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(d.out, "version: %d producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
			int8(b[0]), int64(be.Uint64(b[2:])), int64(be.Uint64(b[10:])), int64(be.Uint64(b[18:])), int64(be.Uint64(b[26:])))
		if err != nil {
			return err
		}
	}
	d.damaged = d.damaged || s.end%abortedTxnSize != 0
	return nil
}

const (
	producerEntrySize = 46
	producersStart    = 10
	// maxSnapshot is above what any snapshot reaches.
	maxSnapshot = 256 << 20
)

// snapshot prints a producer snapshot. Of one that is damaged the tool prints
// nothing but why, and goes on (ProducerStateManager.readSnapshot).
func (d *Dumper) snapshot(path string) error {
	data, err := vfs.ReadFile(d.fs, path, maxSnapshot)
	if err != nil {
		return err
	}
	if problem := checkSnapshot(data); problem != "" {
		d.damaged = true
		d.out.Flush()
		fmt.Fprintln(d.err, problem)
		return nil
	}
	entries := data[producersStart:]
	for range be.Uint32(data[6:]) {
		if err := d.producer(entries); err != nil {
			return err
		}
		entries = entries[producerEntrySize:]
	}
	return nil
}

// checkSnapshot says what is wrong with a snapshot, or nothing.
func checkSnapshot(data []byte) string {
	const schema = "Snapshot failed schema validation: "
	if len(data) < 2 {
		return schema + "null"
	}
	if version := int16(be.Uint16(data)); version != 1 {
		return schema + fmt.Sprintf("Snapshot contained an unknown file version %d", version)
	}
	if len(data) < producersStart {
		return schema + "null"
	}
	count, rest := int64(int32(be.Uint32(data[6:]))), int64(len(data)-producersStart)
	switch {
	case count < 0:
		return schema + "non-nullable field producerEntries was serialized as null"
	case count > rest:
		return schema + fmt.Sprintf("Tried to allocate a collection of size %d, but there are only %d bytes remaining.", count, rest)
	case count*producerEntrySize > rest:
		return schema + "null"
	}
	stored := be.Uint32(data[2:])
	if computed := crc32.Checksum(data[6:], crc32.MakeTable(crc32.Castagnoli)); stored != computed {
		return fmt.Sprintf("Snapshot is corrupt (CRC is no longer valid). Stored crc: %d. Computed crc: %d", stored, computed)
	}
	return ""
}

func (d *Dumper) producer(b []byte) error {
	var (
		epoch        = int16(be.Uint16(b[8:]))
		lastSequence = int32(be.Uint32(b[10:]))
		lastOffset   = int64(be.Uint64(b[14:]))
		offsetDelta  = int32(be.Uint32(b[22:]))
		timestamp    = int64(be.Uint64(b[26:]))
		coordinator  = int32(be.Uint32(b[34:]))
		txnStart     = int64(be.Uint64(b[38:]))
	)
	fmt.Fprintf(d.out, "producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d",
		int64(be.Uint64(b)), epoch, coordinator, optional(txnStart, txnStart >= 0), timestamp)
	if lastOffset >= 0 {
		fmt.Fprintf(d.out, " firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
			record.DecrementSequence(lastSequence, offsetDelta), lastSequence, lastOffset, offsetDelta, timestamp)
	}
	return d.out.WriteByte('\n')
}
