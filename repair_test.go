package seglog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
	"github.com/seglog/seglog/record"
)

// repaired repairs v, and holds what was done against what was announced.
func (v verifyLog) repaired() RepairReport {
	v.t.Helper()
	before := contents(v.t, v.dir, "*")
	planned, err := Repair(v.t.Context(), v.dir, RepairOptions{IndexIntervalBytes: 1})
	require.NoError(v.t, err)
	require.False(v.t, planned.Applied)
	require.Equal(v.t, before, contents(v.t, v.dir, "*"), "a dry run changes nothing")
	done, err := Repair(v.t.Context(), v.dir, RepairOptions{IndexIntervalBytes: 1, Apply: true})
	require.NoError(v.t, err)
	require.Equal(v.t, planned.Needed(), done.Applied)
	planned.Applied = done.Applied
	require.Equal(v.t, planned, done)
	for _, d := range done.Removed {
		if d.SavedAs == "" {
			require.Equal(v.t, "zero_tail", d.Kind)
			continue
		}
		saved := v.read(d.SavedAs)
		require.Equal(v.t, before[d.File][d.Position:d.Position+d.Length], string(saved))
		sum := sha256.Sum256(saved)
		require.Equal(v.t, hex.EncodeToString(sum[:]), d.SHA256)
	}
	after := contents(v.t, v.dir, "*")
	again, err := Repair(v.t.Context(), v.dir, RepairOptions{IndexIntervalBytes: 1, Apply: true})
	require.NoError(v.t, err)
	require.False(v.t, again.Needed(), "%+v", again)
	require.Equal(v.t, after, contents(v.t, v.dir, "*"), "a second time there is nothing to do")
	return done
}

// K101, K041: bytes are taken out when that is asked for, are kept, and good
// batches are not touched.
func TestRepairTakesOutWhatIsBadAndKeepsIt(t *testing.T) {
	v := newVerifyLog(t, 30, 2, 800)
	clean := batchesIn(t, v.dir)
	bases := segmentBases(t, v.dir)
	require.Greater(t, len(bases), 2)
	middle := layout.LogName(bases[1])
	starts := positions(t, v.read(middle))
	v.edit(middle, flip(starts[2]+70, 2))
	v.edit(middle, func(b []byte) []byte { return append(b, "junk at the end"...) })
	untouched := contents(t, v.dir, layout.LogName(bases[0]))

	r := v.repaired()
	require.Len(t, r.Removed, 2)
	bad, junk := r.Removed[0], r.Removed[1]
	require.Equal(t, [2]int64{starts[2], starts[3] - starts[2]}, [2]int64{bad.Position, bad.Length})
	require.Equal(t, [2]int64{bases[1] + 4, bases[1] + 5}, [2]int64{bad.FirstOffset, bad.LastOffset})
	require.Equal(t, "crc_mismatch", bad.Kind)
	require.Equal(t, fmt.Sprintf("%s.%d.%s.cut", middle, starts[2], bad.SHA256[:16]), bad.SavedAs)
	require.Equal(t, "junk at the end", string(v.read(junk.SavedAs)))
	require.Equal(t, "no offsets", junk.Offsets())
	require.Equal(t, []string{layout.OffsetIndexName(bases[1]), layout.TimeIndexName(bases[1])}, r.Rebuilt)

	clean[bases[1]] = slices.Delete(clean[bases[1]], 2, 3)
	require.Equal(t, clean, batchesIn(t, v.dir))
	require.Equal(t, untouched, contents(t, v.dir, layout.LogName(bases[0])))
	report := noDamage(t, v.dir)
	require.Equal(t, [3]int64{report.Batches, report.Records, report.ReadableBelow}, [3]int64{r.Batches, r.Records, r.End})
	require.Equal(t, [3]int64{29, 58, 60}, [3]int64{r.Batches, r.Records, r.End})

	l, err := Open(v.dir, Options{})
	require.NoError(t, err)
	defer l.Close()
	s, err := l.Stats()
	require.NoError(t, err)
	require.True(t, s.Recovery.Clean)
	_, err = l.Get(bases[1] + 4)
	var gap *GapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, bases[1]+6, gap.Next)
}

func TestOfASoundLogRepairChangesNothing(t *testing.T) {
	v := newVerifyLog(t, 30, 2, 800)
	before := contents(t, v.dir, "*")
	r := v.repaired()
	require.False(t, r.Needed())
	require.Empty(t, r.Left)
	require.Equal(t, before, contents(t, v.dir, "*"))
	for _, root := range kafkaDirs {
		for _, from := range partitions(t, root) {
			v := copyVerifyLog(t, from)
			before := contents(t, v.dir, "*")
			require.Empty(t, v.repaired().Rebuilt, from)
			require.Equal(t, before, contents(t, v.dir, "*"))
		}
	}
}

