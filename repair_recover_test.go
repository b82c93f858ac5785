package seglog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// recovered runs Recover on v and returns the new log. The old one must stay as
// it is.
func (v verifyLog) recovered(o RecoverOptions) (verifyLog, RecoverReport) {
	v.t.Helper()
	before := contents(v.t, v.dir, "*")
	dir := filepath.Join(v.t.TempDir(), "new", filepath.Base(v.dir))
	r, err := Recover(v.t.Context(), v.dir, dir, o)
	require.NoError(v.t, err)
	require.Equal(v.t, before, contents(v.t, v.dir, "*"), "the source was written to")
	out := verifyLog{v.t, dir}
	report := noDamage(v.t, dir)
	require.Equal(v.t, report.Batches, r.Batches)
	require.Equal(v.t, report.Records, r.Records)
	require.Equal(v.t, report.Bytes, r.Bytes)
	require.Equal(v.t, report.Segments, r.Segments)
	require.Equal(v.t, report.ReadableBelow, r.End)
	l, err := Open(dir, Options{})
	require.NoError(v.t, err)
	s, err := l.Stats()
	require.NoError(v.t, err)
	require.True(v.t, s.Recovery.Clean, "the new log was closed")
	require.Equal(v.t, [2]int64{r.Start, r.End}, [2]int64{s.Start, s.End})
	require.NoError(v.t, l.Close())
	return out, r
}

// batchesIn returns the good batches of a directory, by segment, as bytes.
func batchesIn(t testing.TB, dir string) map[int64][]string {
	t.Helper()
	all := map[int64][]string{}
	for name, data := range contents(t, dir, "*.log") {
		file, ok := layout.ParseFile(name)
		require.True(t, ok)
		var w segment.Walker
		w.Reset(strings.NewReader(data), file.Base, 0, int64(len(data)))
		for w.Next() {
			if p := w.Part(); p.Kind == segment.Whole {
				all[file.Base] = append(all[file.Base], data[p.Position:p.Position+p.Size])
			}
		}
		require.NoError(t, w.Err())
	}
	return all
}

func TestARecoveredLogHoldsWhatTheOldOneDid(t *testing.T) {
	for _, segmentBytes := range []int64{0, 400} {
		v := newVerifyLog(t, 20, 3, segmentBytes)
		out, r := v.recovered(RecoverOptions{IndexIntervalBytes: 1})
		require.Equal(t, contents(t, v.dir, "*"), contents(t, out.dir, "*"))
		require.Equal(t, []OffsetRange{{0, 60}}, r.Kept)
		require.Empty(t, r.LeftOut)
		require.False(t, r.Stopped)
	}
}

// A broker's log comes with all that the broker keeps beside it, and that still
// means something.
func TestARecoveredLogIsTheBrokers(t *testing.T) {
	t.Parallel()
	for _, root := range append(kafkaDirs, "testdata/kafka/legacy") {
		for _, from := range partitions(t, root) {
			v := verifyLog{t, from}
			out, r := v.recovered(RecoverOptions{})
			want, err := Verify(t.Context(), from, VerifyOptions{})
			require.NoError(t, err)
			if filepath.Base(from) == "deleted-0" {
				require.Equal(t, int64(61), r.Start)
			} else {
				require.Equal(t, contents(t, from, "*.log"), contents(t, out.dir, "*.log"), from)
				require.Equal(t, want.Records, r.Records)
			}
			require.Equal(t, want.ReadableBelow, r.End, from)
			require.Empty(t, r.LeftOut)
			require.Equal(t, contents(t, from, "*.txnindex"), contents(t, out.dir, "*.txnindex"), from)
			require.Equal(t, contents(t, from, "partition.metadata"), contents(t, out.dir, "partition.metadata"))
			if filepath.Base(from) != "deleted-0" {
				if epochs := contents(t, from, "leader-epoch-checkpoint"); len(epochs) > 0 { // a log gets one
					require.Equal(t, epochs, contents(t, out.dir, "leader-epoch-checkpoint"))
				}
				require.Equal(t, contents(t, from, "*.snapshot"), contents(t, out.dir, "*.snapshot"), from)
			}
		}
	}
}

