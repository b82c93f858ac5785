package seglog

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// The segments of missingLog begin at 0, 8 and 16; the one in the middle is what
// these tests lose.
func missingLog(t testing.TB) verifyLog { return newVerifyLog(t, 12, 2, 450) }

func (v verifyLog) forgetState() {
	v.remove(layout.SeglogStateName)
	v.remove(layout.SeglogStateCopyName)
}

func (v verifyLog) removeSegment(base int64, kinds ...layout.Kind) {
	for _, kind := range kinds {
		v.remove(layout.SegmentFileName(kind, base, layout.Live))
	}
}

// gap is the finding about a gap between segments, if there is one.
func gap(r VerifyReport) string {
	for i, p := range r.Problems {
		if p.Kind == "segment_gap" {
			return lines(r)[i]
		}
	}
	return ""
}

func TestALostSegmentIsDamage(t *testing.T) {
	all := []layout.Kind{layout.Log, layout.OffsetIndex, layout.TimeIndex}
	tests := []struct {
		name string
		lose func(v verifyLog)
		want string // behind "offsets 8 to 15 are missing before the next segment: "
	}{
		{"its log, of a log that was never compacted", func(v verifyLog) { v.removeSegment(8, layout.Log) },
			"they were in a segment of which 00000000000000000008.index is left"},
		{"all its files", func(v verifyLog) { v.removeSegment(8, all...) },
			"the log was never compacted there, so a segment is lost"},
		{"its bytes", func(v verifyLog) { v.write(layout.LogName(8), nil) },
			"the log is empty, but its indexes are not"},
		{"its log, and the state", func(v verifyLog) { v.removeSegment(8, layout.Log, layout.OffsetIndex); v.forgetState() },
			"they were in a segment of which 00000000000000000008.timeindex is left"},
		{"its bytes, and the state", func(v verifyLog) { v.write(layout.LogName(8), nil); v.forgetState() },
			"the log is empty, but its indexes are not"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := missingLog(t)
			tt.lose(v)
			r := v.verify(VerifyOptions{})
			require.Contains(t, gap(r), "damage segment_gap")
			require.Contains(t, gap(r), "offsets 8 to 15 are missing before the next segment: "+tt.want)
			require.Equal(t, int64(8), r.ReadableBelow)

			// Opening it for writing does not make it sound.
			l, err := Open(v.dir, Options{})
			require.NoError(t, err)
			require.NoError(t, l.Close())
			require.Contains(t, gap(v.verify(VerifyOptions{})), "damage segment_gap")
		})
	}
}

func TestAGapThatMayBeTheWorkOfABrokerIsAWarning(t *testing.T) {
	tests := []struct {
		name string
		lose func(v verifyLog)
	}{
		{"nothing is left of the segment", func(v verifyLog) {
			v.removeSegment(8, layout.Log, layout.OffsetIndex, layout.TimeIndex)
		}},
		{"it was being removed", func(v verifyLog) {
			require.NoError(v.t, os.Rename(v.path(layout.LogName(8)), v.path(layout.LogName(8)+".deleted")))
		}},
		{"it was cleaned, and nothing is left in it", func(v verifyLog) {
			v.write(layout.LogName(8), nil)
			v.write(layout.OffsetIndexName(8), nil)
			v.write(layout.TimeIndexName(8), nil)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := missingLog(t)
			tt.lose(v)
			v.forgetState()
			r := v.verify(VerifyOptions{})
			require.Zero(t, r.Damage)
			require.Contains(t, gap(r), "warning segment_gap")
			l, err := Open(v.dir, Options{})
			require.NoError(t, err)
			require.NoError(t, l.Close())
			require.Zero(t, v.verify(VerifyOptions{}).Damage, "what a broker has left out is not lost when seglog has had the log")
		})
	}
}

func TestAGapThatTheLogWasGivenIsNotDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	l, err := Open(dir, Options{SegmentBytes: 150, Replicated: true})
	require.NoError(t, err)
	for _, offset := range []int64{0, 10, 1 << 33} {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: offset})
		require.NoError(t, b.Append(Record{Offset: offset, Timestamp: 1000, Value: make([]byte, 64)}))
		bytes, err := b.Build()
		require.NoError(t, err)
		_, err = l.AppendReplicated(bytes, nil)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	v := verifyLog{t, dir}
	r := v.verify(VerifyOptions{})
	require.Equal(t, 3, r.Segments)
	require.Zero(t, r.Damage, lines(r))

	// A truncation takes back what it explained.
	l, err = Open(dir, Options{SegmentBytes: 150, Replicated: true})
	require.NoError(t, err)
	require.NoError(t, l.ForceTruncateTo(10))
	require.NoError(t, l.Close())
	state, err := (&checkpoint.StateFiles{FS: vfs.OS, Dir: v.dir}).Read()
	require.NoError(t, err)
	require.Equal(t, int64(10), state.KnownGaps)
}

func TestOpeningTellsOfALostSegmentAndKeepsItsIndexes(t *testing.T) {
	v := missingLog(t)
	v.remove(layout.LogName(8))
	for range 2 {
		for _, readOnly := range []bool{true, false} {
			l, err := Open(v.dir, Options{ReadOnly: readOnly})
			require.NoError(t, err)
			s, err := l.Stats()
			require.NoError(t, err)
			require.Equal(t, []OffsetRange{{8, 16}}, s.Recovery.Missing)
			require.Empty(t, s.Recovery.Removed)
			require.NoError(t, l.Close())
		}
	}
	require.FileExists(t, v.path(layout.OffsetIndexName(8)))

	// One that says nothing goes: its offsets are in the segment before.
	v.write(layout.OffsetIndexName(4), make([]byte, 8))
	l, err := Open(v.dir, Options{})
	require.NoError(t, err)
	s, err := l.Stats()
	require.NoError(t, err)
	require.Equal(t, []string{layout.OffsetIndexName(4)}, s.Recovery.Removed)
	require.NoError(t, l.Close())
}

func TestReadingAnEmptiedSegmentIsDamage(t *testing.T) {
	for _, readOnly := range []bool{true, false} {
		v := missingLog(t)
		v.write(layout.LogName(8), nil)
		l, err := Open(v.dir, Options{ReadOnly: readOnly})
		require.NoError(t, err)
		_, err = l.Get(9)
		var damage *CorruptionError
		require.ErrorAs(t, err, &damage)
		require.Equal(t, [2]int64{8, 15}, [2]int64{damage.FirstOffset, damage.LastOffset})
		var offsets []int64
		told := 0
		for r, err := range l.Records(context.Background(), 6, &IterOptions{SkipDamaged: true}) {
			if err != nil {
				require.ErrorAs(t, err, &damage)
				told++
				continue
			}
			offsets = append(offsets, r.Offset)
		}
		require.Equal(t, 1, told)
		require.Equal(t, []int64{6, 7, 16, 17, 18, 19, 20, 21, 22, 23}, offsets)
		require.NoError(t, l.Close())
	}
}

func TestRepairAcceptsALostSegment(t *testing.T) {
	for _, name := range []string{layout.LogName(8), layout.OffsetIndexName(8)} {
		v := missingLog(t)
		v.remove(layout.LogName(8))
		if name != layout.LogName(8) {
			v.removeSegment(8, layout.OffsetIndex, layout.TimeIndex)
		}
		r := v.repaired()
		require.Equal(t, []OffsetRange{{8, 16}}, r.Gaps)
		require.Equal(t, int64(16), r.Records)
		require.Zero(t, v.verify(VerifyOptions{}).Damage)
		l, err := Open(v.dir, Options{})
		require.NoError(t, err)
		s, err := l.Stats()
		require.NoError(t, err)
		require.Empty(t, s.Recovery.Missing)
		require.NoError(t, l.Close())
		require.Zero(t, v.verify(VerifyOptions{}).Damage)
	}
}