// inMemory is a disk with a log of these files.
func inMemory(t require.TestingT, files map[string]string) *crashfs.FS {
	disk := crashfs.New(crashfs.Options{})
	require.NoError(t, disk.MkdirAll("log", 0o755))
	for name, data := range files {
		require.NoError(t, writeWhole(disk, filepath.Join("log", name), []byte(data)))
	}
	return disk
}

// mend repairs a log in memory, and returns it after making sure of it.
func mend(t require.TestingT, disk *crashfs.FS) RepairReport {
	o := RepairOptions{FS: disk, Apply: true, IndexIntervalBytes: 1, Jobs: 1}
	r, err := Repair(context.Background(), "log", o)
	require.NoError(t, err)
	report, err := Verify(context.Background(), "log", VerifyOptions{FS: disk, Jobs: 1})
	require.NoError(t, err)
	require.Zero(t, report.Damage, "%v", lines(report))
	require.Equal(t, report.Records, r.Records)
	again, err := Repair(context.Background(), "log", o)
	require.NoError(t, err)
	require.False(t, again.Needed(), "%+v", again)
	return r
}

// Whatever bit of a log flips, the repaired log has no damage, and all batches but
// one, or all of them.
func TestRepairOfEveryFlippedBit(t *testing.T) {
	t.Parallel()
	v := newVerifyLog(t, 4, 2, 0)
	clean, files := v.read(firstLog), contents(t, v.dir, "*")
	starts := positions(t, clean)
	const victim = 1
	for at := starts[victim]; at < starts[victim+1]; at++ {
		for bit := range 8 {
			files[firstLog] = string(flip(at, bit)(slices.Clone(clean)))
			disk := inMemory(t, files)
			mend(t, disk)
			repaired, err := vfs.ReadFile(disk, filepath.Join("log", firstLog), 1<<20)
			require.NoError(t, err)
			for _, n := range []int{0, 2, 3} {
				require.Contains(t, string(repaired), string(clean[starts[n]:starts[n+1]]), "byte %d bit %d", at-starts[victim], bit)
			}
		}
	}
}

// However a log is damaged, it is sound when repaired, what was taken out is kept,
// and repairing it again finds nothing.
func TestRepairOfAnyDamage(t *testing.T) {
	sound := contents(t, newVerifyLog(t, 24, 2, 800).dir, "*")
	rapid.Check(t, func(t *rapid.T) {
		files := maps.Clone(sound)
		for range rapid.IntRange(1, 6).Draw(t, "faults") {
			spoil(t, files)
		}
		disk := inMemory(t, files)
		r := mend(t, disk)
		for _, d := range r.Removed {
			if d.SavedAs != "" {
				saved, err := vfs.ReadFile(disk, filepath.Join("log", d.SavedAs), 1<<20)
				require.NoError(t, err)
				require.Equal(t, files[d.File][d.Position:d.Position+d.Length], string(saved))
			}
		}
		l, err := Open("log", Options{FS: disk, SegmentIndexBytes: 4096})
		require.NoError(t, err)
		defer l.Close()
		got := int64(0)
		for _, err := range l.Records(context.Background(), l.Offsets().Start, nil) {
			require.NoError(t, err)
			got++
		}
		require.Equal(t, r.Records, got)
		require.Equal(t, r.End, l.Offsets().End)
	})
}

// Whatever bytes are in a log's files: nothing panics, what is repaired and what is
// recovered has no damage but what is left on purpose, they hold the same records,
// and there is nothing to repair afterwards.
func FuzzRepair(f *testing.F) {
	v := newVerifyLog(f, 6, 2, 0)
	log, index, times := v.read(firstLog), v.read(firstIndex), v.read(firstTimeIndex)
	starts := positions(f, log)
	f.Add(log, index, times, []byte(nil))
	f.Add(flip(starts[2]+70, 1)(slices.Clone(log)), index, times, []byte(nil))
	f.Add(put(starts[2]+8, 0x7f, 0xff, 0xff, 0xff)(slices.Clone(log)), index[:13], times[:1], []byte{1})
	f.Add(slices.Concat(log[starts[3]:], log), index, times, make([]byte, 34))
	f.Add(log[:len(log)-5], times, index, []byte(nil))
	txn := "testdata/kafka/4.3.1/txn-0"
	for name, data := range contents(f, txn, "*.txnindex") {
		file, _ := layout.ParseFile(name)
		if file.Base == 0 {
			files := contents(f, txn, "0*")
			f.Add([]byte(files[firstLog]), []byte(files[firstIndex]), []byte(files[firstTimeIndex]), []byte(data))
		}
	}
	f.Fuzz(func(t *testing.T, log, index, times, aborted []byte) {
		disk := inMemory(t, map[string]string{
			firstLog: string(log), firstIndex: string(index), firstTimeIndex: string(times),
			layout.TxnIndexName(0): string(aborted), layout.LogName(1 << 40): "",
		})
		recovered, err := Recover(t.Context(), "log", "new", RecoverOptions{FS: disk, SkipBadBatches: true, Jobs: 1})
		require.NoError(t, err)
		repaired, err := Repair(t.Context(), "log", RepairOptions{FS: disk, Apply: true, Jobs: 1})
		require.NoError(t, err)
		require.Equal(t, recovered.Records, repaired.Records)
		for _, dir := range []string{"log", "new"} {
			report, err := Verify(t.Context(), dir, VerifyOptions{FS: disk, Jobs: 1})
			require.NoError(t, err)
			for _, p := range report.Problems {
				known := p.Kind == "bad_codec" || p.Kind == "too_large" || p.Kind == "offset_range"
				require.True(t, p.Severity != Damage || known, "%s: %v", dir, lines(report))
			}
		}
		again, err := Repair(t.Context(), "log", RepairOptions{FS: disk, Jobs: 1})
		require.NoError(t, err)
		require.False(t, again.Needed(), "%+v", again)
	})
}

