package seglog_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/stretchr/testify/require"
)

// Bad input: directories that are no logs.
func TestOpeningWhatIsNoLogIsATypedError(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(empty, "a-file")
	writeFile(t, file, []byte("text"))
	foreign := t.TempDir()
	writeFile(t, filepath.Join(foreign, "thesis.docx"), []byte("text"))
	tests := []struct {
		name string
		dir  string
		opts seglog.Options
		want error
	}{
		{"missing, read-only", filepath.Join(empty, "nothing-0"), seglog.Options{ReadOnly: true}, fs.ErrNotExist},
		{"empty, read-only", t.TempDir(), seglog.Options{ReadOnly: true}, seglog.ErrNotALog},
		{"someone's documents", foreign, seglog.Options{}, seglog.ErrNotALog},
		{"someone's documents, read-only", foreign, seglog.Options{ReadOnly: true}, seglog.ErrNotALog},
		{"a file", file, seglog.Options{}, nil},
		{"a file, read-only", file, seglog.Options{ReadOnly: true}, nil},
		{"below a file", filepath.Join(file, "x-0"), seglog.Options{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := seglog.Open(tt.dir, tt.opts)
			require.Error(t, err)
			require.Nil(t, l)
			require.ErrorContains(t, err, tt.dir)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
			}
		})
	}
	require.NoDirExists(t, filepath.Join(empty, "nothing-0"))
	require.Equal(t, []string{"thesis.docx"}, names(t, foreign))
	require.NoFileExists(t, filepath.Join(foreign, "seglog.state"))
}

// Bad input: an unreadable directory.
func TestADirectoryThatCannotBeReadIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locked-0")
	require.NoError(t, os.Mkdir(dir, 0))
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	if _, err := os.ReadDir(dir); err == nil {
		return // this user, or this system, reads everything
	}
	for _, readOnly := range []bool{false, true} {
		_, err := seglog.Open(dir, seglog.Options{ReadOnly: readOnly})
		require.ErrorIs(t, err, fs.ErrPermission)
	}
}

func TestAMissingDirectoryIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "orders-0")
	l := openLog(t, dir, quick)
	appendEach(t, l, one(1, "r"))
	require.Equal(t, dir, l.Dir())
	l = reopen(t, l, quick)
	require.Len(t, readAll(t, l, 0), 1)
}

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	tests := []struct {
		field string
		opts  seglog.Options
	}{
		{"SegmentBytes", seglog.Options{SegmentBytes: 13}},
		{"SegmentBytes", seglog.Options{SegmentBytes: -1}},
		{"SegmentBytes", seglog.Options{SegmentBytes: 1 << 31}},
		{"SegmentAge", seglog.Options{SegmentAge: -1}},
		{"SegmentAge", seglog.Options{SegmentAge: time.Microsecond}},
		{"SegmentJitter", seglog.Options{SegmentJitter: -1}},
		{"SegmentIndexBytes", seglog.Options{SegmentIndexBytes: 7}},
		{"IndexIntervalBytes", seglog.Options{IndexIntervalBytes: -1}},
		{"MaxMessageBytes", seglog.Options{MaxMessageBytes: -1}},
		{"Compression", seglog.Options{Compression: 5}},
		{"Compression", seglog.Options{Compression: -1}},
		{"TimestampType", seglog.Options{TimestampType: 2}},
		{"LeaderEpoch", seglog.Options{LeaderEpoch: -2}},
		{"RetentionBytes", seglog.Options{RetentionBytes: -2}},
		{"Sync", seglog.Options{Sync: 9}},
		{"StartOffset", seglog.Options{StartOffset: -1}},
		{"MinCompactionLag", seglog.Options{MinCompactionLag: -1}},
		{"MaxCompactionLag", seglog.Options{MinCompactionLag: 1, MaxCompactionLag: -1}},
		{"MinCompactionLag", seglog.Options{MinCompactionLag: 2 * time.Hour, MaxCompactionLag: time.Hour}},
	}
	for _, tt := range tests {
		dir := filepath.Join(t.TempDir(), "x-0")
		_, err := seglog.Open(dir, tt.opts)
		require.ErrorIs(t, err, seglog.ErrOption, "%+v", tt.opts)
		var option *seglog.OptionError
		require.ErrorAs(t, err, &option)
		require.Equal(t, tt.field, option.Field)
		require.Equal(t, 1, strings.Count(err.Error(), "option "), "nothing else is to blame: %v", err)
		require.NoDirExists(t, dir)
	}
}

