package seglog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

// rewritten is a log before and after a compaction that had segments 0 and 10
// rewritten and left the active segment 20 alone, as files by their names.
type rewritten struct {
	old    map[string][]byte // 0 to 9, 10 to 19, 20 to 24
	merged map[string][]byte // 0, 2, 4, ... 18 in a segment 0
	apart  map[string][]byte // 0, 2, ... 8 in a segment 0 and 10, 12, ... 18 in a segment 10
}

func newRewritten(t *testing.T) rewritten {
	segment := func(value string, step int64, from, to int64) map[string][]byte {
		var batches [][]byte
		for o := from; o < to; o += step {
			batches = append(batches, batchAt(t, record.BuilderOptions{BaseOffset: o}, at(o, 1+o, fmt.Sprint(value, " ", o))))
		}
		return segmentFiles(t, from, batches)
	}
	join := func(parts ...map[string][]byte) map[string][]byte {
		all := map[string][]byte{}
		for _, p := range parts {
			for name, content := range p {
				all[name] = content
			}
		}
		return all
	}
	return rewritten{
		old:    join(segment("old", 1, 0, 10), segment("old", 1, 10, 20), segment("old", 1, 20, 25)),
		merged: segment("new", 2, 0, 20),
		apart:  join(segment("new", 2, 0, 10), segment("new", 2, 10, 20)),
	}
}

// segmentFiles are the files of a closed segment.
func segmentFiles(t *testing.T, base int64, batches [][]byte) map[string][]byte {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	l, err := seglog.Open("log", seglog.Options{FS: disk.FS(), StartOffset: base, IndexIntervalBytes: 1, SegmentIndexBytes: 256})
	require.NoError(t, err)
	for _, b := range batches {
		_, err := l.AppendReplicated(b, nil)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	files := map[string][]byte{}
	for _, kind := range []string{".log", ".index", ".timeindex"} {
		content, err := disk.ReadFile(segmentFile("log", base, kind))
		require.NoError(t, err)
		files[fmt.Sprint(base, kind)] = content
	}
	return files
}

// directory makes the directory that a row describes. Each word is a file:
// "old:0.log" and "merged:0.index.swap" have the content of that file of that log,
// "half:" the first half of the merged one, "empty:" none, and "all:old:10" is all
// three files of a segment, with a suffix if one follows.
func (r rewritten) directory(t *testing.T, words string) *logtest.Disk {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	for word := range strings.FieldsSeq(words) {
		if rest, ok := strings.CutPrefix(word, "all:"); ok {
			from, rest, _ := strings.Cut(rest, ":")
			base, suffix, _ := strings.Cut(rest, ".")
			if suffix != "" {
				suffix = "." + suffix
			}
			for _, kind := range []string{".log", ".index", ".timeindex"} {
				r.file(t, disk, from, base+kind, suffix)
			}
			continue
		}
		from, name, _ := strings.Cut(word, ":")
		kindEnd := strings.Index(name, ".") + 1
		kindEnd += strings.IndexByte(name[kindEnd:]+".", '.')
		r.file(t, disk, from, name[:kindEnd], name[kindEnd:])
	}
	disk.SyncAll()
	return disk
}

func (r rewritten) file(t *testing.T, disk *logtest.Disk, from, name, suffix string) {
	var content []byte
	ok := true
	switch from {
	case "old":
		content, ok = r.old[name]
	case "merged":
		content, ok = r.merged[name]
	case "apart":
		content, ok = r.apart[name]
	case "half":
		content, ok = r.merged[name]
		content = content[:len(content)/2]
	case "empty":
	default:
		ok = false
	}
	require.True(t, ok, "%s:%s", from, name)
	base, kind, _ := strings.Cut(name, ".")
	require.NoError(t, disk.WriteFile(fmt.Sprintf("log/%020s.%s%s", base, kind, suffix), content))
}

// recordsOf describes what a log holds: "old 0-9 new 10 12 14".
func recordsOf(t *testing.T, l *seglog.Log, what string) string {
	var text strings.Builder
	last, from, word := int64(-2), int64(-2), ""
	end := func() {
		if from != last {
			fmt.Fprintf(&text, "-%d", last)
		}
	}
	for r, err := range l.Records(context.Background(), l.Offsets().Start, nil) {
		require.NoError(t, err, what)
		value, _, _ := strings.Cut(string(r.Value), " ")
		require.Equal(t, fmt.Sprint(value, " ", r.Offset), string(r.Value), what)
		got, err := l.Get(r.Offset)
		require.NoError(t, err)
		require.Equal(t, string(r.Value), string(got.Value))
		at, ok, err := l.OffsetForTime(1 + r.Offset)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, r.Offset, at.Offset)
		if value != word || r.Offset != last+1 {
			if word != "" {
				end()
			}
			if value != word {
				text.WriteString(" " + value)
			}
			fmt.Fprintf(&text, " %d", r.Offset)
			from, word = r.Offset, value
		}
		last = r.Offset
	}
	if word != "" {
		end()
	}
	return strings.TrimSpace(text.String())
}