// spoil damages one of a log's files.
func spoil(t *rapid.T, files map[string]string) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(files))).Draw(t, "file")
	b := []byte(files[name])
	if len(b) == 0 {
		return
	}
	at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
	end := min(len(b), at+rapid.IntRange(1, 200).Draw(t, "length"))
	switch rapid.IntRange(0, 6).Draw(t, "fault") {
	case 0:
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	case 1:
		b = b[:at]
	case 2:
		clear(b[at:end])
	case 3:
		b = slices.Delete(b, at, end)
	case 4:
		b = slices.Insert(b, at, slices.Clone(b[at:end])...)
	case 5:
		b = append(b, make([]byte, end-at)...)
	case 6:
		b = append(b, b[at:end]...)
	}
	files[name] = string(b)
}

// Derived files alone may be wrong: then the log is not touched.
func TestRepairMakesIndexesAnewThatDisagreeWithTheirLog(t *testing.T) {
	v := newVerifyLog(t, 30, 2, 800)
	clean := contents(t, v.dir, "*")
	bases := segmentBases(t, v.dir)
	v.edit(layout.OffsetIndexName(bases[0]), put(4, 0, 0, 0, 1))
	v.remove(layout.TimeIndexName(bases[1]))
	r := v.repaired()
	require.Empty(t, r.Removed)
	require.Len(t, r.Rebuilt, 4)
	require.Equal(t, contentsOf(clean, ".log", "index"), contentsOf(contents(t, v.dir, "*"), ".log", "index"))
}

func contentsOf(files map[string]string, suffixes ...string) map[string]string {
	files = maps.Clone(files)
	maps.DeleteFunc(files, func(name, _ string) bool {
		return !slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	})
	return files
}

// A damaged batch takes its part of a transaction with it. What is left must not
// contradict the index of aborted ones.
func TestRepairKeepsTransactionIndexesInStepWithTheLog(t *testing.T) {
	from := "testdata/kafka/4.3.1/txn-0"
	sound := contents(t, from, "*")
	for base, batches := range batchesIn(t, from) {
		name := layout.LogName(base)
		starts := positions(t, []byte(sound[name]))
		for n := range batches {
			files := maps.Clone(sound)
			files[name] = string(flip(starts[n+1]-1, 0)([]byte(files[name])))
			require.Len(t, mend(t, inMemory(t, files)).Removed, 1)
		}
	}
	v := copyVerifyLog(t, from)
	before := contents(t, v.dir, "*.txnindex")
	for name := range before {
		v.remove(name)
	}
	r := v.repaired()
	require.Equal(t, slices.Sorted(maps.Keys(before)), r.Rebuilt)
	require.Equal(t, before, contents(t, v.dir, "*.txnindex"))
}