func TestOptionsOfACallOutOfRangeAreRefusedByName(t *testing.T) {
	l := openLog(t, t.TempDir(), seglog.Options{MinCompactionLag: time.Hour, MaxCompactionLag: time.Hour, Replicated: true})
	require.NoError(t, l.SetLeaderEpoch(0))
	p := seglog.Producer{ID: 7, Transactional: true}
	_, err := l.Append(many(1, 1), &seglog.AppendOptions{Producer: &p})
	require.NoError(t, err)
	policy := seglog.SyncPolicy(2)
	opts := &seglog.AppendOptions{Sync: &policy}
	for field, call := range map[string][]func() error{
		"Sync": {
			func() error { _, err := l.Append(many(1, 1), opts); return err },
			func() error { _, err := l.AppendBatch(plainBatch(t, 0, 0), opts); return err },
			func() error { _, err := l.AppendReplicated(plainBatch(t, 1, 1), opts); return err },
			func() error { _, err := l.EndTransaction(p, seglog.Commit, opts); return err },
			func() error { _, err := l.AbortTransaction(7, opts); return err },
		},
		"To": {
			func() error {
				for _, err := range l.Records(t.Context(), 0, &seglog.IterOptions{To: -1}) {
					return err
				}
				return nil
			},
			func() error {
				for _, err := range l.Batches(t.Context(), 0, &seglog.IterOptions{To: -1, Follow: true}) {
					return err
				}
				return nil
			},
		},
	} {
		for i, try := range call {
			err := try()
			require.ErrorIs(t, err, seglog.ErrOption, "%s %d", field, i)
			var option *seglog.OptionError
			require.ErrorAs(t, err, &option)
			require.Equal(t, field, option.Field)
		}
	}
	require.EqualValues(t, 1, l.Offsets().End, "nothing was appended")
}

// K053
func TestAGarbledRecoveryPointMeansFullRecovery(t *testing.T) {
	contents := map[string]string{
		"empty":                          "",
		"text":                           "abc",
		"another version":                "1\n1\norders 0 30\n",
		"fewer lines than it claims":     "0\n3\nother 1 30\n",
		"bad line for this partition":    "0\n2\nother 1 10\norders 0 x\n",
		"nothing about this partition":   "0\n1\nother 0 30\n",
		"the file is not there":          "-",
		"binary zeros":                   "\x00\x00\x00\x00",
		"a negative count":               "0\n-1\norders 0 30\n",
		"a negative offset":              "0\n1\norders 0 -5\n",
		"an offset that is not a number": "0\n1\norders 0 99999999999999999999\n",
	}
	for name, content := range contents {
		t.Run(name, func(t *testing.T) {
			broker := t.TempDir()
			dir := filepath.Join(broker, "orders-0")
			for base := int64(0); base < 40; base += 10 {
				writeLog(t, dir, base, plainBatch(t, base, base+9))
			}
			writeFile(t, filepath.Join(broker, "meta.properties"), []byte("version=1\n"))
			if content != "-" {
				writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte(content))
			}
			l := openLog(t, dir, quick)
			require.Equal(t, 4, stats(t, l).Recovery.Scanned)
			require.Equal(t, span(0, 39), offsetsOf(readAll(t, l, 0)))
		})
	}
}

// K053: the good lines of a bad file are used.
func TestGoodLinesOfABadCheckpointCount(t *testing.T) {
	broker := t.TempDir()
	dir := filepath.Join(broker, "a-b.c-0")
	for base := int64(0); base < 40; base += 10 {
		writeLog(t, dir, base, plainBatch(t, base, base+9))
	}
	writeFile(t, filepath.Join(broker, "meta.properties"), []byte("version=1\n"))
	text := []byte("0\n3\na-b.c 0 10\nother 1 x\nthird 2 30\n")
	writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), text)
	writeFile(t, filepath.Join(broker, "log-start-offset-checkpoint"), []byte("0\n2\na-b.c 0 5\nother 1\n"))
	l := openLog(t, dir, quick)
	require.Equal(t, 3, stats(t, l).Recovery.Scanned)
	require.Equal(t, int64(5), l.Offsets().Start)
	require.Equal(t, text, readFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint")), "it is the broker's")
}

