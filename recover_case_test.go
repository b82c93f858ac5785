package seglog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
	"github.com/stretchr/testify/require"
)

// killed returns the directory of a log that was never closed, and the
// positions where its batches start, and end. It has one segment.
func killed(t testing.TB, records ...seglog.Record) (dir string, positions []int64) {
	t.Helper()
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
	appendEach(t, l, records...)
	dir = crash(t, l)
	for _, b := range batchesOf(t, dir, 0) {
		positions = append(positions, b.position)
	}
	return dir, append(positions, fileSize(t, segmentFile(dir, 0, ".log")))
}

// K039
func TestATornTailIsCutBeforeTheFirstAppend(t *testing.T) {
	size := 0
	{
		_, p := killed(t, many(3, 100)...)
		size = int(p[3] - p[2])
	}
	for _, n := range []int{1, 11, 12, 16, 17, 21, 60, 61, 62, size - 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir, positions := killed(t, many(3, 100)...)
			path := segmentFile(dir, 0, ".log")
			require.NoError(t, os.Truncate(path, positions[2]+int64(n)))

			l := openLog(t, dir, seglog.Options{})
			require.Equal(t, positions[2], fileSize(t, path), "the tail is still in the file")
			got := stats(t, l)
			require.Equal(t, int64(2), got.End)
			require.False(t, got.Recovery.Clean)
			require.Len(t, got.Recovery.Cut, 1)
			cut := got.Recovery.Cut[0]
			require.Equal(t, filepath.Base(path), cut.File)
			require.Equal(t, positions[2], cut.Position)
			require.Equal(t, int64(n), cut.Bytes)
			require.Error(t, cut.Reason)

			appendEach(t, l, one(500, "behind the cut"))
			twice := crash(t, l)
			l = reopen(t, l, seglog.Options{})
			for _, l := range []*seglog.Log{l, openLog(t, twice, seglog.Options{})} {
				require.Empty(t, stats(t, l).Recovery.Cut)
				all := readAll(t, l, 0)
				require.Equal(t, span(0, 2), offsetsOf(all))
				require.Equal(t, "behind the cut", string(all[2].Value))
				closeLog(t, l)
				requireSound(t, l.Dir())
			}
		})
	}
}

// K039: what was closed cleanly is not trusted either when its length differs.
func TestATornTailIsCutAlsoBehindACleanClose(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, many(3, 100)...)
	closeLog(t, l)
	path := segmentFile(l.Dir(), 0, ".log")
	require.NoError(t, os.Truncate(path, fileSize(t, path)-1))
	l = openLog(t, l.Dir(), quick)
	require.Equal(t, int64(2), l.Offsets().End)
	require.Len(t, stats(t, l).Recovery.Cut, 1)
	require.Equal(t, span(0, 1), offsetsOf(readAll(t, l, 0)))
}

// A size that claims too much makes a durable batch look like one that a crash kept
// from being written. Its checksum, which does not cover the size, tells.
func TestADurableBatchWithAWrongSizeIsNotATornTail(t *testing.T) {
	l := openLog(t, t.TempDir(), quick)
	appendEach(t, l, many(3, 100)...)
	closeLog(t, l)
	batches := batchesOf(t, l.Dir(), 0)
	edit(t, segmentFile(l.Dir(), 0, ".log"), func(b []byte) []byte {
		b[batches[2].position+9] ^= 1
		return b
	})
	before := readFile(t, segmentFile(l.Dir(), 0, ".log"))
	_, err := seglog.Open(l.Dir(), quick)
	require.ErrorIs(t, err, seglog.ErrCorrupt)
	require.Equal(t, before, readFile(t, segmentFile(l.Dir(), 0, ".log")))
	report, err := seglog.Verify(t.Context(), l.Dir(), seglog.VerifyOptions{})
	require.NoError(t, err)
	require.Equal(t, "bad_size", report.Problems[0].Kind)
	require.Equal(t, seglog.Damage, report.Problems[0].Severity)
}

// K040
func TestZerosBehindTheLastBatchAreCut(t *testing.T) {
	for _, zeros := range []int{1, 5, 16, 17, 61, 4096, 1 << 20} {
		t.Run(fmt.Sprint(zeros), func(t *testing.T) {
			dir, positions := killed(t, many(3, 100)...)
			path := segmentFile(dir, 0, ".log")
			require.NoError(t, os.Truncate(path, positions[3]+int64(zeros)))

			before := traces(t, dir)
			ro := openLog(t, dir, seglog.Options{ReadOnly: true})
			require.Equal(t, span(0, 2), offsetsOf(readAll(t, ro, 0)))
			require.Equal(t, int64(3), ro.Offsets().End)
			closeLog(t, ro)
			requireUntouched(t, dir, before)

			l := openLog(t, dir, quick)
			require.Equal(t, positions[3], fileSize(t, path))
			require.Len(t, stats(t, l).Recovery.Cut, 1)
			require.Equal(t, int64(zeros), stats(t, l).Recovery.Cut[0].Bytes)
			require.Equal(t, int64(3), l.Offsets().End)
			require.Equal(t, span(0, 2), offsetsOf(readAll(t, l, 0)))
		})
	}
}

// K041
func TestOneFlippedBitCostsOneBatchOfASealedSegment(t *testing.T) {
	dir := sealedAndActive(t, 1000)
	path := segmentFile(dir, 0, ".log")
	batches := batchesOf(t, dir, 0)
	bad := batches[5]
	edit(t, path, func(b []byte) []byte {
		b[bad.position+int64(bad.Size())-3] ^= 0x10 // in the value
		return b
	})
	damaged := readFile(t, path)

	for _, readOnly := range []bool{false, true} {
		l := openLog(t, dir, seglog.Options{ReadOnly: readOnly, IndexIntervalBytes: 1})
		require.Empty(t, stats(t, l).Recovery.Cut)

		_, err := l.Get(5)
		var damage *seglog.CorruptionError
		require.ErrorAs(t, err, &damage)
		require.ErrorIs(t, err, seglog.ErrCorrupt)
		require.Equal(t, filepath.Base(path), damage.File)
		require.Equal(t, bad.position, damage.Position)
		require.Equal(t, int64(bad.Size()), damage.Length)
		require.Equal(t, [2]int64{5, 5}, [2]int64{damage.FirstOffset, damage.LastOffset})

		found, all := offsetsFrom(t, l, 0)
		require.Equal(t, spans(span(0, 4), span(6, 19)), found)
		require.Len(t, all, 1)
		for _, o := range found {
			_, err := l.Get(o)
			require.NoError(t, err)
		}
		var until []int64
		for r, err := range l.Records(t.Context(), 0, nil) {
			if err != nil {
				require.ErrorIs(t, err, seglog.ErrCorrupt)
				break
			}
			until = append(until, r.Offset)
		}
		require.Equal(t, span(0, 4), until, "without leave to skip, damage ends an iteration")
		closeLog(t, l)
		require.Equal(t, damaged, readFile(t, path))
	}
}