const (
	oldRecords = "old 0-24"
	newRecords = "new 0 2 4 6 8 10 12 14 16 18 old 20-24"
)

// K014, K054, K057 and the crash points of Kafka's LocalLog.replaceSegments and
// LogCleaner: what files of a directory mean is judged as a set.
//
// Each directory is opened for reading, which changes nothing, and for writing with
// the power lost before every step that takes.
func TestLeftoversOfACrashAreJudgedAsASet(t *testing.T) {
	files := newRewritten(t)
	const (
		old        = " all:old:0 all:old:10 all:old:20"
		active     = " all:old:20"
		oldDeleted = " all:old:0.deleted all:old:10.deleted"
	)
	for _, row := range []struct {
		name  string
		files string
		want  string
	}{
		// The phases of a cleaner that rewrites two segments into one.
		{"nothing", old, oldRecords},
		{"phase 1: only .cleaned", "all:merged:0.cleaned" + old, oldRecords},
		{"phase 1, half-made", "half:0.log.cleaned half:0.index.cleaned empty:0.timeindex.cleaned" + old, oldRecords},
		{"phase 1, no index yet", "half:0.log.cleaned" + old, oldRecords},
		{"phase 2: the log is .swap, the indexes are .cleaned", "merged:0.log.swap merged:0.index.cleaned merged:0.timeindex.cleaned" + old, oldRecords},
		{"phase 2, the last index is .cleaned", "merged:0.log.swap merged:0.index.swap merged:0.timeindex.cleaned" + old, oldRecords},
		{"phase 3: all .swap, the old are there", "all:merged:0.swap" + old, newRecords},
		{"phase 3, without indexes", "merged:0.log.swap" + old, newRecords},
		{"phase 3, a half-made index", "merged:0.log.swap half:0.index.swap half:0.timeindex.swap" + old, newRecords},
		{"phase 3, half of the old are .deleted", "all:merged:0.swap old:0.log.deleted old:0.index old:0.timeindex all:old:10" + active, newRecords},
		{"phase 3, the second of the old is .deleted", "all:merged:0.swap all:old:0 all:old:10.deleted" + active, newRecords},
		{"phase 4: all .swap, the old are .deleted", "all:merged:0.swap" + oldDeleted + active, newRecords},
		{"phase 4, the second of the old is not", "all:merged:0.swap all:old:0.deleted all:old:10" + active, newRecords},
		{"phase 5: only the time index is .swap", "merged:0.log merged:0.index merged:0.timeindex.swap" + oldDeleted + active, newRecords},
		{"phase 5, both indexes are .swap", "merged:0.log merged:0.index.swap merged:0.timeindex.swap" + oldDeleted + active, newRecords},
		{"phase 6: done, the old are .deleted", "all:merged:0" + oldDeleted + active, newRecords},
		{"done", "all:merged:0" + active, newRecords},

		// The phases of a split, or a round that makes two segments of two. The last
		// is renamed first.
		{"two: the second is .swap, the first .cleaned", "all:apart:0.cleaned all:apart:10.swap" + old, oldRecords},
		{"two: the second is half .swap", "all:apart:0.cleaned apart:10.log.swap apart:10.index.cleaned" + old, oldRecords},
		{"two: the log of the first is .swap too", "apart:0.log.swap apart:0.index.cleaned apart:0.timeindex.cleaned all:apart:10.swap" + old, oldRecords},
		{"two: both .swap", "all:apart:0.swap all:apart:10.swap" + old, newRecords},
		{"two: both .swap, the old .deleted", "all:apart:0.swap all:apart:10.swap" + oldDeleted + active, newRecords},
		{"two: both .swap, the first of the old .deleted", "all:apart:0.swap all:apart:10.swap all:old:0.deleted all:old:10" + active, newRecords},
		{"two: the first is in place", "all:apart:0 all:apart:10.swap" + oldDeleted + active, newRecords},
		{"two: the log of the first is in place", "apart:0.log apart:0.index.swap apart:0.timeindex.swap all:apart:10.swap" + oldDeleted + active, newRecords},
		{"two: both logs are in place", "apart:0.log apart:0.index.swap apart:0.timeindex.swap apart:10.log apart:10.index.swap apart:10.timeindex.swap" + active, newRecords},
		{"two: both are in place, the second's old index was .deleted", "all:apart:0 all:apart:10 old:10.index.deleted" + active, newRecords},

		// K014.
		{"K014 (a)", "merged:0.log.cleaned" + old, oldRecords},
		{"K014 (b)", "all:merged:0.swap" + old, newRecords},
		{"K014 (c)", "merged:0.log.swap old:0.log.deleted all:old:10" + active, newRecords},

		// Other leftovers.
		{"the old are .deleted too, but .cleaned counts for nothing", "all:merged:0.cleaned all:merged:0.deleted" + old, oldRecords},
		{"indexes without a log", "old:0.index.deleted all:old:0 all:old:10" + active + " empty:30.index empty:40.timeindex empty:50.txnindex", oldRecords},
		{"files that were being written", old + " half:0.index.tmp half:0.timeindex.tmp", oldRecords},
		{"no index at all", "old:0.log old:10.log old:20.log", oldRecords},
		{"no time index", "old:0.log old:0.index old:10.log old:10.index old:20.log old:20.index", oldRecords},
		{"indexes of half their entries and half an entry", "old:0.log half:0.index half:0.timeindex all:old:10" + active, oldRecords},
		{"a log begun by a roll", old + " empty:25.log", oldRecords},
		{"a log begun by a roll, with indexes", old + " empty:25.log empty:25.index empty:25.timeindex", oldRecords},
		{"an index of the new log, the log is old", "all:old:0 merged:0.index.swap all:old:10" + active, oldRecords},
		{"a .swap that is empty replaces what it is named after", "empty:10.log.swap" + old, "old 0-9 20-24"},
		{"transactions of replaced segments", "all:merged:0.swap" + old + " empty:0.txnindex empty:10.txnindex empty:10.snapshot", newRecords},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			disk := files.directory(t, row.files)
			requireReadAsIs(t, disk, row.want)

			// Opened for writing, cut short anywhere, and opened again.
			broken := disk.Kill()
			states := 0
			broken.OnCrash(*crashStates/8, 1, nil, func(c logtest.Crash) {
				states++
				requireSettled(t, c.Disk, row.want, c.String())
			})
			requireSettled(t, broken, row.want, "undisturbed")
			t.Logf("%d disk states", states)
		})
	}
}