func TestRecoverStopsAtALostSegmentOrSkipsIt(t *testing.T) {
	v := missingLog(t)
	v.remove(layout.LogName(8))
	_, r := v.recovered(RecoverOptions{})
	require.Equal(t, []OffsetRange{{0, 8}}, r.Kept)
	require.True(t, r.Stopped)
	require.Equal(t, int64(4), r.Behind)
	_, r = v.recovered(RecoverOptions{SkipBadBatches: true})
	require.Equal(t, []OffsetRange{{0, 8}, {16, 24}}, r.Kept)
	require.Len(t, r.LeftOut, 1)
	require.Equal(t, "offsets 8 to 15", r.LeftOut[0].Offsets())
}

// shadow puts the files of one segment under a name that lies within another.
func (v verifyLog) shadow(base, as int64) {
	for _, kind := range []layout.Kind{layout.Log, layout.OffsetIndex, layout.TimeIndex} {
		v.write(layout.SegmentFileName(kind, as, layout.Live), v.read(layout.SegmentFileName(kind, base, layout.Live)))
	}
}

// allBatches is the batches of a log in the order of its segments.
func allBatches(t testing.TB, dir string) (all []string) {
	in := batchesIn(t, dir)
	for _, base := range slices.Sorted(maps.Keys(in)) {
		all = append(all, in[base]...)
	}
	return all
}

func TestASegmentThatHasNoBusinessThereHidesNothing(t *testing.T) {
	tests := []struct {
		name     string
		base, as int64
	}{
		{"an earlier one in the middle", 0, 10},
		{"an earlier one at the end", 0, 20},
		{"a copy of the one that it is in", 8, 12},
		{"an earlier one over the whole of the next", 0, 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := missingLog(t)
			want := allBatches(t, v.dir)
			v.shadow(tt.base, tt.as)
			require.NotZero(t, v.verify(VerifyOptions{}).Damage)

			out, r := v.recovered(RecoverOptions{SkipBadBatches: true})
			require.Equal(t, []OffsetRange{{0, 24}}, r.Kept)
			require.Equal(t, want, allBatches(t, out.dir))
			_, r = v.recovered(RecoverOptions{})
			require.Equal(t, []OffsetRange{{0, 24}}, r.Kept)

			v.repaired()
			require.Equal(t, want, allBatches(t, v.dir))
			require.Zero(t, v.verify(VerifyOptions{}).Damage)
		})
	}
}

func TestOpeningTellsOfSegmentsThatOverlap(t *testing.T) {
	t.Run("in the middle: told, and left", func(t *testing.T) {
		v := missingLog(t)
		v.forgetState()
		v.shadow(0, 10)
		l, err := Open(v.dir, Options{})
		require.NoError(t, err)
		s, err := l.Stats()
		require.NoError(t, err)
		require.ErrorIs(t, errors.Join(s.Recovery.Damaged...), ErrOverlap)
		require.Equal(t, int64(24), s.End)
		require.NoError(t, l.Close())
	})
	t.Run("at the end: offsets would be given out again", func(t *testing.T) {
		v := missingLog(t)
		v.forgetState()
		v.shadow(0, 18)
		logs := contents(t, v.dir, "*.log")
		_, err := Open(v.dir, Options{})
		var overlap *OverlapError
		require.ErrorAs(t, err, &overlap)
		require.Equal(t, OverlapError{Segment: 16, LastOffset: 23, Next: 18}, *overlap)
		require.Equal(t, logs, contents(t, v.dir, "*.log"))

		v.repaired()
		l, err := Open(v.dir, Options{})
		require.NoError(t, err)
		require.Equal(t, int64(24), l.Offsets().End)
		require.NoError(t, l.Close())
	})
}