// K042
func TestALengthThatClaimsTooMuchIsDamageAndNotTheEnd(t *testing.T) {
	const batches = 1000
	build := func(t *testing.T) (dir string, position int64) {
		l := openSized(t, filepath.Join(t.TempDir(), "orders-0"), quick)
		appendEach(t, l, many(batches, 100)...)
		dir = crash(t, l)
		position = batchesOf(t, dir, 0)[10].position
		edit(t, segmentFile(dir, 0, ".log"), func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[position+8:], 0x7fffffff)
			return b
		})
		return dir, position
	}
	t.Run("sealed and synced", func(t *testing.T) {
		dir, position := build(t)
		writeLog(t, dir, batches, plainBatch(t, batches, batches+4))
		removeState(t, dir)
		size := fileSize(t, segmentFile(dir, 0, ".log"))

		for _, readOnly := range []bool{true, false} {
			l := openLog(t, dir, seglog.Options{ReadOnly: readOnly})
			require.Empty(t, stats(t, l).Recovery.Cut)
			require.Equal(t, int64(batches+5), l.Offsets().End)
			found, damage := offsetsFrom(t, l, 0)
			require.NotEmpty(t, damage)
			require.Equal(t, position, damage[0].Position)
			require.Equal(t, size-position, damage[0].Length, "all that is left of the file")
			require.ErrorIs(t, damage[0], seglog.ErrCorrupt)
			require.Equal(t, span(0, 9), found[:10])
			require.Equal(t, span(batches, batches+4), found[len(found)-5:])
			for _, o := range []int64{0, 9, batches, batches + 4} {
				_, err := l.Get(o)
				require.NoError(t, err)
			}
			_, err := l.Get(10)
			require.ErrorIs(t, err, seglog.ErrCorrupt)
			closeLog(t, l)
			require.Equal(t, size, fileSize(t, segmentFile(dir, 0, ".log")))
		}
	})
	t.Run("active, and closed properly", func(t *testing.T) {
		l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
		appendEach(t, l, many(batches, 100)...)
		closeLog(t, l)
		position := batchesOf(t, l.Dir(), 0)[10].position
		edit(t, segmentFile(l.Dir(), 0, ".log"), func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[position+8:], 0x7fffffff)
			return b
		})
		damaged := readFile(t, segmentFile(l.Dir(), 0, ".log"))
		for _, readOnly := range []bool{true, false} {
			l := openLog(t, l.Dir(), seglog.Options{ReadOnly: readOnly})
			require.True(t, stats(t, l).Recovery.Clean)
			require.Equal(t, int64(batches), l.Offsets().End)
			found, damage := offsetsFrom(t, l, 0)
			require.Equal(t, spans(span(0, 9), span(11, batches-1)), found)
			require.Len(t, damage, 1)
			require.Equal(t, position, damage[0].Position)
			_, err := l.Get(10)
			require.ErrorIs(t, err, seglog.ErrCorrupt)
			closeLog(t, l)
			require.Equal(t, damaged, readFile(t, segmentFile(l.Dir(), 0, ".log")))
		}
	})
	t.Run("active and not synced", func(t *testing.T) {
		dir, position := build(t)
		l := openLog(t, dir, quick)
		require.Equal(t, int64(10), l.Offsets().End)
		require.Equal(t, position, stats(t, l).Recovery.Cut[0].Position)
		require.Equal(t, span(0, 9), offsetsOf(readAll(t, l, 0)))
	})
}

// K043, and the claims of "Bad input".
func TestHeadersThatLieAreErrorsAndCostNoMemory(t *testing.T) {
	length := func(v uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[8:], v)
			return b
		}
	}
	count := func(v uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[57:], v)
			return b
		}
	}
	tests := []struct {
		name   string
		change func([]byte) []byte
	}{
		{"length -2147483648", length(0x80000000)},
		{"length -12", length(0xfffffff4)},
		{"length 2147483640", length(0x7ffffff8)},
		{"length 2147483647", length(0x7fffffff)},
		{"length 0", length(0)},
		{"length 13", length(13)},
		{"length 48, less than a header", length(48)},
		{"count -1", count(0xffffffff)},
		{"count 2147483647", count(0x7fffffff)},
		{"count 0 with records", count(0)},
		{"count 5 with none", func(b []byte) []byte {
			b = b[:record.HeaderSize]
			return count(5)(length(uint32(len(b) - 12))(b))
		}},
		{"one more than there are", count(4)},
		{"one less than there are", count(2)},
		{"magic 3", func(b []byte) []byte { b[16] = 3; return b }},
		{"magic -1", func(b []byte) []byte { b[16] = 0xff; return b }},
		{"last offset delta -1", func(b []byte) []byte { binary.BigEndian.PutUint32(b[23:], 0xffffffff); return b }},
	}
	for _, tt := range tests {
		bad := setCRC(tt.change(plainBatch(t, 3, 5)))
		t.Run(tt.name+", sealed", func(t *testing.T) {
			dir := t.TempDir()
			path := writeLog(t, dir, 0, plainBatch(t, 0, 2), bad, plainBatch(t, 6, 8))
			writeLog(t, dir, 9, plainBatch(t, 9, 11))
			for _, readOnly := range []bool{true, false} {
				l := openLog(t, dir, seglog.Options{ReadOnly: readOnly})
				var found []int64
				var damage []*seglog.CorruptionError
				requireLittleMemory(t, func() {
					found, damage = offsetsFrom(t, l, 0)
					if r, err := l.Get(4); err == nil { // its records may be sound
						require.Equal(t, int64(4), r.Offset)
					}
					_, _ = l.Read(0, 1<<20, nil)
					_, _, _ = l.OffsetForTime(4)
					_, _, _ = l.OffsetForTime(seglog.MaxTimestamp)
					_, _ = l.Segments()
				})
				require.NotEmpty(t, damage)
				require.Regexp(t, `position 103\b.* (size|record count|length|magic|last offset) `, damage[0].Error())
				require.Equal(t, filepath.Base(path), damage[0].File)
				require.Equal(t, int64(len(plainBatch(t, 0, 2))), damage[0].Position)
				require.Equal(t, span(0, 2), found[:3])
				require.Subset(t, found, span(9, 11))
				closeLog(t, l)
			}
		})
		t.Run(tt.name+", active", func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 0, plainBatch(t, 0, 2), bad)
			requireLittleMemory(t, func() {
				ro := openLog(t, dir, seglog.Options{ReadOnly: true})
				found, _ := offsetsFrom(t, ro, 0)
				require.Equal(t, span(0, 2), found[:3])
				closeLog(t, ro)
				l := openLog(t, dir, quick)
				appendEach(t, l, one(100, "on"))
				found, _ = offsetsFrom(t, l, 0)
				require.Equal(t, span(0, 2), found[:3])
				_, err := l.Get(l.Offsets().End - 1)
				require.NoError(t, err)
			})
		})
	}
}