// K053, with the library's own state file.
func TestAGarbledStateFileIsNotTrusted(t *testing.T) {
	changes := map[string]func([]byte) []byte{
		"empty":           func([]byte) []byte { return nil },
		"text":            func([]byte) []byte { return []byte("abc") },
		"half of it":      func(b []byte) []byte { return b[:len(b)/2] },
		"one flipped bit": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"zeros":           func(b []byte) []byte { return make([]byte, len(b)) },
		"1 MiB of zeros":  func([]byte) []byte { return make([]byte, 1<<20) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			dir := sealedAndActive(t, 1000)
			for _, copied := range []string{"seglog.state", "seglog.state.copy"} {
				edit(t, filepath.Join(dir, copied), change)
				if copied == "seglog.state" {
					l := openLog(t, dir, seglog.Options{ReadOnly: true, IndexIntervalBytes: 1})
					require.True(t, stats(t, l).Recovery.Clean, "the copy tells")
					require.False(t, stats(t, l).Recovery.StateLost)
					closeLog(t, l)
				}
			}
			for _, readOnly := range []bool{true, false} {
				l := openLog(t, dir, seglog.Options{ReadOnly: readOnly, IndexIntervalBytes: 1})
				requireTwenty(t, l, 1000)
				require.True(t, stats(t, l).Recovery.StateLost)
				if !readOnly {
					require.False(t, stats(t, l).Recovery.Clean)
					require.Equal(t, 2, stats(t, l).Recovery.Scanned)
				}
				closeLog(t, l)
			}
			l := openLog(t, dir, dense)
			require.True(t, stats(t, l).Recovery.Clean, "it was written anew")
		})
	}
}

// K054
func TestDeletedLeftoversGoAtOpen(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 10, plainBatch(t, 10, 14))
	leftovers := []string{
		"00000000000000000000.log.deleted",
		"00000000000000000000.index.deleted",
		"00000000000000000000.timeindex.deleted",
		"00000000000000000005.snapshot.deleted",
		"00000000000000000009.txnindex.deleted",
	}
	for _, name := range leftovers {
		writeFile(t, filepath.Join(dir, name), plainBatch(t, 0, 9))
	}
	before := traces(t, dir)
	ro := openLog(t, dir, seglog.Options{ReadOnly: true})
	require.Equal(t, []int64{10}, bases(t, ro))
	require.Equal(t, span(10, 14), offsetsOf(readAll(t, ro, 10)))
	closeLog(t, ro)
	requireUntouched(t, dir, before)

	l := openLog(t, dir, quick)
	require.Equal(t, int64(10), l.Offsets().Start)
	require.ElementsMatch(t, leftovers, stats(t, l).Recovery.Removed)
	for _, name := range leftovers {
		require.NoFileExists(t, filepath.Join(dir, name))
	}
}

// K055: the name of the directory does not matter to a log.
func TestALogOpensUnderAnyDirectoryName(t *testing.T) {
	for _, name := range []string{
		"a.b-0", "a-b-c-12", "-lead-0", "foo.bar-3.0123456789abcdef0123456789abcdef-delete",
		"foo-1.0123456789abcdef0123456789abcdef-future", "foo-1.0123456789abcdef0123456789abcdef-stray",
		"topic-", "-0", "foo-x", "x-delete", "foo-99999999999", "orders.eu-west-3", "no partition at all", "日誌",
	} {
		l := openLog(t, filepath.Join(t.TempDir(), name), quick)
		appendEach(t, l, many(3, 1)...)
		l = reopen(t, l, quick)
		require.Len(t, readAll(t, l, 0), 3, name)
	}
}