// Old entries are kept as far as the log does not contradict them.
func TestOldEntriesOfATransactionIndexAreKeptIfTheLogAgrees(t *testing.T) {
	const producer = 7
	data := func(offset int64) record.Batch { return txnBatch(t, offset, producer) }
	marker := func(offset int64, kind record.ControlType) record.Batch {
		b, err := record.AppendEndTxnMarker(nil, record.EndTxnBatch{Offset: offset, ProducerID: producer, Marker: record.EndTxnMarker{Type: kind}})
		require.NoError(t, err)
		parsed, err := record.Parse(b)
		require.NoError(t, err)
		return parsed
	}
	entry := func(first, last, stable int64) txnindex.Entry {
		return txnindex.Entry{ProducerID: producer, FirstOffset: first, LastOffset: last, LastStableOffset: stable}
	}
	log := []record.Batch{data(10), marker(11, record.Commit), data(15), marker(16, record.Abort)}
	made := entry(15, 16, 17)
	for _, tt := range []struct {
		name string
		log  []record.Batch
		old  []txnindex.Entry
		want []txnindex.Entry
	}{
		{"none", log, nil, []txnindex.Entry{made}},
		{"the same", log, []txnindex.Entry{made}, []txnindex.Entry{made}},
		{"began in what was compacted away", log, []txnindex.Entry{entry(12, 16, 13)}, []txnindex.Entry{entry(12, 16, 13)}},
		{"began before the last one ended", log, []txnindex.Entry{entry(11, 16, 17)}, []txnindex.Entry{made}},
		{"began later than it did", log, []txnindex.Entry{entry(16, 16, 17)}, []txnindex.Entry{made}},
		{"stable beyond its marker", log, []txnindex.Entry{entry(15, 16, 18)}, []txnindex.Entry{made}},
		{"another producer's", log, []txnindex.Entry{{ProducerID: 8, FirstOffset: 15, LastOffset: 16, LastStableOffset: 17}}, []txnindex.Entry{made}},
		{"of no marker", log, []txnindex.Entry{entry(10, 11, 12), made}, []txnindex.Entry{made}},
		{"nothing left of it", log[3:], nil, nil},
		{"nothing left of it but an entry", log[3:], []txnindex.Entry{made}, []txnindex.Entry{made}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := inMemory(t, map[string]string{layout.TxnIndexName(0): string(encodeAborted(tt.old))})
			txns, err := newAbortedTxns(disk, "log", 0)
			require.NoError(t, err)
			require.NoError(t, txns.begin(disk, filepath.Join("log", layout.TxnIndexName(0))))
			for _, b := range tt.log {
				txns.batch(b)
			}
			require.Equal(t, !slices.Equal(tt.old, tt.want), txns.changed())
			require.Equal(t, tt.want, txns.take())
		})
	}
}

func txnBatch(t testing.TB, offset, producer int64) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: offset, Transactional: true, Producer: &record.Producer{ID: producer}})
	require.NoError(t, b.Append(Record{Timestamp: offset}))
	encoded, err := b.Build()
	require.NoError(t, err)
	parsed, err := record.Parse(encoded)
	require.NoError(t, err)
	return parsed
}

// A segment that was replaced by an empty one is one segment.
func TestAnEmptySwapReplacesItsSegment(t *testing.T) {
	v := newVerifyLog(t, 30, 2, 800)
	bases := segmentBases(t, v.dir)
	v.write(layout.LogName(bases[1])+layout.SwapSuffix, nil)
	require.Equal(t, bases, segmentBases(t, v.dir))
	l, err := Open(v.dir, Options{})
	require.NoError(t, err)
	defer l.Close()
	segments, err := l.Segments()
	require.NoError(t, err)
	require.Len(t, segments, len(bases))
	require.Zero(t, segments[1].Size)
}

func TestRepairPutsSmallFilesAsideThatAreDamaged(t *testing.T) {
	v := copyVerifyLog(t, "testdata/kafka/4.3.1/txn-0")
	snapshots := slices.Sorted(maps.Keys(contents(t, v.dir, "*.snapshot")))
	v.edit(snapshots[1], flip(3, 1))
	v.write(snapshots[1]+".cut", []byte("an earlier one"))
	epochs := contents(t, v.dir, "leader-epoch-checkpoint")
	v.write("leader-epoch-checkpoint", []byte("0\nnonsense\n"))
	v.write(layout.SeglogStateName, []byte("nonsense"))
	metadata := v.read("partition.metadata")
	v.write("partition.metadata", []byte("nonsense"))

	r := v.repaired()
	require.Equal(t, []string{"leader-epoch-checkpoint"}, r.Rebuilt)
	require.ElementsMatch(t, []string{snapshots[1], "leader-epoch-checkpoint", layout.SeglogStateName}, r.SetAside)
	require.Equal(t, "an earlier one", string(v.read(snapshots[1]+".cut")))
	require.NoFileExists(t, v.path(snapshots[1]))
	require.FileExists(t, v.path(snapshots[1]+".2.cut"))
	require.Equal(t, epochs, contents(t, v.dir, "leader-epoch-checkpoint"))
	require.Equal(t, "nonsense", string(v.read(layout.SeglogStateName+".cut")))
	require.Len(t, r.Left, 1, "nobody knows a topic's id but the broker")
	require.Equal(t, "partition.metadata", r.Left[0].File)
	v.write("partition.metadata", metadata)
	noDamage(t, v.dir)
}