func requireLittleMemory(t testing.TB, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
}

// Bad input: a flipped bit in each header field. Neither the base offset nor the
// leader epoch is under the checksum; a base offset that does not fit the segment
// is found all the same, a smaller change of it cannot be.
func TestAFlippedBitAnywhereLeavesTheOtherBatchesReadable(t *testing.T) {
	for byteAt := range record.HeaderSize {
		bad := plainBatch(t, 3, 5)
		bad[byteAt] ^= 0x40
		covered := byteAt >= 8 && byteAt < 12 || byteAt >= 16
		t.Run(fmt.Sprintf("byte %d, sealed", byteAt), func(t *testing.T) {
			dir := t.TempDir()
			first := plainBatch(t, 0, 2)
			writeLog(t, dir, 0, first, bad, plainBatch(t, 6, 8))
			writeLog(t, dir, 9, plainBatch(t, 9, 9))
			l := openLog(t, dir, quick)
			for _, o := range []int64{0, 1, 2, 9} {
				_, err := l.Get(o)
				require.NoError(t, err)
			}
			found, damage := offsetsFrom(t, l, 0)
			require.Subset(t, found, span(0, 2))
			if covered || byteAt < 4 {
				require.NotEmpty(t, damage)
				require.Equal(t, int64(len(first)), damage[0].Position)
				require.NotContains(t, found, int64(4))
				require.Contains(t, found, int64(9))
			}
			// Where the length is right, what follows can be found.
			if covered && byteAt >= 16 || byteAt < 4 {
				require.Equal(t, spans(span(0, 2), span(6, 9)), found)
				for _, o := range found {
					_, err := l.Get(o)
					require.NoError(t, err)
				}
			}
		})
		t.Run(fmt.Sprintf("byte %d, active", byteAt), func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 0, plainBatch(t, 0, 2), bad)
			l := openLog(t, dir, quick)
			found, _ := offsetsFrom(t, l, 0)
			require.Subset(t, found, span(0, 2))
			if covered {
				require.Equal(t, int64(3), l.Offsets().End)
				require.Len(t, stats(t, l).Recovery.Cut, 1)
			}
		})
	}
}

// Damage under a follower that skips it is told once, and then it waits.
func TestAFollowerStepsOverDamageAndWaits(t *testing.T) {
	requireNoLeak(t)
	for _, bad := range []int64{1, 2} { // in the middle, and at the end
		l := openLog(t, t.TempDir(), dense)
		appendEach(t, l, many(3, 1)...)
		batch := batchesOf(t, l.Dir(), 0)[bad]
		f, err := os.OpenFile(segmentFile(l.Dir(), 0, ".log"), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("?"), batch.position+70)
		require.NoError(t, err)
		require.NoError(t, f.Close())

		seen := make(chan int64)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for r, err := range l.Records(context.Background(), 0, &seglog.IterOptions{Follow: true, SkipDamaged: true}) {
				switch {
				case errors.Is(err, seglog.ErrClosed):
					return
				case err != nil:
					seen <- -1
				default:
					seen <- r.Offset
				}
			}
		}()
		var got []int64
		for range 3 {
			got = append(got, <-seen)
		}
		want := []int64{0, 1, 2}
		want[bad] = -1
		require.Equal(t, want, got)
		appendEach(t, l, one(9, "on"))
		require.Equal(t, int64(3), <-seen)
		closeLog(t, l)
		<-done
	}
}

// K044
func TestTheMarkOfACleanCloseIsGoneOnceALogIsOpen(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
	appendEach(t, l, many(5, 100)...)
	l = reopen(t, l, quick)
	require.True(t, stats(t, l).Recovery.Clean)

	// Killed right after opening, and damaged without a change of its length.
	dir := crash(t, l)
	edit(t, segmentFile(dir, 0, ".log"), func(b []byte) []byte {
		b[len(b)-2] ^= 1
		return b
	})
	// It was durable, so it is not what a crash leaves behind: the damage is
	// found, and nothing is cut.
	_, err := seglog.Open(dir, quick)
	var damage *seglog.CorruptionError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, int64(4), damage.FirstOffset)
	ro := openLog(t, dir, seglog.Options{ReadOnly: true})
	require.Equal(t, int64(5), ro.Offsets().End)
	_, err = ro.Get(4)
	require.ErrorAs(t, err, &damage)
}

// K045, with the checkpoint of a broker.
func TestARecoveryPointAheadOfTheDataIsBoundedByIt(t *testing.T) {
	broker := t.TempDir()
	dir := filepath.Join(broker, "orders-0")
	writeLog(t, dir, 0, plainBatch(t, 0, 49))
	writeLog(t, dir, 50, plainBatch(t, 50, 99))
	writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 500\n"))

	l := openSized(t, dir, quick)
	require.Equal(t, int64(100), l.Offsets().End)
	// What is appended below the stored point and not synced is scanned by the
	// next open: damage there is found.
	appendEach(t, l, many(5, 1000)...)
	after := crash(t, l)
	edit(t, segmentFile(after, 50, ".log"), func(b []byte) []byte {
		b[len(b)-2] ^= 1
		return b
	})
	again := openLog(t, after, quick)
	require.Equal(t, int64(104), again.Offsets().End)
	require.Len(t, stats(t, again).Recovery.Cut, 1)
}

