package seglog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"path/filepath"
	"testing"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// FuzzRecover opens a directory whose only log holds arbitrary bytes, with
// checksums that are put right on request, so that what they hide is reached too.
//
//   - Neither opening nor reading panics, hangs, or fails otherwise than with the
//     typed errors that say where the damage is.
//   - Read-only, no byte changes, and what is found is found again.
//   - Opened for writing, the log is a prefix of what it was and sound; it takes an
//     append; and a second opening changes nothing.
func FuzzRecover(f *testing.F) {
	add := func(data []byte) {
		f.Add(data, false)
		f.Add(data, true)
	}
	batch := plainBatch(f, 0, 2)
	add([]byte{})
	add(batch)
	add(append(bytes.Clone(batch), plainBatch(f, 3, 3)...))
	add(append(bytes.Clone(batch), batch...))
	add(append(bytes.Clone(batch), make([]byte, 100)...))
	add(batch[:70])
	add(plainBatch(f, math.MaxInt32, math.MaxInt32+1))
	add(legacyMessage(0, 0, 0, 0, []byte("k"), []byte("v")))
	add(legacyMessage(1, 1, 5, 1, nil, gzipped(f, append(
		legacyMessage(1, 0, 5, 0, nil, []byte("a")), legacyMessage(1, 1, 5, 0, nil, []byte("b"))...))))
	add(record.AppendEmptyBatch(nil, record.BatchHeader{BaseOffset: 4, LastOffsetDelta: 3, Attributes: 0x30, ProducerID: 1}))
	f.Fuzz(func(t *testing.T, data []byte, correct bool) {
		data = bytes.Clone(data) // it is the fuzzer's
		if correct {
			correctChecksums(data)
		}
		dir := filepath.Join(t.TempDir(), "0")
		path := writeLog(t, dir, 0, data)
		ro, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
		if err == nil {
			found, _ := offsetsFrom(t, ro, ro.Offsets().Start)
			again, _ := offsetsFrom(t, ro, ro.Offsets().Start)
			require.Equal(t, found, again)
			require.NoError(t, ro.Close())
		}
		require.Equal(t, data, append([]byte{}, readFile(t, path)...))

		l, err := seglog.Open(dir, dense)
		if err != nil {
			require.True(t, errors.Is(err, seglog.ErrCorrupt), "%v", err)
			return
		}
		defer l.Close()
		_, _ = offsetsFrom(t, l, l.Offsets().Start)
		end := l.Offsets().End
		res, err := l.Append(many(2, 1), nil)
		if errors.Is(err, seglog.ErrUnexpectedOffset) {
			return // the bytes have used up all offsets
		}
		require.NoError(t, err)
		require.Equal(t, end, res.BaseOffset)
		require.NoError(t, l.Close())

		l, err = seglog.Open(dir, dense)
		require.NoError(t, err)
		require.True(t, stats(t, l).Recovery.Clean)
		require.Equal(t, end+2, l.Offsets().End)
		require.Equal(t, []int64{end, end + 1}, offsetsOf(readAll(t, l, end)))
		require.NoError(t, l.Close())
	})
}

// correctChecksums goes from batch to batch as far as their sizes make sense.
func correctChecksums(data []byte) {
	for len(data) > record.MinFrame {
		frame, err := record.ParseFrame(data)
		if err != nil || frame.Size > len(data) {
			return
		}
		switch batch := data[:frame.Size]; {
		case frame.Magic == 2 && frame.Size >= record.HeaderSize:
			setCRC(batch)
		case frame.Magic < 2:
			binary.BigEndian.PutUint32(batch[12:], crc32.ChecksumIEEE(batch[16:]))
		}
		data = data[frame.Size:]
	}
}