// Of what a killed broker left, all is kept that the broker kept.
func TestWhatABrokerRecoversIsRecovered(t *testing.T) {
	for _, from := range partitions(t, "testdata/kafka/4.3.1-killed") {
		name := filepath.Base(from)
		out, r := verifyLog{t, from}.recovered(RecoverOptions{})
		want := batchesIn(t, filepath.Join("testdata/kafka/4.3.1-recovered", name))
		require.Equal(t, want, batchesIn(t, out.dir), name)
		require.Equal(t, name != "killed-0" && name != "open-txn-0", len(r.LeftOut) == 1, name)
		require.Equal(t, name == "flipped-0", r.Stopped, name)
	}
}

// K041, K042
func TestRecoverStopsAtTheFirstBadBatchOrSkipsIt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(pos int64) func([]byte) []byte
		kind   string
	}{
		{"a flipped bit", func(p int64) func([]byte) []byte { return flip(p+70, 3) }, "crc_mismatch"},
		{"a length beyond the file", func(p int64) func([]byte) []byte { return put(p+8, 0x7f, 0xff, 0xff, 0xff) }, "bad_size"},
		{"zeros", func(p int64) func([]byte) []byte { return put(p, make([]byte, 40)...) }, "bad_size"},
		{"an offset of another segment", func(p int64) func([]byte) []byte { return put(p, 1) }, "offset_range"},
		{"an offset too high", func(p int64) func([]byte) []byte { return put(p+6, 3) }, "offset_order"},
		{"an offset too low", func(p int64) func([]byte) []byte { return put(p+7, 1) }, "offset_order"},
		{"a count that lies", func(p int64) func([]byte) []byte {
			return func(b []byte) []byte { return seal(p)(put(p+57, 0, 0, 0, 9)(b)) }
		}, "bad_header"},
		{"a record that lies", func(p int64) func([]byte) []byte {
			return func(b []byte) []byte { return seal(p)(put(p+61, 9)(b)) }
		}, "bad_record"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newVerifyLog(t, 10, 2, 0)
			clean := batchesIn(t, v.dir)[0]
			starts := positions(t, v.read(firstLog))
			v.edit(firstLog, tt.damage(starts[4]))
			want := DamagedRange{
				File: firstLog, Position: starts[4], Length: starts[5] - starts[4], FirstOffset: 8, LastOffset: 9, Kind: tt.kind,
			}

			out, r := v.recovered(RecoverOptions{})
			require.Equal(t, clean[:4], batchesIn(t, out.dir)[0])
			require.True(t, r.Stopped)
			require.Equal(t, int64(5), r.Behind)
			require.Equal(t, []OffsetRange{{0, 8}}, r.Kept)
			require.Len(t, r.LeftOut, 1)
			require.NotEmpty(t, r.LeftOut[0].Reason)
			require.Equal(t, want, withoutReason(r.LeftOut[0]))
			require.Equal(t, fmt.Sprintf("%s: position %d, %d bytes, offsets 8 to 9: %s", firstLog, starts[4], want.Length, r.LeftOut[0].Reason), r.LeftOut[0].String())

			out, r = v.recovered(RecoverOptions{SkipBadBatches: true})
			require.Equal(t, slices.Delete(slices.Clone(clean), 4, 5), batchesIn(t, out.dir)[0])
			require.False(t, r.Stopped)
			require.Zero(t, r.Behind)
			require.Equal(t, []OffsetRange{{0, 8}, {10, 20}}, r.Kept)
			require.Equal(t, want, withoutReason(r.LeftOut[0]))
		})
	}
}

func withoutReason(d DamagedRange) DamagedRange {
	d.Reason = ""
	return d
}

func TestATornTailIsNoReasonToStop(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	starts := positions(t, v.read(firstLog))
	v.edit(firstLog, func(b []byte) []byte { return b[:starts[9]+30] })
	_, r := v.recovered(RecoverOptions{})
	require.False(t, r.Stopped)
	require.Equal(t, []OffsetRange{{0, 18}}, r.Kept)
	require.Len(t, r.LeftOut, 1)
	require.Equal(t, DamagedRange{File: firstLog, Position: starts[9], Length: 30, FirstOffset: 18, LastOffset: -1, Kind: "torn_tail"}, withoutReason(r.LeftOut[0]))
	require.Contains(t, r.LeftOut[0].String(), "30 bytes, offsets from 18 on: torn tail")
}