// K045: every segment from the recovery point on is scanned, and damage in one
// ends the log there.
func TestRecoveryScansFromTheRecoveryPointOn(t *testing.T) {
	tests := []struct {
		point   int64
		scanned int
	}{{0, 4}, {50, 3}, {99, 3}, {100, 2}, {120, 2}, {150, 1}, {199, 1}, {1000, 1}}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.point), func(t *testing.T) {
			broker := t.TempDir()
			dir := filepath.Join(broker, "orders-0")
			for base := int64(0); base < 200; base += 50 {
				writeLog(t, dir, base, plainBatch(t, base, base+49))
			}
			writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"),
				fmt.Appendf(nil, "0\n1\norders 0 %d\n", tt.point))
			l := openLog(t, dir, quick)
			require.Equal(t, tt.scanned, stats(t, l).Recovery.Scanned)
			require.Equal(t, span(0, 199), offsetsOf(readAll(t, l, 0)))
		})
	}
}

// 13.7, and decision 10: a cut in the middle sets aside what lies behind.
func TestDamageBehindTheRecoveryPointEndsTheLogThere(t *testing.T) {
	broker := t.TempDir()
	dir := filepath.Join(broker, "orders-0")
	for base := int64(0); base < 40; base += 10 {
		writeLog(t, dir, base, plainBatch(t, base, base+4), plainBatch(t, base+5, base+9))
	}
	writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 10\n"))
	behind := readFile(t, segmentFile(dir, 20, ".log"))
	edit(t, segmentFile(dir, 10, ".log"), func(b []byte) []byte {
		b[len(b)-2] ^= 1
		return b
	})
	l := openLog(t, dir, quick)
	st := stats(t, l)
	require.Equal(t, int64(15), st.End)
	require.Equal(t, span(0, 14), offsetsOf(readAll(t, l, 0)))
	require.Len(t, st.Recovery.Cut, 1)
	require.ElementsMatch(t, []string{"00000000000000000020.log.cut", "00000000000000000030.log.cut"}, logsOnly(st.Recovery.SetAside))
	require.Equal(t, behind, readFile(t, segmentFile(dir, 20, ".log.cut")))
	appendEach(t, l, many(10, 500)...)
	l = reopen(t, l, quick)
	require.Equal(t, span(0, 24), offsetsOf(readAll(t, l, 0)))
	closeLog(t, l)
	requireSound(t, dir)
}

// What was set aside by one recovery is not overwritten by the next, be it cut at the
// same position or a whole segment of the same name.
func TestWhatWasSetAsideOnceIsNeverOverwritten(t *testing.T) {
	t.Run("what was cut off", func(t *testing.T) {
		dir := t.TempDir()
		kept := map[string][]byte{}
		for round := range 3 {
			l := openLog(t, dir, quick)
			for i := l.Offsets().End; i < 10; i++ {
				appendEach(t, l, one(100+i, fmt.Sprint("round ", round)))
			}
			closeLog(t, l)
			removeState(t, dir) // a crash, and it is not known what was durable
			path := segmentFile(dir, 0, ".log")
			bad := batchesOf(t, dir, 0)[5].position
			edit(t, path, func(b []byte) []byte {
				b[bad+70] ^= 1
				return b
			})
			tail := readFile(t, path)[bad:]
			l = openLog(t, dir, quick)
			aside := stats(t, l).Recovery.SetAside
			require.Len(t, aside, 1)
			require.NotContains(t, kept, aside[0])
			kept[aside[0]] = tail
			closeLog(t, l)
			for name, content := range kept {
				require.Equal(t, content, readFile(t, filepath.Join(dir, name)))
			}
		}
	})
	t.Run("whole segments", func(t *testing.T) {
		broker := t.TempDir()
		dir := filepath.Join(broker, "orders-0")
		writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 0\n"))
		for _, batch := range []int64{10, 11} {
			bad := plainBatch(t, 0, 4)
			bad[len(bad)-2] ^= 1
			writeLog(t, dir, 0, bad)
			writeLog(t, dir, 10, plainBatch(t, batch, 15))
			removeState(t, dir)
			closeLog(t, openLog(t, dir, quick))
		}
		require.Equal(t, plainBatch(t, 10, 15), readFile(t, segmentFile(dir, 10, ".log.cut")))
		require.Equal(t, plainBatch(t, 11, 15), readFile(t, segmentFile(dir, 10, ".log.2.cut")))
	})
}

func logsOnly(names []string) []string {
	var logs []string
	for _, n := range names {
		if strings.HasSuffix(n, ".log.cut") {
			logs = append(logs, n)
		}
	}
	return logs
}

// K047
func TestOneBadIndexDoesNotMakeOpeningReadTheWholeLog(t *testing.T) {
	opts := dense
	opts.SegmentIndexBytes = 1000
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), opts)
	w := &writer{t: t, log: l, id: 1}
	for base := int64(0); base < 200; base += 10 {
		w.send(1)
		for _, r := range many(9, 1001+base) {
			r.Value = noise(4000)
			appendEach(t, l, r)
		}
		if base < 190 {
			roll(t, l)
			waitForRecoveryPoint(t, l, base+10)
		}
	}
	require.NoError(t, l.Sync())
	dir := crash(t, l)
	edit(t, segmentFile(dir, 0, ".index"), func(b []byte) []byte { return b[:13] })
	snapshots := snapshotsOf(t, dir)
	require.Len(t, snapshots, 19)
	counted := &meter{FS: vfs.OS}
	opts.FS = counted
	again := openLog(t, dir, opts)
	require.Equal(t, 1, stats(t, again).Recovery.Scanned)
	segment := fileSize(t, segmentFile(dir, 0, ".log"))
	require.Less(t, counted.bytes.Load(), 3*segment, "one to recover, and that again to be written anew")
	r, err := again.Get(7)
	require.NoError(t, err)
	require.Equal(t, int64(1007), r.Timestamp)
	require.Less(t, counted.bytes.Load(), 6*segment, "one for its index, and what is mapped counts, too")
	require.Equal(t, snapshots, snapshotsOf(t, dir))
	require.Equal(t, span(0, 199), offsetsOf(readAll(t, again, 0)))
}