// Offsets that were given out are not given out again, though the last batches are
// taken out.
func TestRepairKeepsTheLogEnd(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	starts := positions(t, v.read(firstLog))
	v.edit(firstLog, flip(starts[9]+70, 1))
	r := v.repaired()
	require.Equal(t, int64(20), r.End)
	require.Equal(t, int64(-1), r.Removed[0].LastOffset)
	l, err := Open(v.dir, Options{})
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, int64(20), l.Offsets().End)
	at, err := l.Append([]Record{{Value: []byte("new")}}, nil)
	require.NoError(t, err)
	require.Equal(t, int64(20), at.BaseOffset)

	// Of what was never promised to be durable that is not so.
	v = newVerifyLog(t, 10, 2, 0)
	v.edit(firstLog, func(b []byte) []byte { return append(b, b[:50]...) })
	r = v.repaired()
	require.Equal(t, int64(20), r.End)
	require.Equal(t, []int64{0}, segmentBases(t, v.dir))
}

func TestRepairOfASegmentWithoutAGoodBatch(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, -1} {
		v := newVerifyLog(t, 30, 2, 800)
		clean := batchesIn(t, v.dir)
		bases := segmentBases(t, v.dir)
		base := bases[(n+len(bases))%len(bases)]
		name := layout.LogName(base)
		v.edit(name, func(b []byte) []byte {
			for i := range b {
				b[i] ^= 0x55
			}
			return b
		})
		r := v.repaired()
		require.Len(t, r.Removed, 1)
		require.Equal(t, base, r.Removed[0].FirstOffset)
		delete(clean, base)
		require.Equal(t, clean, batchesIn(t, v.dir))
		noDamage(t, v.dir)
		l, err := Open(v.dir, Options{})
		require.NoError(t, err)
		require.Equal(t, int64(60), l.Offsets().End)
		got := int64(0)
		for _, err := range l.Records(t.Context(), 0, nil) {
			require.NoError(t, err)
			got++
		}
		require.Equal(t, r.Records, got)
		require.NoError(t, l.Close())
	}
}

// Zeros at the end need no file to remember them by.
func TestRepairCutsZerosAtTheEnd(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	clean := v.read(firstLog)
	v.edit(firstLog, grow(1<<20))
	r := v.repaired()
	require.Len(t, r.Removed, 1)
	require.Equal(t, int64(1<<20), r.Removed[0].Length)
	require.Equal(t, clean, v.read(firstLog))
	require.Empty(t, contents(t, v.dir, "*.cut"))
}

func TestRepairLeavesBatchesThatOnlyWeCannotRead(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	starts := positions(t, v.read(firstLog))
	v.edit(firstLog, func(b []byte) []byte { return seal(starts[3])(flip(starts[3]+22, 2)(flip(starts[3]+22, 0)(b))) }) // codec 5
	before := contents(t, v.dir, "*")
	r := v.repaired()
	require.False(t, r.Needed())
	require.Len(t, r.Left, 1)
	require.Equal(t, "bad_codec", r.Left[0].Kind)
	require.Equal(t, before, contents(t, v.dir, "*"))
}

func TestRepairLeavesOffsetsThatDoNotFitToOpen(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	starts := positions(t, v.read(firstLog))
	far := int64(math.MaxInt32) + 100
	v.edit(firstLog, func(b []byte) []byte {
		parsed, err := record.Parse(b[starts[9]:])
		require.NoError(t, err)
		parsed.SetBaseOffset(far)
		return b
	})
	v.write(layout.LogName(far+2), nil)
	r, err := Repair(t.Context(), v.dir, RepairOptions{Apply: true, IndexIntervalBytes: 1})
	require.NoError(t, err)
	require.Empty(t, r.Removed)
	require.Len(t, r.Left, 1, "%v", r.Left)
	require.Equal(t, "offset_range", r.Left[0].Kind)

	// With damage besides, the segment is written anew, and so parted.
	v.edit(firstLog, flip(starts[3]+70, 1))
	r = v.repaired()
	require.Len(t, r.Removed, 1)
	require.Equal(t, []int64{0, far, far + 2}, segmentBases(t, v.dir))
	noDamage(t, v.dir)
}

// Bytes that cannot be read cannot be kept, and so are not removed.
func TestRepairRemovesNothingThatItCannotKeep(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	before := contents(t, v.dir, "*")
	bad := readHook{FS: vfs.OS, name: v.path(firstLog), read: func(b []byte, off int64) (int, error) {
		if off >= 400 || off+int64(len(b)) <= 300 {
			return len(b), nil
		}
		return int(max(0, 300-off)), &fs.PathError{Op: "read", Path: firstLog, Err: errBadSector}
	}}
	for _, apply := range []bool{false, true} {
		_, err := Repair(t.Context(), v.dir, RepairOptions{Apply: apply, FS: bad})
		require.ErrorContains(t, err, "bad sector")
		require.ErrorContains(t, err, "cannot be kept")
	}
	require.Equal(t, before, contents(t, v.dir, "*"))
	dir := filepath.Join(t.TempDir(), "new")
	r, err := Recover(t.Context(), v.dir, dir, RecoverOptions{FS: bad})
	require.NoError(t, err)
	require.Equal(t, "read_error", r.LeftOut[0].Kind)
	require.Positive(t, r.Records)
	noDamage(t, dir)
}