// Where the offsets on both sides follow each other no record is missing.
func TestJunkBetweenBatchesThatFollowEachOtherIsNoReasonToStop(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	clean := batchesIn(t, v.dir)
	starts := positions(t, v.read(firstLog))
	v.edit(firstLog, func(b []byte) []byte {
		b = slices.Insert(b, int(starts[7]), b[starts[2]:starts[3]]...) // a batch once more
		return slices.Insert(b, int(starts[4]), []byte("something else entirely")...)
	})
	out, r := v.recovered(RecoverOptions{})
	require.Equal(t, clean, batchesIn(t, out.dir))
	require.False(t, r.Stopped)
	require.Len(t, r.LeftOut, 2)
	require.Equal(t, "no offsets", r.LeftOut[0].Offsets())
	require.Equal(t, []OffsetRange{{0, 20}}, r.Kept)
}

func TestNeighbouringBadBatchesAreOneRange(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	starts := positions(t, v.read(firstLog))
	for _, n := range []int64{3, 4, 5} {
		v.edit(firstLog, flip(starts[n]+70, 1))
	}
	_, r := v.recovered(RecoverOptions{SkipBadBatches: true})
	require.Len(t, r.LeftOut, 1)
	require.Equal(t, starts[6]-starts[3], r.LeftOut[0].Length)
	require.Equal(t, "offsets 6 to 11", r.LeftOut[0].Offsets())
	require.Contains(t, r.LeftOut[0].Reason, "the first of 3 bad stretches")
}

func TestRecoverOfARange(t *testing.T) {
	v := newVerifyLog(t, 20, 3, 800)
	bases := segmentBases(t, v.dir)
	require.Greater(t, len(bases), 2)
	inside := bases[1] + 4
	_, r := v.recovered(RecoverOptions{From: inside, To: inside + 1})
	require.Equal(t, int64(1), r.Batches, "the batch that holds it")
	require.Equal(t, inside, r.Start)
	require.Equal(t, bases[1]+6, r.End)
	require.Equal(t, []OffsetRange{{inside, bases[1] + 6}}, r.Kept)

	_, r = v.recovered(RecoverOptions{From: 1})
	require.Equal(t, [3]int64{20, 1, 60}, [3]int64{r.Batches, r.Start, r.End})
	_, r = v.recovered(RecoverOptions{To: 60})
	require.Equal(t, int64(60), r.End)
	_, r = v.recovered(RecoverOptions{From: 60})
	require.Equal(t, [3]int64{0, 60, 60}, [3]int64{r.Batches, r.Start, r.End}, "an empty log that goes on where the old one ends")

	dir := filepath.Join(t.TempDir(), "new")
	_, err := Recover(t.Context(), v.dir, dir, RecoverOptions{From: 61})
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	for _, o := range []RecoverOptions{{From: -1}, {From: 5, To: 5}} {
		_, err := Recover(t.Context(), v.dir, dir, o)
		require.ErrorIs(t, err, ErrOption)
	}
	require.NoDirExists(t, dir)

	// Damage outside of the range is of no concern.
	v.edit(firstLog, flip(70, 1))
	v.edit(layout.LogName(bases[2]), flip(70, 1))
	_, r = v.recovered(RecoverOptions{From: bases[1], To: bases[2]})
	require.Equal(t, []OffsetRange{{bases[1], bases[2]}}, r.Kept)
	require.Empty(t, r.LeftOut)
	require.False(t, r.Stopped)
}

// K099: for a few records of a log the rest of it is not read.
func TestRecoverOfARangeReadsTheSegmentsThatItLiesIn(t *testing.T) {
	v := newVerifyLog(t, 40, 3, 800)
	bases := segmentBases(t, v.dir)
	require.Greater(t, len(bases), 4)
	for _, row := range []struct {
		from, to    int64
		first, last int // segments
	}{
		{bases[2], bases[2] + 1, 2, 2},
		{bases[2] - 1, bases[2] + 1, 1, 2},
		{bases[2], bases[3], 2, 2},
		{bases[2] + 1, bases[3] + 1, 2, 3},
		{bases[len(bases)-1], 0, len(bases) - 1, len(bases) - 1},
		{0, 1, 0, 0},
	} {
		read := map[string]bool{}
		watch := readHook{FS: vfs.OS, read: func(b []byte, _ int64) (int, error) { return len(b), nil }, opened: func(name string) {
			if filepath.Dir(name) == v.dir && filepath.Ext(name) == ".log" {
				read[filepath.Base(name)] = true
			}
		}}
		want := map[string]bool{}
		for _, base := range bases[row.first : row.last+1] {
			want[layout.LogName(base)] = true
		}
		_, err := Recover(t.Context(), v.dir, filepath.Join(t.TempDir(), "new"), RecoverOptions{FS: watch, From: row.from, To: row.to, Jobs: 1})
		require.NoError(t, err)
		require.Equal(t, want, read)
	}
}