// Decision 7: a clean close lets the next open skip all scanning, wherever the
// log ends.
func TestACleanCloseIsRecognised(t *testing.T) {
	tests := []struct {
		name  string
		leave func(t *testing.T, l *seglog.Log)
	}{
		{"empty", func(*testing.T, *seglog.Log) {}},
		{"with records", func(t *testing.T, l *seglog.Log) { appendEach(t, l, many(5, 1)...) }},
		{"rolled", func(t *testing.T, l *seglog.Log) {
			appendEach(t, l, many(5, 1)...)
			_, err := l.Roll()
			require.NoError(t, err)
		}},
		{"truncated", func(t *testing.T, l *seglog.Log) {
			appendEach(t, l, many(5, 1)...)
			require.NoError(t, l.TruncateTo(3))
		}},
		{"truncated to nothing", func(t *testing.T, l *seglog.Log) {
			appendEach(t, l, many(5, 1)...)
			require.NoError(t, l.TruncateFullyAndStartAt(77))
		}},
		{"started later", func(t *testing.T, l *seglog.Log) {
			appendEach(t, l, many(5, 1)...)
			require.NoError(t, l.DeleteBefore(2))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openLog(t, t.TempDir(), quick)
			tt.leave(t, l)
			was := l.Offsets()
			l = reopen(t, l, quick)
			st := stats(t, l)
			require.True(t, st.Recovery.Clean)
			require.Zero(t, st.Recovery.Scanned)
			require.Equal(t, seglog.Offsets{Start: was.Start, Durable: was.End, End: was.End}, st.Offsets)
		})
	}
}

// A log start inside a segment is in no file but the state's, so that is kept twice.
func TestALogStartIsNotForgottenWithOneStateFile(t *testing.T) {
	spoil := map[string]func(t *testing.T, path string){
		"lost":    func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"one bit": func(t *testing.T, path string) { edit(t, path, func(b []byte) []byte { b[len(b)-3] ^= 1; return b }) },
	}
	for how, spoil := range spoil {
		for _, name := range []string{"seglog.state", "seglog.state.copy"} {
			t.Run(name+", "+how, func(t *testing.T) {
				l := openLog(t, t.TempDir(), quick)
				appendEach(t, l, many(10, 100)...)
				require.NoError(t, l.DeleteBefore(8))
				closeLog(t, l)
				spoil(t, filepath.Join(l.Dir(), name))
				for _, readOnly := range []bool{true, false} {
					l = openLog(t, l.Dir(), seglog.Options{ReadOnly: readOnly})
					got := stats(t, l)
					require.Equal(t, int64(8), got.Start)
					require.True(t, got.Recovery.Clean)
					require.False(t, got.Recovery.StateLost)
					closeLog(t, l)
				}
				require.Equal(t, readFile(t, filepath.Join(l.Dir(), "seglog.state")), readFile(t, filepath.Join(l.Dir(), "seglog.state.copy")))
			})
		}
	}
}

// When both are gone it says so, unless there was nothing to forget, or a broker
// knows.
func TestALostStateIsReported(t *testing.T) {
	build := func(t *testing.T, dir string) {
		l := openLog(t, dir, quick)
		appendEach(t, l, many(10, 100)...)
		require.NoError(t, l.DeleteBefore(8))
		closeLog(t, l)
		removeState(t, dir)
	}
	requireLost := func(t *testing.T, dir string, lost bool, start int64) {
		t.Helper()
		for _, readOnly := range []bool{true, false} {
			l := openLog(t, dir, seglog.Options{ReadOnly: readOnly})
			require.Equal(t, lost, stats(t, l).Recovery.StateLost)
			require.Equal(t, start, l.Offsets().Start)
			closeLog(t, l)
		}
		l := openLog(t, dir, quick)
		require.False(t, stats(t, l).Recovery.StateLost, "once is enough")
		closeLog(t, l)
	}
	t.Run("both are gone", func(t *testing.T) {
		dir := t.TempDir()
		build(t, dir)
		requireLost(t, dir, true, 0)
	})
	t.Run("a broker never had one", func(t *testing.T) {
		dir := t.TempDir()
		writeLog(t, dir, 0, plainBatch(t, 0, 9))
		requireLost(t, dir, false, 0)
	})
	t.Run("the broker's checkpoint tells", func(t *testing.T) {
		broker := t.TempDir()
		dir := filepath.Join(broker, "orders-0")
		build(t, dir)
		writeFile(t, filepath.Join(broker, "log-start-offset-checkpoint"), []byte("0\n1\norders 0 7\n"))
		requireLost(t, dir, false, 7)
	})
	t.Run("an empty log", func(t *testing.T) {
		dir := t.TempDir()
		closeLog(t, openLog(t, dir, quick))
		removeState(t, dir)
		requireLost(t, dir, false, 0)
	})
}

// twentyInSegments is a closed log of 20 records in segments of a few, all durable, and
// the base offset of its last segment.
func twentyInSegments(t *testing.T) (dir string, last int64) {
	l := openLog(t, t.TempDir(), seglog.Options{SegmentBytes: 300}) // of three or four batches each
	appendEach(t, l, many(20, 100)...)
	all := bases(t, l)
	closeLog(t, l)
	return l.Dir(), all[len(all)-1]
}

func removeSegment(t *testing.T, dir string, base int64) {
	for _, kind := range []string{".log", ".index", ".timeindex"} {
		require.NoError(t, os.Remove(segmentFile(dir, base, kind)))
	}
}