var errBadSector = errors.New("bad sector")

// readHook is a file system with a file of which read is given what was read, and
// says what comes of it.
type readHook struct {
	vfs.FS
	name   string
	read   func(b []byte, off int64) (int, error)
	opened func(name string) // may be nil
}

func (h readHook) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if h.opened != nil {
		h.opened(name)
	}
	f, err := h.FS.OpenFile(name, flag, perm)
	if err != nil || name != h.name {
		return f, err
	}
	return hookedFile{f, h.read}, nil
}

type hookedFile struct {
	vfs.File
	read func(b []byte, off int64) (int, error)
}

func (f hookedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if m, bad := f.read(b[:n], off); bad != nil {
		return m, bad
	}
	return n, err
}

// A full disk stops a repair before it has changed anything that matters.
func TestRepairOnAFullDiskCanBeRepeated(t *testing.T) {
	failed := 0
	for room := int64(0); ; room += 4096 {
		disk := damagedDisk(t)
		free, err := disk.FreeSpace(".")
		require.NoError(t, err)
		disk.SetCapacity(crashfs.DefaultCapacity - free + room)
		o := RepairOptions{FS: disk, Apply: true, IndexIntervalBytes: 1}
		if _, err = Repair(t.Context(), "log", o); err != nil {
			failed++
			require.ErrorIs(t, err, ErrNoSpace)
			disk.SetCapacity(crashfs.DefaultCapacity)
			_, err = Repair(t.Context(), "log", o)
			require.NoError(t, err)
		}
		requireRepaired(t, disk, fmt.Sprintf("with %d bytes free", room))
		if room > 16*4096 {
			break
		}
	}
	require.Greater(t, failed, 2)
}

// Whichever call of the file system fails, and however: nothing is lost by it, and
// what was begun can be done again.
func TestRepairSurvivesEveryFailingCall(t *testing.T) {
	t.Parallel()
	damaged := damagedDisk(t)
	lost := damagedBytes(t, damaged)
	o := RepairOptions{Apply: true, IndexIntervalBytes: 1, Jobs: 1}
	repair := func(f *faultfs.FS) error {
		o.FS = f
		_, err := Repair(t.Context(), "log", o)
		return err
	}
	calls := faultfs.Record(damaged.Kill(), func(f *faultfs.FS) { require.NoError(t, repair(f)) })
	faults, failed := 0, 0
	for fault := range faultfs.Faults(calls) {
		faults++
		disk := damaged.Kill()
		f := faultfs.New(disk)
		fault.Arm(f)
		err := repair(f)
		f.Clear()
		require.Zero(t, f.Open()+f.Mapped()+f.Locked(), "%v: left open", fault)
		everything := allBytes(t, disk)
		for _, b := range lost {
			require.True(t, slices.ContainsFunc(everything, func(data string) bool { return strings.Contains(data, b) }), "%v: bytes are gone", fault)
		}
		if err != nil {
			failed++
			require.NoError(t, repair(f), fault)
		}
		requireRepaired(t, disk, fault.String())
	}
	t.Logf("%d faults, of which %d failed the repair", faults, failed)
	require.Greater(t, failed, 100)
}

func TestRecoverSurvivesEveryFailingCall(t *testing.T) {
	t.Parallel()
	sound := onDisk(t, 20, 600)
	recover := func(f *faultfs.FS) (RecoverReport, error) {
		return Recover(t.Context(), "log", "new", RecoverOptions{FS: f, IndexIntervalBytes: 1, Jobs: 1, SkipBadBatches: true})
	}
	before := allBytes(t, sound)
	calls := faultfs.Record(sound.Kill(), func(f *faultfs.FS) { _, _ = recover(f) })
	failed := 0
	for fault := range faultfs.Faults(calls) {
		disk := sound.Kill()
		f := faultfs.New(disk)
		fault.Arm(f)
		r, err := recover(f)
		f.Clear()
		require.Zero(t, f.Open()+f.Mapped()+f.Locked(), "%v: left open", fault)
		require.Equal(t, before, allBytes(t, disk), fault)
		if err == nil {
			report, err := Verify(t.Context(), "new", VerifyOptions{FS: disk, Jobs: 1})
			require.NoError(t, err)
			require.Zero(t, report.Damage, fault)
			require.Equal(t, r.Records, report.Records)
			require.True(t, r.Records == 20 || len(r.LeftOut) == 1 && r.LeftOut[0].Kind == "read_error", "%v: %+v", fault, r)
			continue
		}
		failed++
		r, err = recover(f)
		if errors.Is(err, fs.ErrExist) {
			continue // the removal of what was made is what failed, or the disk is full of it
		}
		require.NoError(t, err, fault)
		require.EqualValues(t, 20, r.Records)
	}
	require.Greater(t, failed, 100)
}