// K056
func TestStrayFilesAreNeitherReadNorTouched(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 0, plainBatch(t, 0, 4))
	strays := []string{
		"00000000000000000000.log.bak", "foo.log", "123.log", "00000000000000000000 (copy).log", ".nfs0001",
		"0000000000000000005.log", "000000000000000000005.log", "99999999999999999999.log",
		"00000000000000000005.LOG", "+0000000000000000005.log", "0000000000000000000x.log", "core", "notes.txt",
		"00000000000000000005.log.cut", "00000000000000000005.log~",
	}
	for _, name := range strays {
		writeFile(t, filepath.Join(dir, name), plainBatch(t, 5, 9))
	}
	subdirs := []string{"00000000000000000050.log", "00000000000000000060.log.deleted", "00000000000000000070.log.swap"}
	for _, name := range subdirs {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	strays = append(strays, subdirs...)
	slices.Sort(strays)
	before := traces(t, dir)
	for _, readOnly := range []bool{true, false} {
		l := openLog(t, dir, seglog.Options{ReadOnly: readOnly})
		require.Equal(t, []int64{0}, bases(t, l))
		require.Equal(t, span(0, 4), offsetsOf(readAll(t, l, 0)))
		closeLog(t, l)
		after := traces(t, dir)
		for _, name := range strays {
			require.Equal(t, before[name].data, after[name].data, name)
			require.Equal(t, before[name].info.ModTime(), after[name].info.ModTime(), name)
		}
	}
}

// K057
func TestAnEmptySegmentAtTheEndIsWhatACrashOfARollLeaves(t *testing.T) {
	build := func(t *testing.T) string {
		dir := t.TempDir()
		writeLog(t, dir, 0, plainBatch(t, 0, 99))
		writeLog(t, dir, 100, plainBatch(t, 100, 199))
		return dir
	}
	t.Run("an empty last log", func(t *testing.T) {
		dir := build(t)
		writeLog(t, dir, 200)
		l := openLog(t, dir, quick)
		require.Equal(t, int64(200), l.Offsets().End)
		appendEach(t, l, one(1, "on"))
		require.Equal(t, span(0, 200), offsetsOf(readAll(t, l, 0)))
	})
	t.Run("only its index", func(t *testing.T) {
		dir := build(t)
		writeFile(t, segmentFile(dir, 200, ".index"), nil)
		l := openLog(t, dir, quick)
		require.Equal(t, int64(200), l.Offsets().End)
		appendEach(t, l, one(1, "on"))
		require.Equal(t, span(0, 200), offsetsOf(readAll(t, l, 0)))
	})
	t.Run("an empty log in the middle", func(t *testing.T) {
		dir := t.TempDir()
		writeLog(t, dir, 0, plainBatch(t, 0, 99))
		writeLog(t, dir, 100)
		writeLog(t, dir, 200, plainBatch(t, 200, 204))
		for _, readOnly := range []bool{true, false} {
			l := openLog(t, dir, seglog.Options{ReadOnly: readOnly})
			require.Equal(t, spans(span(0, 99), span(200, 204)), offsetsOf(readAll(t, l, 0)))
			_, err := l.Get(150)
			var gap *seglog.GapError
			require.ErrorAs(t, err, &gap)
			require.Equal(t, int64(200), gap.Next)
			closeLog(t, l)
		}
	})
}