// Where one of two batches has a wrong base offset, and nobody can say which, readers get
// neither. Nor does what was repaired or recovered have one of them, under an offset that
// is perhaps not its own.
func TestOfTwoBatchesThatContradictEachOtherNoneIsKept(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{})
	for _, offset := range []int64{5, 8, 14, 15, 21, 22, 32, 35} { // as after a compaction
		_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: offset}, at(offset, offset, fmt.Sprint(offset))), nil)
		require.NoError(t, err)
	}
	roll(t, l)
	all := bases(t, l)
	base := all[len(all)-2]
	closeLog(t, l)
	moved := batchesOf(t, l.Dir(), base)[4]
	require.Equal(t, int64(21), moved.BaseOffset())
	edit(t, segmentFile(l.Dir(), base, ".log"), func(b []byte) []byte { b[moved.position+7] = 29; return b })
	requireRead := func(dir string) {
		t.Helper()
		l := openLog(t, dir, quick)
		defer closeLog(t, l)
		var found []int64
		for r, err := range l.Records(t.Context(), l.Offsets().Start, &seglog.IterOptions{SkipDamaged: true}) {
			if err == nil {
				require.Equal(t, fmt.Sprint(r.Offset), string(r.Value))
				found = append(found, r.Offset)
			}
		}
		require.Equal(t, []int64{5, 8, 14, 15, 32, 35}, found)
	}
	requireRead(l.Dir())
	fresh := filepath.Join(t.TempDir(), "fresh")
	_, err := seglog.Recover(t.Context(), l.Dir(), fresh, seglog.RecoverOptions{SkipBadBatches: true})
	require.NoError(t, err)
	requireRead(fresh)
	report, err := seglog.Repair(t.Context(), l.Dir(), seglog.RepairOptions{Apply: true})
	require.NoError(t, err)
	require.Len(t, report.Removed, 1, "they follow each other")
	requireRead(l.Dir())
	requireSound(t, l.Dir())
}

// A failed sync may have left what is seen here in memory only, and nobody would write it
// again but Repair, which marks it as durable.
func TestWhatAFailedSyncLeftInMemoryIsWrittenAgainByRepair(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := seglog.Options{FS: disk.FS()}
	l, err := seglog.Open("log", opts)
	require.NoError(t, err)
	appendEach(t, l, many(5, 0)...)
	disk.FailAndForget(logtest.Calls{Kind: logtest.Sync, Name: "*.log"}, syscall.EIO)
	_, err = l.Append(many(5, 5), nil)
	require.ErrorIs(t, err, seglog.ErrFailed)
	_ = l.Close()
	disk.Heal()
	require.NoError(t, disk.WriteFile("log/00000000000000000000.index", []byte("garbage!")))
	report, err := seglog.Repair(t.Context(), "log", seglog.RepairOptions{FS: disk.FS(), Apply: true})
	require.NoError(t, err)
	require.True(t, report.Applied)
	l, err = seglog.Open("log", opts)
	require.NoError(t, err)
	require.Equal(t, int64(10), l.Offsets().Durable)
	appendEach(t, l, many(3, 10)...)
	for state := range disk.States(50, 1) {
		o := opts
		o.FS = state.FS()
		l, err := seglog.Open("log", o)
		require.NoError(t, err, "%s", state)
		require.Equal(t, int64(13), l.Offsets().End, "%s", state)
		require.NoError(t, l.Close())
	}
	require.NoError(t, l.Close())
}

// All below the log start was synced before it moved there: damage among the deleted
// records does not end the log before those that are not.
func TestDamageBelowTheLogStartCostsNothingAboveIt(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{})
	appendEach(t, l, many(20, 100)...)
	require.NoError(t, l.DeleteBefore(10))
	appendEach(t, l, many(1, 120)...)
	dir := crash(t, l)
	third := batchesOf(t, dir, 0)[3].position
	edit(t, segmentFile(dir, 0, ".log"), func(b []byte) []byte { b[third+65] ^= 1; return b })
	before := traces(t, dir)
	_, err := seglog.Open(dir, quick)
	require.ErrorIs(t, err, seglog.ErrCorrupt)
	requireUntouched(t, dir, before)
	_, err = seglog.Repair(t.Context(), dir, seglog.RepairOptions{Apply: true})
	require.NoError(t, err)
	again := openLog(t, dir, quick)
	require.Equal(t, seglog.Offsets{Start: 10, Durable: 21, End: 21}, again.Offsets())
	require.Equal(t, span(10, 20), offsetsOf(readAll(t, again, 10)))
}