func TestOfALogWithoutAGoodBatchAnEmptyOneIsRecovered(t *testing.T) {
	v := newVerifyLog(t, 1, 2, 0)
	v.edit(firstLog, flip(70, 1))
	_, r := v.recovered(RecoverOptions{SkipBadBatches: true})
	require.Zero(t, r.Batches)
	require.Empty(t, r.Kept)
	require.Len(t, r.LeftOut, 1)
}

func TestRecoverLooksWhereItWritesTo(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	before := contents(t, v.dir, "*")
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "a file"), nil, 0o644))
	for _, dir := range []string{v.dir, filepath.Join(v.dir, "new"), other, filepath.Join(other, "a file")} {
		_, err := Recover(t.Context(), v.dir, dir, RecoverOptions{})
		require.Error(t, err)
		require.NoDirExists(t, filepath.Join(v.dir, "new"))
	}
	_, err := Recover(t.Context(), v.dir, other, RecoverOptions{})
	require.ErrorIs(t, err, os.ErrExist)
	require.Equal(t, before, contents(t, v.dir, "*"))
	require.Equal(t, map[string]string{"a file": ""}, contents(t, other, "*"))
}

func TestARecoverThatFailsLeavesNothing(t *testing.T) {
	v := newVerifyLog(t, 100, 2, 800)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more")
	dir := filepath.Join(t.TempDir(), "new")
	_, err := Recover(ctx, v.dir, dir, RecoverOptions{Progress: func(done, total int64) {
		require.LessOrEqual(t, done, total)
		if done > total*3/4 {
			cancel(why)
		}
	}})
	require.ErrorIs(t, err, why)
	require.NoDirExists(t, dir)

	require.NoError(t, os.Mkdir(dir, 0o755))
	_, err = Recover(ctx, v.dir, dir, RecoverOptions{})
	require.ErrorIs(t, err, why)
	require.DirExists(t, dir)
	require.Empty(t, contents(t, dir, "*"))

	// A full disk, however much room there is.
	for room := int64(0); ; room += 4096 {
		disk := onDisk(t, 30, 800)
		free, err := disk.FreeSpace(".")
		require.NoError(t, err)
		disk.SetCapacity(crashfs.DefaultCapacity - free + room)
		_, err = Recover(t.Context(), "log", "new", RecoverOptions{FS: disk})
		if err == nil {
			require.Greater(t, room, int64(8192))
			break
		}
		require.ErrorIs(t, err, ErrNoSpace)
		_, err = disk.Stat("new")
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestRecoverBesideAWriterTakesTheWholeBatches(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	l, err := Open(v.dir, Options{})
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Append([]Record{{Timestamp: 2000, Value: []byte("new")}}, nil)
	require.NoError(t, err)
	f, err := os.OpenFile(v.path(firstLog), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.Write(v.read(firstLog)[:40]) // as if it were writing
	require.NoError(t, errors.Join(err, f.Close()))
	_, r := v.recovered(RecoverOptions{})
	require.Equal(t, int64(21), r.Records)
	require.Empty(t, r.LeftOut)
	require.NoError(t, l.Close())
}

// A new log is there when Recover has returned, and whole as soon as it is there
// at all.
func TestAPowerCutDuringRecoverLeavesNoHalfALog(t *testing.T) {
	t.Parallel()
	disk := onDisk(t, 20, 600)
	states := 0
	inspect := func(fsys *crashfs.FS, what string) int64 {
		states++
		if _, err := fsys.Stat("new"); err != nil {
			return 0
		}
		l, err := Open("new", Options{FS: fsys, SegmentIndexBytes: 4096})
		require.NoError(t, err, what)
		defer l.Close()
		r, err := Verify(t.Context(), "new", VerifyOptions{FS: fsys})
		require.NoError(t, err, what)
		require.Zero(t, r.Damage, what)
		require.Contains(t, []int64{0, 20}, r.Records, what)
		return r.Records
	}
	disk.OnOp(func(op crashfs.Op) {
		limit := 10
		if op.Kind == crashfs.Rename {
			limit = 60
		}
		for state := range disk.States(limit, uint64(op.N)) {
			inspect(state.FS(), fmt.Sprintf("crash before %s, %s", op, state))
		}
	})
	_, err := Recover(t.Context(), "log", "new", RecoverOptions{FS: disk, IndexIntervalBytes: 1})
	require.NoError(t, err)
	disk.OnOp(nil)
	for state := range disk.States(20, 1) {
		require.Equal(t, int64(20), inspect(state.FS(), "after Recover has returned"))
	}
	require.Greater(t, states, 500)
}

// A bit that flips on its way from the disk costs no batch.
func TestABatchThatIsOnlyReadWrongIsNotLost(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	before := contents(t, v.dir, "*")
	at := positions(t, v.read(firstLog))[4] + 70
	for _, call := range []func(vfs.FS) error{
		func(f vfs.FS) error {
			_, err := Repair(t.Context(), v.dir, RepairOptions{FS: f, Apply: true})
			return err
		},
		func(f vfs.FS) error {
			_, err := Recover(t.Context(), v.dir, filepath.Join(t.TempDir(), "new"), RecoverOptions{FS: f, SkipBadBatches: true})
			return err
		},
	} {
		once := false
		wrong := readHook{FS: vfs.OS, name: v.path(firstLog), read: func(b []byte, off int64) (int, error) {
			if !once && off <= at && at < off+int64(len(b)) {
				once = true
				b[at-off] ^= 1
			}
			return len(b), nil
		}}
		require.ErrorIs(t, call(wrong), errChanged)
		require.Equal(t, before, contents(t, v.dir, "*"))
		require.NoError(t, call(vfs.OS))
	}
}

// Offsets that an old broker has put into a segment they do not fit are good, and
// get one that they do (KIP-263).
func TestRecoverPartsASegmentWhoseOffsetsDoNotFit(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	starts := positions(t, v.read(firstLog))
	far := int64(math.MaxInt32) + 100
	v.edit(firstLog, func(b []byte) []byte {
		for n := range int64(4) {
			parsed, err := record.Parse(b[starts[6+n]:])
			require.NoError(t, err)
			parsed.SetBaseOffset(far + 2*n)
		}
		return b
	})
	// The last batch could be one of which only the offset is wrong.
	out, r := v.recovered(RecoverOptions{})
	require.Equal(t, []OffsetRange{{0, far + 6}}, r.Kept)
	require.Equal(t, []int64{0, far}, segmentBases(t, out.dir))
	require.Len(t, r.LeftOut, 1)

	// But not if the next segment goes on there.
	v.write(layout.LogName(far+8), nil)
	out, r = v.recovered(RecoverOptions{})
	require.Equal(t, []OffsetRange{{0, far + 8}}, r.Kept)
	require.Empty(t, r.LeftOut)
	require.Equal(t, int64(10), r.Batches)
	require.Equal(t, []int64{0, far, far + 8}, segmentBases(t, out.dir))
}

// Two segments that claim the same offsets: the name of the second says where the
// first one ends.
func TestRecoverTakesOffsetsFromTheSegmentNamedAfterThem(t *testing.T) {
	v := newVerifyLog(t, 20, 2, 500)
	clean := batchesIn(t, v.dir)
	bases := segmentBases(t, v.dir)
	v.edit(firstLog, func(b []byte) []byte { return append(b, v.read(layout.LogName(bases[1]))...) })
	out, r := v.recovered(RecoverOptions{})
	require.Equal(t, clean, batchesIn(t, out.dir))
	require.Len(t, r.LeftOut, 1)
	require.Equal(t, "segment_overlap", r.LeftOut[0].Kind)
	require.Equal(t, "no offsets", r.LeftOut[0].Offsets())
}

func TestRecoverReadsASwapThatWasNotFinished(t *testing.T) {
	v := newVerifyLog(t, 20, 2, 500)
	clean := batchesIn(t, v.dir)
	for _, kind := range segmentKinds[:3] {
		name := layout.SegmentFileName(kind, 0, layout.Live)
		require.NoError(t, os.Rename(v.path(name), v.path(name+layout.SwapSuffix)))
	}
	out, _ := v.recovered(RecoverOptions{})
	require.Equal(t, clean, batchesIn(t, out.dir))
}

func TestTheLogStartIsRecovered(t *testing.T) {
	v := newVerifyLog(t, 20, 2, 500)
	l, err := Open(v.dir, Options{})
	require.NoError(t, err)
	require.NoError(t, l.DeleteBefore(17))
	require.NoError(t, l.Close())
	out, r := v.recovered(RecoverOptions{})
	require.Equal(t, int64(17), r.Start)
	state, err := (&checkpoint.StateFiles{FS: vfs.OS, Dir: out.dir}).Read()
	require.NoError(t, err)
	require.Equal(t, int64(17), state.LogStartOffset)
}
