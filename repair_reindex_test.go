package seglog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/crashfs"
)

// contents is the content of the files of a directory whose names match, but not
// that of the lock, and without how often a state was written.
func contents(t testing.TB, dir, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	files := map[string]string{}
	for _, path := range paths {
		if filepath.Base(path) == layout.LockFileName {
			continue
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if s, err := checkpoint.ParseState(data); err == nil {
			s.Sequence = 0
			data = checkpoint.AppendState(nil, s)
		}
		files[filepath.Base(path)] = string(data)
	}
	return files
}

// noDamage fails if Verify finds damage in a directory, and returns what it saw.
func noDamage(t testing.TB, dir string) VerifyReport {
	t.Helper()
	r, err := Verify(t.Context(), dir, VerifyOptions{})
	require.NoError(t, err)
	require.Zero(t, r.Damage, "%v", lines(r))
	return r
}

var eachBatch = ReindexOptions{IndexIntervalBytes: 1}

// K025, K024
func TestReindexMakesIndexesAsOpeningTheLogWould(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		damage func(v verifyLog, name string)
	}{
		{"missing", func(v verifyLog, name string) { v.remove(name) }},
		{"no bytes", func(v verifyLog, name string) { v.write(name, nil) }},
		{"13 bytes", func(v verifyLog, name string) { v.edit(name, func(b []byte) []byte { return b[:13] }) }},
		{"zeros behind", func(v verifyLog, name string) { v.edit(name, grow(4096)) }},
		{"another's", func(v verifyLog, name string) { v.edit(name, put(0, 0, 0, 0, 1, 0, 0, 0, 2)) }},
		{"whole", func(verifyLog, string) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fresh := newVerifyLog(t, 40, 3, 800)
			for name := range contents(t, fresh.dir, "*index") {
				fresh.remove(name)
			}
			l, err := Open(fresh.dir, Options{IndexIntervalBytes: 1})
			require.NoError(t, err)
			_, err = l.Segments() // opens, and so rebuilds, each of them
			require.NoError(t, err)
			require.NoError(t, l.Close())

			v := newVerifyLog(t, 40, 3, 800)
			for name := range contents(t, v.dir, "*index") {
				tt.damage(v, name)
			}
			dry := eachBatch
			dry.DryRun = true
			before := contents(t, v.dir, "*")
			planned, err := Reindex(t.Context(), v.dir, dry)
			require.NoError(t, err)
			require.Equal(t, before, contents(t, v.dir, "*"))
			done, err := Reindex(t.Context(), v.dir, eachBatch)
			require.NoError(t, err)
			require.Equal(t, planned, done)
			require.Equal(t, contents(t, fresh.dir, "*index"), contents(t, v.dir, "*index"))
			require.Equal(t, contents(t, fresh.dir, "*.log"), contents(t, v.dir, "*.log"))
			require.Empty(t, lines(noDamage(t, v.dir)))
			for _, s := range done.Segments {
				index := v.read(layout.OffsetIndexName(s.BaseOffset))
				require.Equal(t, len(index)/indexEntrySize, s.Index.After)
				require.Equal(t, len(v.read(layout.TimeIndexName(s.BaseOffset)))/timeIndexEntrySize, s.TimeIndex.After)
				require.Equal(t, EntryCounts{-1, -1}, s.TxnIndex)
				if tt.name == "missing" {
					require.Equal(t, -1, s.Index.Before)
				}
				if tt.name == "whole" {
					require.Equal(t, s.Index.After, s.Index.Before)
				}
			}
		})
	}
}

func TestReindexKeepsToTheSegmentsItIsTold(t *testing.T) {
	v := newVerifyLog(t, 40, 3, 800)
	bases := segmentBases(t, v.dir)
	for name := range contents(t, v.dir, "*index") {
		v.write(name, nil)
	}
	o := eachBatch
	o.Only = bases[1:2]
	r, err := Reindex(t.Context(), v.dir, o)
	require.NoError(t, err)
	require.Len(t, r.Segments, 1)
	require.Equal(t, bases[1], r.Segments[0].BaseOffset)
	for _, base := range bases {
		require.Equal(t, base == bases[1], len(v.read(layout.OffsetIndexName(base))) > 0)
	}
	o.Only = []int64{bases[1] + 1}
	_, err = Reindex(t.Context(), v.dir, o)
	require.ErrorIs(t, err, ErrOption)
}