// What was durable at the end and is gone without a trace is not taken for the end of
// the log: its offsets would be given out again.
func TestALogWhoseEndIsMissingIsRefused(t *testing.T) {
	harm := map[string]func(t *testing.T) (dir string, end int64){
		"the last segment is gone": func(t *testing.T) (string, int64) {
			dir, last := twentyInSegments(t)
			removeSegment(t, dir, last)
			return dir, last
		},
		"only its log is gone": func(t *testing.T) (string, int64) {
			dir, last := twentyInSegments(t)
			require.NoError(t, os.Remove(segmentFile(dir, last, ".log")))
			return dir, last
		},
		"it is cut between two batches": func(t *testing.T) (string, int64) {
			dir, last := twentyInSegments(t)
			all := batchesOf(t, dir, last)
			require.NoError(t, os.Truncate(segmentFile(dir, last, ".log"), all[1].position))
			return dir, all[1].BaseOffset()
		},
		"it is cut within a batch, and that was not the last": func(t *testing.T) (string, int64) {
			dir, last := twentyInSegments(t)
			all := batchesOf(t, dir, last)
			require.NoError(t, os.Truncate(segmentFile(dir, last, ".log"), all[1].position-1))
			return dir, last
		},
		"it is cut within the header of a batch": func(t *testing.T) (string, int64) {
			dir, last := twentyInSegments(t)
			require.NoError(t, os.Truncate(segmentFile(dir, last, ".log"), 20))
			return dir, last
		},
		"it ends in zeros": func(t *testing.T) (string, int64) {
			dir, last := twentyInSegments(t)
			all := batchesOf(t, dir, last)
			edit(t, segmentFile(dir, last, ".log"), func(b []byte) []byte { clear(b[all[1].position:]); return b })
			return dir, all[1].BaseOffset()
		},
		"it is empty": func(t *testing.T) (string, int64) {
			dir, last := twentyInSegments(t)
			require.NoError(t, os.Truncate(segmentFile(dir, last, ".log"), 0))
			return dir, last
		},
		"the last segment of a killed process is gone": func(t *testing.T) (string, int64) {
			l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), seglog.Options{SegmentBytes: 2000})
			appendEach(t, l, many(100, 100)...)
			all := bases(t, l)
			last := all[len(all)-1]
			waitForRecoveryPoint(t, l, last+10) // within the active segment, and it is synced
			dir := crash(t, l)
			removeSegment(t, dir, last)
			return dir, last
		},
	}
	for name, harm := range harm {
		t.Run(name, func(t *testing.T) {
			dir, end := harm(t)
			for range 2 {
				_, err := seglog.Open(dir, quick)
				require.ErrorIs(t, err, seglog.ErrCorrupt)
				var missing *seglog.MissingEndError
				require.ErrorAs(t, err, &missing)
				require.Equal(t, end, missing.End)
				require.Greater(t, missing.Want, end)
			}
			var missing *seglog.MissingEndError
			_, err := seglog.Open(dir, quick)
			require.ErrorAs(t, err, &missing)
			want := missing.Want

			report, err := seglog.Verify(t.Context(), dir, seglog.VerifyOptions{})
			require.NoError(t, err)
			require.Positive(t, report.Damage, "%v", report.Problems) // indexes may know of what is missing
			require.True(t, slices.ContainsFunc(report.Problems, func(p seglog.Problem) bool {
				return p.Kind == "missing_end" && p.Offset == end && p.Severity == seglog.Damage
			}), "%v", report.Problems)

			ro := openLog(t, dir, seglog.Options{ReadOnly: true})
			require.Equal(t, span(0, end-1), offsetsOf(readAll(t, ro, 0)), "what is there can be read")
			closeLog(t, ro)

			// One way out: a copy of what is there.
			fresh := filepath.Join(t.TempDir(), "fresh")
			_, err = seglog.Recover(t.Context(), dir, fresh, seglog.RecoverOptions{})
			require.NoError(t, err)
			l := openLog(t, fresh, quick)
			require.Equal(t, span(0, end-1), offsetsOf(readAll(t, l, 0)))
			closeLog(t, l)

			// The other: to accept the loss. No offset is given out twice.
			repaired, err := seglog.Repair(t.Context(), dir, seglog.RepairOptions{})
			require.NoError(t, err)
			require.True(t, repaired.Needed())
			if len(repaired.Removed) == 0 { // what is left of a batch tells, too
				require.Equal(t, seglog.OffsetRange{First: end, Next: want}, repaired.Missing)
			}
			_, err = seglog.Open(dir, quick)
			require.ErrorIs(t, err, seglog.ErrCorrupt, "so far it was only said")
			_, err = seglog.Repair(t.Context(), dir, seglog.RepairOptions{Apply: true})
			require.NoError(t, err)
			l = openLog(t, dir, quick)
			require.Equal(t, want, l.Offsets().End)
			require.Equal(t, span(0, end-1), offsetsOf(readAll(t, l, 0)))
			appendEach(t, l, one(500, "on"))
			closeLog(t, l)
			requireSound(t, dir)
			repaired, err = seglog.Repair(t.Context(), dir, seglog.RepairOptions{})
			require.NoError(t, err)
			require.False(t, repaired.Needed())
		})
	}
}

// What is expected at the end follows truncation, also into the middle of a batch.
func TestATruncatedLogIsNotMissingItsEnd(t *testing.T) {
	for name, cut := range map[string]func(l *seglog.Log) error{
		"to an offset":          func(l *seglog.Log) error { return l.TruncateTo(7) },
		"inside a batch":        func(l *seglog.Log) error { return l.TruncateTo(12) },
		"to nothing":            func(l *seglog.Log) error { return l.TruncateFullyAndStartAt(4) },
		"to nothing, and above": func(l *seglog.Log) error { return l.TruncateFullyAndStartAt(400) },
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
			appendEach(t, l, many(10, 100)...)
			_, err := l.Append(many(5, 200), nil)
			require.NoError(t, err)
			l = reopen(t, l, quick) // the end is durable, and known to be
			require.NoError(t, cut(l))
			want := l.Offsets()
			again := openLog(t, crash(t, l), quick)
			waitForTail(t, again)
			require.Equal(t, want, again.Offsets())
		})
	}
}

// Not only a roll and a close tell what is durable: within a segment the recovery point
// follows, too. What a killed process had synced is then not taken for a torn end.
func TestTheRecoveryPointFollowsWithinASegment(t *testing.T) {
	opts := seglog.Options{SegmentBytes: 40_000}
	l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), opts)
	appendEach(t, l, many(300, 100)...)
	require.Len(t, bases(t, l), 1)
	waitForRecoveryPoint(t, l, 130) // after the first quarter of a segment
	dir := crash(t, l)
	sound := copyDir(t, dir, filepath.Join(t.TempDir(), "sound"))
	bad := batchesOf(t, dir, 0)[100]
	edit(t, segmentFile(dir, 0, ".log"), func(b []byte) []byte {
		b[bad.position+70] ^= 1
		return b
	})
	_, err := seglog.Open(dir, opts)
	var damage *seglog.CorruptionError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, int64(100), damage.FirstOffset)

	l = openLog(t, sound, opts)
	require.Equal(t, span(0, 299), offsetsOf(readAll(t, l, 0)))
}

// A base offset is not under the checksum. Recovery does not take a batch for good
// whose base offset was changed upwards, and the ones behind it for bad: the log would
// give out its records under the offsets of others.
func TestRecoveryTellsABatchThatWasMovedUp(t *testing.T) {
	l := openSized(t, t.TempDir(), quick)
	appendEach(t, l, many(10, 0)...)
	dir := crash(t, l)
	edit(t, segmentFile(dir, 0, ".log"), func(b []byte) []byte {
		b[5*len(b)/10+7] |= 0x40 // offset 5 is 69 now
		return b
	})
	l = openLog(t, dir, quick)
	require.Equal(t, int64(5), l.Offsets().End)
	require.Equal(t, span(0, 4), offsetsOf(readAll(t, l, 0)))
	cut := stats(t, l).Recovery.Cut
	require.Len(t, cut, 1)
	require.ErrorContains(t, cut[0].Reason, "base offset 69, and the next batch begins at 6")
	require.Len(t, stats(t, l).Recovery.SetAside, 1, "the ones behind are good, and kept")
}