// K058
func TestOffsetsAreNotGivenOutAgainWhenTheDataIsLost(t *testing.T) {
	build := func(t *testing.T) *seglog.Log {
		l := openLog(t, filepath.Join(t.TempDir(), "orders-0"), seglog.Options{StartOffset: 400})
		appendEach(t, l, many(400, 1)...)
		require.NoError(t, l.DeleteBefore(500))
		return l
	}
	lose := func(t *testing.T, dir string) {
		for _, pattern := range []string{"*.log", "*.index", "*.timeindex"} {
			paths, err := filepath.Glob(filepath.Join(dir, pattern))
			require.NoError(t, err)
			for _, p := range paths {
				require.NoError(t, os.Remove(p))
			}
		}
	}
	check := func(t *testing.T, dir string, least int64) {
		lose(t, dir)
		l := openLog(t, dir, quick)
		require.True(t, stats(t, l).Recovery.Restarted)
		at, err := l.Append(many(1, 1), nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, at.BaseOffset, least)
		l = reopen(t, l, quick)
		require.Equal(t, []int64{at.BaseOffset}, offsetsOf(readAll(t, l, l.Offsets().Start)))
	}
	t.Run("closed before", func(t *testing.T) {
		l := build(t)
		closeLog(t, l)
		check(t, l.Dir(), 800)
	})
	t.Run("killed before", func(t *testing.T) {
		check(t, crash(t, build(t)), 500)
	})
	t.Run("a broker's, with its checkpoints", func(t *testing.T) {
		broker := t.TempDir()
		dir := filepath.Join(broker, "orders-0")
		require.NoError(t, os.Mkdir(dir, 0o755))
		writeFile(t, filepath.Join(broker, "meta.properties"), []byte("version=1\n"))
		writeFile(t, filepath.Join(broker, "log-start-offset-checkpoint"), []byte("0\n1\norders 0 500\n"))
		writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 800\n"))
		check(t, dir, 800)
	})
	for name, snapshots := range map[string]map[int64][]byte{
		"a broker's, with a snapshot that is newer":          {600: producerstate.Append(nil, nil), 800: producerstate.Append(nil, nil)},
		"a broker's, with a damaged snapshot behind a newer": {800: producerstate.Append(nil, nil), 900: noise(50)},
	} {
		t.Run(name, func(t *testing.T) {
			broker := t.TempDir()
			dir := filepath.Join(broker, "orders-0")
			require.NoError(t, os.Mkdir(dir, 0o755))
			writeFile(t, filepath.Join(broker, "meta.properties"), []byte("version=1\n"))
			writeFile(t, filepath.Join(broker, "log-start-offset-checkpoint"), []byte("0\n1\norders 0 500\n"))
			writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 500\n"))
			for offset, data := range snapshots {
				writeFile(t, segmentFile(dir, offset, ".snapshot"), data)
			}
			check(t, dir, 800)
		})
	}
}

// Bad input: files that are not what their suffix says.
func TestFilesOfAnotherKindAreNotTakenForALog(t *testing.T) {
	kinds := map[string][]byte{
		"text":    []byte("2026-01-01 00:00:00 INFO server started, and goes on for more than one header of a batch"),
		"png":     append([]byte("\x89PNG\r\n\x1a\n"), noise(500)...),
		"noise":   noise(5000),
		"ones":    slices.Repeat([]byte{0xff}, 500),
		"a batch": append(plainBatch(t, 0, 2)[:30], noise(500)...),
	}
	for name, content := range kinds {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, 0, content)
			writeLog(t, dir, 10, plainBatch(t, 10, 14))
			for _, readOnly := range []bool{true, false} {
				l := openLog(t, dir, seglog.Options{ReadOnly: readOnly})
				found, damage := offsetsFrom(t, l, 0)
				require.Equal(t, span(10, 14), found)
				require.NotEmpty(t, damage)
				require.Equal(t, "00000000000000000000.log", damage[0].File)
				require.Zero(t, damage[0].Position)
				closeLog(t, l)
			}
			require.Equal(t, content, readFile(t, segmentFile(dir, 0, ".log")), "a sealed file is not cut")
		})
	}
}

// Bad input: two segments that overlap.
func TestOverlappingSegmentsAreNamedAndNoOffsetIsServedTwice(t *testing.T) {
	build := func(t *testing.T) (broker, dir string) {
		broker = t.TempDir()
		dir = filepath.Join(broker, "orders-0")
		writeLog(t, dir, 0, plainBatch(t, 0, 5), plainBatch(t, 6, 14))
		writeLog(t, dir, 10, plainBatch(t, 10, 19))
		writeLog(t, dir, 20, plainBatch(t, 20, 24))
		return broker, dir
	}
	t.Run("behind the recovery point", func(t *testing.T) {
		broker, dir := build(t)
		writeFile(t, filepath.Join(broker, "recovery-point-offset-checkpoint"), []byte("0\n1\norders 0 0\n"))
		before := traces(t, dir)
		_, err := seglog.Open(dir, quick)
		require.ErrorIs(t, err, seglog.ErrOverlap)
		require.ErrorIs(t, err, seglog.ErrCorrupt)
		var overlap *seglog.OverlapError
		require.ErrorAs(t, err, &overlap)
		require.Equal(t, seglog.OverlapError{Segment: 0, LastOffset: 14, Next: 10}, *overlap)
		for name, was := range before {
			require.Equal(t, was.data, string(readFile(t, filepath.Join(dir, name))))
		}
	})
	t.Run("before it", func(t *testing.T) {
		_, dir := build(t)
		for _, readOnly := range []bool{true, false} {
			l := openLog(t, dir, seglog.Options{ReadOnly: readOnly})
			found, _ := offsetsFrom(t, l, 0) // requires that they rise
			require.Subset(t, found, spans(span(0, 9), span(20, 24)))
			for _, o := range []int64{0, 5, 6, 9, 10, 19, 20, 24} {
				r, err := l.Get(o)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint("value ", o), string(r.Value))
			}
			closeLog(t, l)
		}
	})
}