// However a repair is interrupted, nothing half-made stays.
func TestAnInterruptedRepairLeavesNothingHalfMade(t *testing.T) {
	t.Parallel()
	damaged := damagedDisk(t)
	why := errors.New("no more")
	interrupted := 0
	for n := 0; ; n++ {
		disk := damaged.Kill()
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		o := RepairOptions{FS: disk, Apply: true, IndexIntervalBytes: 1, Jobs: 1}
		o.Progress = func(done, total int64) {
			require.LessOrEqual(t, done, total)
			if calls++; calls > n {
				cancel(why)
			}
		}
		_, err := Repair(ctx, "log", o)
		if err == nil {
			break
		}
		interrupted++
		require.ErrorIs(t, err, why)
		entries, err := disk.ReadDir("log")
		require.NoError(t, err)
		for _, e := range entries {
			require.NotContains(t, e.Name(), layout.CleanedSuffix)
			require.NotContains(t, e.Name(), layout.TempSuffix)
		}
		o.Progress = nil
		_, err = Repair(t.Context(), "log", o)
		require.NoError(t, err)
		requireRepaired(t, disk, fmt.Sprint("interrupted at ", n))
	}
	require.Greater(t, interrupted, 20)
}

// What a killed broker left is made whole without a broker.
func TestRepairOfWhatAKilledBrokerLeft(t *testing.T) {
	for _, from := range partitions(t, "testdata/kafka/4.3.1-killed") {
		name := filepath.Base(from)
		v := copyVerifyLog(t, from)
		r := v.repaired()
		kept := batchesIn(t, v.dir)
		want := batchesIn(t, filepath.Join("testdata/kafka/4.3.1-recovered", name))
		if name == "flipped-0" { // the broker dropped what was good behind it
			require.Len(t, r.Removed, 1)
			last := slices.Max(slices.Collect(maps.Keys(kept)))
			require.Len(t, kept[last], len(want[last])+1)
			continue
		}
		require.Equal(t, want, kept, name)
	}
}

// K101: a power cut at any moment of a repair leaves a log from which it can be
// done again, and no bytes that are in neither place.
func TestAPowerCutDuringRepairLosesNothing(t *testing.T) {
	t.Parallel()
	disk := damagedDisk(t)
	lost := damagedBytes(t, disk)
	require.Len(t, lost, 3)
	points, states := 0, 0
	disk.OnOp(func(op crashfs.Op) {
		points++
		for state := range disk.States(24, uint64(op.N)) {
			states++
			what := fmt.Sprintf("crash before %s, %s", op, state)
			fsys := state.FS()
			everything := allBytes(t, fsys)
			for _, b := range lost {
				require.True(t, slices.ContainsFunc(everything, func(data string) bool { return strings.Contains(data, b) }), "%s: bytes are gone", what)
			}
			_, err := Repair(t.Context(), "log", RepairOptions{FS: fsys, Apply: true, IndexIntervalBytes: 1, Jobs: 1})
			require.NoError(t, err, what)
			requireRepaired(t, fsys, what)
		}
	})
	_, err := Repair(t.Context(), "log", RepairOptions{FS: disk, Apply: true, IndexIntervalBytes: 1, Jobs: 1})
	require.NoError(t, err)
	disk.OnOp(nil)
	for state := range disk.States(10, 1) {
		requireRepaired(t, state.FS(), "after Repair has returned")
	}
	t.Logf("%d crash points, %d disk states", points, states)
	require.Greater(t, states, 500)
}

// K101: a log that was repaired half-way can be opened as well, and loses no good
// batch by it.
func TestALogWhoseRepairWasCutShortCanBeOpened(t *testing.T) {
	t.Parallel()
	disk := damagedDisk(t)
	states := 0
	disk.OnOp(func(op crashfs.Op) {
		for state := range disk.States(10, uint64(op.N)) {
			states++
			what := fmt.Sprintf("crash before %s, %s", op, state)
			fsys := state.FS()
			l, err := Open("log", Options{FS: fsys, SegmentIndexBytes: 4096})
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt, what) // below the recovery point: nothing is cut
			} else {
				require.NoError(t, l.Close(), what)
			}
			_, err = Repair(t.Context(), "log", RepairOptions{FS: fsys, Apply: true, IndexIntervalBytes: 1, Jobs: 1})
			require.NoError(t, err, what)
			requireRepaired(t, fsys, what)
		}
	})
	_, err := Repair(t.Context(), "log", RepairOptions{FS: disk, Apply: true, IndexIntervalBytes: 1, Jobs: 1})
	require.NoError(t, err)
	disk.OnOp(nil)
	require.Greater(t, states, 200)
}