// What old brokers wrote between batches of today has no leader epoch, and
// takes none away.
func TestLeaderEpochsAreFoundAmongOldFormats(t *testing.T) {
	batch := func(offset int64, epoch int32) []byte {
		return batchAt(t, record.BuilderOptions{BaseOffset: offset, LeaderEpoch: epoch}, at(offset, 1, "v"))
	}
	dir := t.TempDir()
	writeLog(t, dir, 0, legacyMessage(0, 0, 0, 0, nil, []byte("0")), batch(1, 3), legacyMessage(1, 2, 5, 0, nil, []byte("2")),
		batch(3, 3), batch(4, 5))
	opts := quick
	opts.Replicated = true
	for range 2 {
		l := openLog(t, dir, opts)
		require.Equal(t, int32(5), l.LeaderEpoch())
		require.Equal(t, seglog.EpochEnd{Epoch: 3, EndOffset: 4}, l.EndOffsetForEpoch(3))
		require.Equal(t, seglog.EpochEnd{Epoch: 5, EndOffset: 5}, l.EndOffsetForEpoch(5))
		_, err := l.SetHighWatermark(5)
		require.NoError(t, err)
		require.Equal(t, span(0, 4), offsetsOf(readAll(t, l, 0)))
		closeLog(t, l)
	}
}

// everything is the content of all files of a directory.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			all[e.Name()] = string(readFile(t, filepath.Join(dir, e.Name())))
		}
	}
	return all
}

// A log that is refused stays as it is: indexes, leftovers, marks of how it was closed,
// and the directory around it.
func TestARefusedOpenChangesNothing(t *testing.T) {
	flip := func(t *testing.T, dir string, base int64) {
		edit(t, segmentFile(dir, base, ".log"), func(b []byte) []byte {
			b[len(b)/2-2] ^= 1
			return b
		})
	}
	clutter := func(t *testing.T, dir string) {
		for _, name := range []string{"00000000000000000001.log.deleted", "00000000000000000077.index", "00000000000000000000.log.cleaned"} {
			writeFile(t, filepath.Join(dir, name), []byte("leftover"))
		}
	}
	tests := map[string]func(t *testing.T) (dir string, opts seglog.Options){
		"damage of what a killed process had on disk": func(t *testing.T) (string, seglog.Options) {
			l := openSized(t, filepath.Join(t.TempDir(), "orders-0"), seglog.Options{SegmentBytes: 2000})
			appendEach(t, l, many(100, 100)...)
			all := bases(t, l)
			waitForRecoveryPoint(t, l, all[len(all)-1]+15) // above the middle of 25 records
			dir := crash(t, l)
			flip(t, dir, all[len(all)-1])
			clutter(t, dir)
			return dir, quick
		},
		"damage of a log that was closed and has another size": func(t *testing.T) (string, seglog.Options) {
			l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
			appendEach(t, l, many(10, 100)...)
			closeLog(t, l)
			flip(t, l.Dir(), 0)
			edit(t, segmentFile(l.Dir(), 0, ".log"), func(b []byte) []byte { return append(b, 0) })
			return l.Dir(), quick
		},
		"an offset that does not fit the segment": func(t *testing.T) (string, seglog.Options) {
			l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
			appendEach(t, l, many(10, 100)...)
			closeLog(t, l)
			edit(t, segmentFile(l.Dir(), 0, ".log"), func(b []byte) []byte {
				b[len(b)/2+1] ^= 1 // of the base offset of a batch
				return append(b, 0)
			})
			return l.Dir(), quick
		},
		"a missing end": func(t *testing.T) (string, seglog.Options) {
			l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), quick)
			appendEach(t, l, many(10, 100)...)
			closeLog(t, l)
			edit(t, segmentFile(l.Dir(), 0, ".log"), func(b []byte) []byte { return b[:len(b)/2] })
			return l.Dir(), quick
		},
		"damage in a directory that Kafka has written": func(t *testing.T) (string, seglog.Options) {
			broker := t.TempDir()
			dir := filepath.Join(broker, "orders-0")
			writeLog(t, dir, 0, plainBatch(t, 0, 9), plainBatch(t, 10, 19), plainBatch(t, 20, 29))
			writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 30\n"))
			writeFile(t, filepath.Join(broker, ".kafka_cleanshutdown"), []byte(`{"version":0,"brokerEpoch":5}`))
			flip(t, dir, 0)
			return dir, quick
		},
		"a cut that was not asked for": func(t *testing.T) (string, seglog.Options) {
			dir := copyDir(t, filepath.Join("testdata", "kafka", "4.3.1-killed", "flipped-0"), filepath.Join(t.TempDir(), "flipped-0"))
			return dir, seglog.Options{RefuseCut: true}
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			dir, opts := prepare(t)
			writeFile(t, filepath.Join(dir, "notes"), nil)
			before, around := everything(t, dir), everything(t, filepath.Dir(dir))
			for range 2 {
				_, err := seglog.Open(dir, opts)
				require.ErrorIs(t, err, seglog.ErrCorrupt)
				require.Equal(t, before, everything(t, dir))
				parent := everything(t, filepath.Dir(dir))
				delete(parent, ".lock") // which a broker always has there
				require.Equal(t, around, parent)
			}
		})
	}
}

// Good batches that a crash has left behind damage are cut off only if that is wanted.
func TestRefuseCutKeepsGoodBatches(t *testing.T) {
	killed := filepath.Join("testdata", "kafka", "4.3.1-killed")
	dir := copyDir(t, filepath.Join(killed, "flipped-0"), filepath.Join(t.TempDir(), "flipped-0"))
	_, err := seglog.Open(dir, seglog.Options{RefuseCut: true})
	var damage *seglog.CorruptionError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, int64(15), damage.FirstOffset)
	l := openLog(t, dir, seglog.Options{})
	require.Len(t, stats(t, l).Recovery.SetAside, 1)

	// What is merely incomplete is no reason.
	torn := copyDir(t, filepath.Join(killed, "torn-0"), filepath.Join(t.TempDir(), "torn-0"))
	l = openLog(t, torn, seglog.Options{RefuseCut: true})
	require.Len(t, stats(t, l).Recovery.Cut, 1)
	require.Empty(t, stats(t, l).Recovery.SetAside)
}