func segmentBases(t testing.TB, dir string) []int64 {
	t.Helper()
	found, err := (&Log{dir: dir, opts: Options{FS: vfs.OS}}).survey()
	require.NoError(t, err)
	return found.bases
}

// Whatever a broker's log holds, indexes made from it agree with it, and those of
// transactions are what the broker wrote.
func TestReindexAgreesWithABroker(t *testing.T) {
	t.Parallel()
	for _, root := range append(kafkaDirs, "testdata/kafka/legacy") {
		for _, from := range partitions(t, root) {
			v := copyVerifyLog(t, from)
			before := contents(t, v.dir, "*.txnindex")
			_, err := Reindex(t.Context(), v.dir, ReindexOptions{})
			require.NoError(t, err)
			noDamage(t, v.dir)
			require.Equal(t, before, contents(t, v.dir, "*.txnindex"), "made from the log and the old index")
			for name := range before {
				v.remove(name)
			}
			r, err := Reindex(t.Context(), v.dir, ReindexOptions{})
			require.NoError(t, err)
			noDamage(t, v.dir)
			if filepath.Base(from) == "compacted-txn-0" {
				continue // what begins where is gone with the records
			}
			require.Equal(t, before, contents(t, v.dir, "*.txnindex"), "%s: made from the log alone: %+v", from, r)

			// From nothing but .log files.
			bare := verifyLog{t, t.TempDir()}
			for name, data := range contents(t, from, "*.log") {
				bare.write(name, []byte(data))
			}
			_, err = Reindex(t.Context(), bare.dir, ReindexOptions{})
			require.NoError(t, err)
			require.Equal(t, before, contents(t, bare.dir, "*.txnindex"))

			// One alone, from the snapshot that a broker took before it.
			for name, want := range before {
				v.write(name, []byte("damaged"))
				file, _ := layout.ParseFile(name)
				o := ReindexOptions{Only: []int64{file.Base}}
				r, err := Reindex(t.Context(), v.dir, o)
				require.NoError(t, err)
				require.Len(t, r.Segments, 1)
				require.Equal(t, want, string(v.read(name)), name)
				require.Equal(t, EntryCounts{0, len(want) / 34}, r.Segments[0].TxnIndex)
			}
			// And without it, from the beginning of the log.
			for name := range contents(t, v.dir, "*.snapshot") {
				v.remove(name)
			}
			for name, want := range before {
				v.write(name, []byte("damaged"))
				file, _ := layout.ParseFile(name)
				_, err := Reindex(t.Context(), v.dir, ReindexOptions{Only: []int64{file.Base}})
				require.NoError(t, err)
				require.Equal(t, want, string(v.read(name)), name)
			}
		}
	}
}

func TestReindexStepsOverDamage(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	starts := positions(t, v.read(firstLog))
	v.edit(firstLog, flip(starts[4]+70, 1))
	r, err := Reindex(t.Context(), v.dir, eachBatch)
	require.NoError(t, err)
	var damage *CorruptionError
	require.ErrorAs(t, r.Segments[0].Damage, &damage)
	require.Equal(t, starts[4], damage.Position)
	require.Equal(t, []string{"crc_mismatch"}, kindsOf(v.verify(VerifyOptions{})))
	require.Equal(t, EntryCounts{9, 8}, r.Segments[0].Index)

	// Where a marker may be missing a transaction index is not judged.
	v = copyVerifyLog(t, "testdata/kafka/4.3.1/txn-0")
	before := contents(t, v.dir, "*.txnindex")
	require.NotEmpty(t, before)
	for name := range before {
		file, _ := layout.ParseFile(name)
		v.edit(layout.LogName(file.Base), flip(70, 1))
	}
	_, err = Reindex(t.Context(), v.dir, ReindexOptions{})
	require.NoError(t, err)
	require.Equal(t, before, contents(t, v.dir, "*.txnindex"))
}