// What a repair found is on disk when it returns, though a crash had left it in
// memory: the state says so.
func TestWhatRepairHasReadIsDurableAfterwards(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	l, err := Open("log", Options{FS: disk, SegmentBytes: 600, SegmentIndexBytes: 4096, Sync: SyncNever})
	require.NoError(t, err)
	for n := range damagedBatches {
		_, err := l.Append([]Record{{Timestamp: int64(1000 + n), Value: fmt.Appendf(nil, "value %03d", n)}}, nil)
		require.NoError(t, err)
	}
	killed := disk.Kill()
	require.NoError(t, l.Close())
	places := damagedPlaces(t, killed)
	for _, at := range places {
		f, err := killed.OpenFile(filepath.Join("log", layout.LogName(at.base)), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{0xff}, at.pos+at.size-1)
		require.NoError(t, errors.Join(err, f.Close()))
	}
	r, err := Repair(t.Context(), "log", RepairOptions{FS: killed, Apply: true, IndexIntervalBytes: 1})
	require.NoError(t, err)
	require.Len(t, r.Removed, len(places))
	for state := range killed.States(50, 1) {
		report, err := Verify(t.Context(), "log", VerifyOptions{FS: state.FS(), Jobs: 1})
		require.NoError(t, err)
		require.Zero(t, report.Damage, "%s: %v", state, lines(report))
		require.Equal(t, r.Records, report.Records, state)
	}
}

const damagedBatches = 20

// damagedDisk holds a log of three and more segments in which three batches are
// bad: one in the middle, one at the end of a segment, and the last.
func damagedDisk(t testing.TB) *crashfs.FS {
	t.Helper()
	disk := onDisk(t, damagedBatches, 600)
	for _, at := range damagedPlaces(t, disk) {
		change(t, disk, filepath.Join("log", layout.LogName(at.base)), flip(at.pos+at.size-1, 0))
	}
	change(t, disk, filepath.Join("log", layout.OffsetIndexName(0)), put(4, 0, 0, 0, 1))
	return disk
}

type place struct{ base, pos, size int64 }

func damagedPlaces(t testing.TB, disk *crashfs.FS) []place {
	t.Helper()
	found, err := (&Log{dir: "log", opts: Options{FS: disk}}).survey()
	require.NoError(t, err)
	last := len(found.bases) - 1
	require.Greater(t, last, 1)
	var all []place
	for _, which := range []struct{ segment, batch int }{{1, 2}, {1, -1}, {last, -1}} {
		base := found.bases[which.segment]
		data, err := vfs.ReadFile(disk, filepath.Join("log", layout.LogName(base)), 1<<20)
		require.NoError(t, err)
		starts := positions(t, data)
		n := (which.batch + len(starts) - 1) % (len(starts) - 1)
		all = append(all, place{base, starts[n], starts[n+1] - starts[n]})
	}
	return all
}

func damagedBytes(t testing.TB, disk *crashfs.FS) []string {
	t.Helper()
	var all []string
	for _, at := range damagedPlaces(t, disk) {
		data, err := vfs.ReadFile(disk, filepath.Join("log", layout.LogName(at.base)), 1<<20)
		require.NoError(t, err)
		all = append(all, string(data[at.pos:at.pos+at.size]))
	}
	return all
}

func allBytes(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	entries, err := fsys.ReadDir("log")
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		data, err := vfs.ReadFile(fsys, filepath.Join("log", e.Name()), 1<<20)
		require.NoError(t, err)
		all = append(all, string(data))
	}
	return all
}

func requireRepaired(t testing.TB, fsys vfs.FS, what string) {
	t.Helper()
	r, err := Verify(t.Context(), "log", VerifyOptions{FS: fsys, Jobs: 1})
	require.NoError(t, err, what)
	require.Zero(t, r.Damage, "%s: %v", what, lines(r))
	require.Equal(t, int64(damagedBatches-3), r.Records, "%s: %v", what, lines(r))
	require.Equal(t, int64(damagedBatches), r.ReadableBelow, what)
	state, err := (&checkpoint.StateFiles{FS: fsys, Dir: "log"}).Read()
	require.NoError(t, err, what)
	require.Equal(t, int64(damagedBatches), state.RecoveryPoint, what)
}