// K063
func TestOpeningAndClosingDoesNotMakeFilesLookNew(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 0, legacyMessage(0, 0, 0, 0, nil, []byte("a")), legacyMessage(0, 1, 0, 0, nil, []byte("b")))
	writeLog(t, dir, 2, plainBatch(t, 2, 9), plainBatch(t, 10, 19))
	writeLog(t, dir, 20, plainBatch(t, 20, 21))
	l := openLog(t, dir, dense)
	_ = segments(t, l) // makes the indexes
	closeLog(t, l)
	age(t, dir, 30*day)
	before := traces(t, dir)
	for _, readOnly := range []bool{false, true, false} {
		opts := dense
		opts.ReadOnly = readOnly
		l = openLog(t, dir, opts)
		require.Equal(t, span(0, 21), offsetsOf(readAll(t, l, 0)))
		_ = segments(t, l)
		_ = offsetForTime(t, l, 15)
		closeLog(t, l)
		requireUntouched(t, dir, before)
		_, err := seglog.Verify(t.Context(), dir, seglog.VerifyOptions{})
		require.NoError(t, err)
		_, err = seglog.Repair(t.Context(), dir, seglog.RepairOptions{})
		require.NoError(t, err)
		requireUntouched(t, dir, before)
	}
}

// K095
func TestReadingChangesNothing(t *testing.T) {
	dir := sealedAndActive(t, 1000)
	require.NoError(t, os.Remove(segmentFile(dir, 0, ".index")))
	require.NoError(t, os.Truncate(segmentFile(dir, 10, ".timeindex"), 10485756))
	f, err := os.OpenFile(segmentFile(dir, 10, ".log"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write([]byte("torn"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	writeFile(t, filepath.Join(dir, "00000000000000000005.log.deleted"), nil)
	writeFile(t, filepath.Join(dir, "leader-epoch-checkpoint.tmp"), nil)
	require.NoError(t, os.Remove(filepath.Join(dir, ".lock")))
	for _, name := range names(t, dir) {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o444))
	}
	require.NoError(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { os.Chmod(dir, 0o755) })

	state := readFile(t, filepath.Join(dir, "seglog.state"))
	before := traces(t, dir)
	l := openLog(t, dir, seglog.Options{ReadOnly: true})
	requireTwenty(t, l, 1000)
	_ = segments(t, l)
	_ = stats(t, l)
	_, err = l.Read(3, 1000, nil)
	require.NoError(t, err)
	require.NoError(t, l.Refresh())
	for _, write := range map[string]func() error{
		"append":         func() error { _, err := l.Append(many(1, 1), nil); return err },
		"append batch":   func() error { _, err := l.AppendBatch(plainBatch(t, 0, 0), nil); return err },
		"replicated":     func() error { _, err := l.AppendReplicated(plainBatch(t, 20, 20), nil); return err },
		"roll":           func() error { _, err := l.Roll(); return err },
		"truncate":       func() error { return l.TruncateTo(3) },
		"truncate fully": func() error { return l.TruncateFullyAndStartAt(3) },
		"delete before":  func() error { return l.DeleteBefore(3) },
		"retention":      func() error { _, err := l.ApplyRetention(t.Context()); return err },
		"sync":           func() error { return l.Sync() },
	} {
		require.ErrorIs(t, write(), seglog.ErrReadOnly)
	}
	closeLog(t, l)
	requireUntouched(t, dir, before)
	require.Equal(t, state, readFile(t, filepath.Join(dir, "seglog.state")))
	require.NoFileExists(t, filepath.Join(dir, ".lock"))
}