func TestWhoChangesALogNeedsItForHimself(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 0)
	l, err := Open(v.dir, Options{})
	require.NoError(t, err)
	defer l.Close()
	for _, apply := range []bool{false, true} {
		_, err = Reindex(t.Context(), v.dir, ReindexOptions{DryRun: !apply})
		require.ErrorIs(t, err, ErrLocked)
		_, err = Repair(t.Context(), v.dir, RepairOptions{Apply: apply})
		require.ErrorIs(t, err, ErrLocked)
	}
}

func TestOnlyALogIsRescued(t *testing.T) {
	empty := t.TempDir()
	missing := filepath.Join(empty, "missing")
	for dir, want := range map[string]error{empty: ErrNotALog, missing: os.ErrNotExist, "testdata/kafka/4.3.1": ErrNotALog} {
		_, err := Reindex(t.Context(), dir, ReindexOptions{})
		require.ErrorIs(t, err, want)
		_, err = Repair(t.Context(), dir, RepairOptions{Apply: true})
		require.ErrorIs(t, err, want)
		_, err = Recover(t.Context(), dir, filepath.Join(t.TempDir(), "new"), RecoverOptions{})
		require.ErrorIs(t, err, want)
	}
	entries, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing was made in a directory that is no log")
}

// onDisk writes a log to a file system that can lose power.
func onDisk(t testing.TB, batches int, segmentBytes int64) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(crashfs.Options{})
	l, err := Open("log", Options{FS: disk, SegmentBytes: segmentBytes, IndexIntervalBytes: 1, SegmentIndexBytes: 4096})
	require.NoError(t, err)
	for n := range batches {
		_, err := l.Append([]Record{{Timestamp: int64(1000 + n), Value: fmt.Appendf(nil, "value %03d", n)}}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	return disk
}

func change(t testing.TB, fsys vfs.FS, path string, edit func([]byte) []byte) {
	t.Helper()
	data, err := vfs.ReadFile(fsys, path, 1<<20)
	require.NoError(t, err)
	require.NoError(t, vfs.WriteFileAtomic(fsys, path, edit(data)))
}

// A power cut during Reindex leaves each index as it was or as it is to be.
func TestAPowerCutLeavesNoHalfAnIndex(t *testing.T) {
	disk := onDisk(t, 30, 800)
	indexes := func(fsys vfs.FS) map[string]string {
		found := map[string]string{}
		entries, err := fsys.ReadDir("log")
		require.NoError(t, err)
		for _, e := range entries {
			if f, ok := layout.ParseFile(e.Name()); ok && f.State == layout.Live && (f.Kind == layout.OffsetIndex || f.Kind == layout.TimeIndex) {
				data, err := vfs.ReadFile(fsys, filepath.Join("log", e.Name()), 1<<20)
				require.NoError(t, err)
				found[e.Name()] = string(data)
			}
		}
		return found
	}
	before := indexes(disk)
	o := ReindexOptions{FS: disk, IndexIntervalBytes: 300}
	after := disk.Kill()
	o.FS = after
	_, err := Reindex(t.Context(), "log", o)
	require.NoError(t, err)
	want := indexes(after)
	require.NotEqual(t, before, want)
	o.FS = disk
	states := 0
	disk.OnOp(func(op crashfs.Op) {
		for state := range disk.States(30, uint64(op.N)) {
			states++
			found := indexes(state.FS())
			require.Len(t, found, len(before))
			for name, data := range found {
				require.Contains(t, []string{before[name], want[name]}, data, "%s: %s before %s, %s", name, "crash", op, state)
			}
		}
	})
	_, err = Reindex(t.Context(), "log", o)
	require.NoError(t, err)
	disk.OnOp(nil)
	require.Greater(t, states, 100)
	for state := range disk.States(10, 1) {
		require.Equal(t, want, indexes(state.FS()), "after Reindex has returned")
	}
}