func requireReadAsIs(t *testing.T, disk *logtest.Disk, want string) {
	names, err := disk.ReadDir("log")
	require.NoError(t, err)
	l, err := seglog.Open("log", seglog.Options{FS: disk.FS(), ReadOnly: true})
	require.NoError(t, err)
	require.Equal(t, want, recordsOf(t, l, "read-only"))
	require.NoError(t, l.Close())
	after, err := disk.ReadDir("log")
	require.NoError(t, err)
	require.Equal(t, names, after)
}

// requireSettled opens a log for writing: it has the records, no leftovers, no
// damage, and can be closed and opened again.
func requireSettled(t *testing.T, disk *logtest.Disk, want, what string) {
	opts := seglog.Options{FS: disk.FS(), SegmentIndexBytes: 256}
	for range 2 {
		l, err := seglog.Open("log", opts)
		require.NoError(t, err, what)
		require.Equal(t, want, recordsOf(t, l, what), what)
		require.Equal(t, int64(25), l.Offsets().End, what)
		require.NoError(t, l.Close(), what)
	}
	names, err := disk.ReadDir("log")
	require.NoError(t, err)
	for _, name := range names {
		for _, suffix := range []string{".deleted", ".cleaned", ".swap", ".tmp"} {
			require.False(t, strings.HasSuffix(name, suffix), "%s: %s is left", what, name)
		}
	}
	report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: disk.FS(), Jobs: 1})
	require.NoError(t, err, what)
	require.Zero(t, report.Damage, "%s: %v", what, report.Problems)
}

// A .swap that is damaged was complete once. It is refused, with a name, and nothing
// is removed.
func TestADamagedSwapIsRefusedAndNothingIsLost(t *testing.T) {
	files := newRewritten(t)
	for _, readOnly := range []bool{true, false} {
		disk := files.directory(t, "half:0.log.swap all:old:0 all:old:10 all:old:20")
		before, err := disk.ReadDir("log")
		require.NoError(t, err)
		_, err = seglog.Open("log", seglog.Options{FS: disk.FS(), ReadOnly: readOnly})
		require.ErrorIs(t, err, seglog.ErrCorrupt)
		require.ErrorContains(t, err, "00000000000000000000.log.swap")
		after, err := disk.ReadDir("log")
		require.NoError(t, err)
		require.Subset(t, after, before)
	}
}
