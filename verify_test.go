package seglog

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/record"
)

// A verifyLog is a directory that a test damages.
type verifyLog struct {
	t   testing.TB
	dir string
}

// newVerifyLog writes batches of records, each with the next timestamp. An
// index has an entry for every batch but the first.
func newVerifyLog(t testing.TB, batches, records int, segmentBytes int64) verifyLog {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "orders-0")
	l, err := Open(dir, Options{SegmentBytes: segmentBytes, IndexIntervalBytes: 1, Sync: SyncNever})
	require.NoError(t, err)
	n := 0
	for range batches {
		set := make([]Record, records)
		for i := range set {
			set[i] = Record{Timestamp: int64(1000 + n), Key: fmt.Appendf(nil, "k%03d", n), Value: fmt.Appendf(nil, "value %03d", n)}
			n++
		}
		_, err := l.Append(set, nil)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	return verifyLog{t, dir}
}

func copyVerifyLog(t testing.TB, from string) verifyLog {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(from))
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	return verifyLog{t, dir}
}

func (v verifyLog) path(name string) string { return filepath.Join(v.dir, name) }

func (v verifyLog) read(name string) []byte {
	v.t.Helper()
	data, err := os.ReadFile(v.path(name))
	require.NoError(v.t, err)
	return data
}

func (v verifyLog) write(name string, data []byte) {
	v.t.Helper()
	require.NoError(v.t, os.WriteFile(v.path(name), data, 0o644))
}

func (v verifyLog) edit(name string, change func(data []byte) []byte) {
	v.t.Helper()
	v.write(name, change(v.read(name)))
}

func (v verifyLog) remove(name string) {
	v.t.Helper()
	require.NoError(v.t, os.Remove(v.path(name)))
}

func (v verifyLog) verify(opts VerifyOptions) VerifyReport {
	v.t.Helper()
	r, err := Verify(v.t.Context(), v.dir, opts)
	require.NoError(v.t, err)
	return r
}

// lines is the problems as they are shown, with what they are.
func lines(r VerifyReport) []string {
	var all []string
	for _, p := range r.Problems {
		all = append(all, p.Severity.String()+" "+p.Kind+" "+p.String())
	}
	return all
}

func kindsOf(r VerifyReport) []string {
	var all []string
	for _, p := range r.Problems {
		all = append(all, p.Kind)
	}
	return all
}

// positions returns where the batches of a log begin, and its end.
func positions(t testing.TB, log []byte) []int64 {
	t.Helper()
	var all []int64
	at := 0
	for ; at < len(log); all = append(all, int64(at)) {
		b, err := record.Parse(log[at:])
		require.NoError(t, err)
		if len(all) > 0 {
			all = all[:len(all):len(all)]
		}
		at += b.Size()
	}
	starts := []int64{0}
	return append(starts, all...)
}

var (
	firstLog       = layout.LogName(0)
	firstIndex     = layout.OffsetIndexName(0)
	firstTimeIndex = layout.TimeIndexName(0)
)

// flip inverts a bit.
func flip(at int64, bit int) func([]byte) []byte {
	return func(data []byte) []byte {
		data[at] ^= 1 << bit
		return data
	}
}

func put(at int64, b ...byte) func([]byte) []byte {
	return func(data []byte) []byte {
		copy(data[at:], b)
		return data
	}
}

func grow(n int) func([]byte) []byte {
	return func(data []byte) []byte { return append(data, make([]byte, n)...) }
}

// seal stores the right checksum for what a batch of magic 2 at pos now holds.
func seal(pos int64) func([]byte) []byte {
	return func(data []byte) []byte {
		size := int64(binary.BigEndian.Uint32(data[pos+8:])) + record.LogOverhead
		sum := crc32.Checksum(data[pos+21:pos+size], crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(data[pos+17:], sum)
		return data
	}
}

var kafkaDirs = []string{"testdata/kafka/4.3.1", "testdata/kafka/4.3.1-recovered"}

func partitions(t testing.TB, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, filepath.Join(root, e.Name()))
		}
	}
	require.NotEmpty(t, all)
	return all
}

func TestVerifyFindsNoFaultInWhatABrokerStopped(t *testing.T) {
	for _, root := range kafkaDirs {
		for _, dir := range partitions(t, root) {
			for _, opts := range []VerifyOptions{{}, {Quick: true}, {Jobs: 1}} {
				r, err := Verify(t.Context(), dir, opts)
				require.NoError(t, err)
				require.Empty(t, lines(r), dir)
				require.Zero(t, r.Unreadable)
				require.Positive(t, r.Records)
				logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
				require.NoError(t, err)
				require.Equal(t, len(logs), r.Segments)
				if data, err := os.ReadFile(filepath.Join(root+".expect", filepath.Base(dir), "offsets.json")); err == nil {
					var want struct{ End int64 }
					require.NoError(t, json.Unmarshal(data, &want))
					require.Equal(t, want.End, r.ReadableBelow, dir)
				}
			}
		}
	}
}

func TestVerifyTellsWhatAKilledBrokerLeft(t *testing.T) {
	padding := []string{"index_padding", "timeindex_padding"}
	for _, tt := range []struct {
		dir  string
		want []string
	}{
		{"killed-0", nil},
		{"open-txn-0", nil},
		{"torn-0", []string{"torn_tail"}},
		{"torn-header-0", []string{"torn_tail"}},
		{"zeros-0", []string{"zero_tail"}},
		{"garbage-0", []string{"bad_magic"}},
		{"flipped-0", []string{"crc_mismatch", "index_position"}},
	} {
		t.Run(tt.dir, func(t *testing.T) {
			r, err := Verify(t.Context(), filepath.Join("testdata/kafka/4.3.1-killed", tt.dir), VerifyOptions{})
			require.NoError(t, err)
			require.Equal(t, append(slices.Clone(padding), tt.want...), kindsOf(r))
			require.Equal(t, 2, r.Notes)
			// Everything a broker kept when it recovered is readable.
			recovered, err := Verify(t.Context(), filepath.Join("testdata/kafka/4.3.1-recovered", tt.dir), VerifyOptions{})
			require.NoError(t, err)
			require.Equal(t, recovered.ReadableBelow, r.ReadableBelow)
		})
	}
}

func TestVerifyFindsNothingInALogOfOurs(t *testing.T) {
	for _, segmentBytes := range []int64{0, 400} {
		v := newVerifyLog(t, 20, 3, segmentBytes)
		r := v.verify(VerifyOptions{})
		require.Empty(t, lines(r))
		require.EqualValues(t, 20, r.Batches)
		require.EqualValues(t, 60, r.Records)
		require.EqualValues(t, 60, r.ReadableBelow)
	}
}

// Whatever bit of a batch flips, that is found, and no other batch is lost or
// accused. A few bits nothing guards: those of the leader epoch, and those of a
// base offset that still fits between its neighbours.
func TestVerifyFindsEveryFlippedBitOfALog(t *testing.T) {
	v := newVerifyLog(t, 5, 2, 0)
	clean := v.read(firstLog)
	starts := positions(t, clean)
	const victim = 2
	for at := starts[victim]; at < starts[victim+1]; at++ {
		for bit := range 8 {
			v.write(firstLog, flip(at, bit)(bytes.Clone(clean)))
			r := v.verify(VerifyOptions{})
			field := at - starts[victim]
			what := fmt.Sprintf("byte %d bit %d: %v", field, bit, lines(r))
			if field >= 12 && field < 16 { // the leader epoch costs no record
				require.Equal(t, []string{"epoch_order"}, kindsOf(r), what)
				require.Equal(t, starts[victim], r.Problems[0].Position, what)
				require.Zero(t, r.Damage, what)
				continue
			}
			require.Equal(t, 1, count1(r, "log"), what)
			bad := ofLog(r)
			require.Equal(t, starts[victim], bad.Position, what)
			require.EqualValues(t, 4, r.ReadableBelow, what)
			require.Equal(t, 1, r.DamagedSegments, what)
			if field < 8 {
				require.GreaterOrEqual(t, r.Batches, int64(4), what)
				continue
			}
			require.EqualValues(t, 4, r.Batches, what)
			require.Equal(t, starts[victim+1]-starts[victim], r.Unreadable, what)
			require.Equal(t, r.Unreadable, bad.Length, what)
		}
	}
}

// A leader epoch that falls from one segment to the next.
func TestVerifyComparesTheLeaderEpochsOfSegments(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	require.NoError(t, err)
	for i, epoch := range []int32{7, 6} {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: int64(i), LeaderEpoch: epoch})
		require.NoError(t, b.Append(Record{Value: []byte("x")}))
		batch, err := b.Build()
		require.NoError(t, err)
		_, err = l.AppendReplicated(batch, nil)
		require.NoError(t, err)
		_, err = l.Roll()
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	r, err := Verify(t.Context(), dir, VerifyOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"epoch_order"}, kindsOf(r))
	require.Equal(t, "00000000000000000000.log: position 0, offset 0: leader epoch 7, and the next segment begins with 6", r.Problems[0].String())
}

// ofLog is the first problem of a log.
func ofLog(r VerifyReport) Problem {
	return r.Problems[slices.IndexFunc(r.Problems, func(p Problem) bool { return strings.HasSuffix(p.File, ".log") })]
}

// count1 counts the problems of one kind of file.
func count1(r VerifyReport, ext string) int {
	n := 0
	for _, p := range r.Problems {
		if strings.HasSuffix(p.File, "."+ext) {
			n++
		}
	}
	return n
}

// A quick check reads no checksums, and is not led astray by a length.
func TestQuickVerifyFindsDamagedFrames(t *testing.T) {
	v := newVerifyLog(t, 5, 2, 0)
	clean := v.read(firstLog)
	starts := positions(t, clean)
	v.write(firstLog, flip(starts[2]+70, 0)(bytes.Clone(clean)))
	require.Empty(t, v.verify(VerifyOptions{Quick: true}).Problems)

	for at := starts[2] + 8; at < starts[2]+12; at++ {
		for bit := range 8 {
			v.write(firstLog, flip(at, bit)(bytes.Clone(clean)))
			r := v.verify(VerifyOptions{Quick: true})
			require.Equal(t, 1, count1(r, "log"), "%v", lines(r))
			require.EqualValues(t, 4, r.Batches)
		}
	}
	v.write(firstLog, put(starts[2]+57, 0, 0, 0, 9)(bytes.Clone(clean)))
	require.Contains(t, kindsOf(v.verify(VerifyOptions{Quick: true})), "bad_header")
}

// K042
func TestALengthThatClaimsTooMuchHidesNothingFromVerify(t *testing.T) {
	for _, length := range []uint32{0x7fffffff, 0x7ffffff0, 1 << 20} {
		v := newVerifyLog(t, 1000, 1, 0)
		starts := positions(t, v.read(firstLog))
		v.edit(firstLog, put(starts[10]+8, binary.BigEndian.AppendUint32(nil, length)...))
		r := v.verify(VerifyOptions{})
		require.Equal(t, []string{"bad_size", "index_position"}, kindsOf(r))
		require.Contains(t, r.Problems[0].Detail, fmt.Sprintf("%d bytes unread, the next good batch is at position %d", starts[11]-starts[10], starts[11]))
		require.EqualValues(t, 999, r.Batches)
		require.EqualValues(t, 10, r.ReadableBelow)
		require.Equal(t, 9, r.Problems[1].Entry)

		require.Len(t, v.verify(VerifyOptions{Quick: true}).Problems, 2)
	}
}

// K043
func TestHeadersThatLieAreProblemsAndCostNoMemory(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(pos int64) func([]byte) []byte
		kind   string
	}{
		{"length 2^31", func(p int64) func([]byte) []byte { return put(p+8, 0x80, 0, 0, 0) }, "bad_size"},
		{"length -12", func(p int64) func([]byte) []byte { return put(p+8, 0xff, 0xff, 0xff, 0xf4) }, "bad_size"},
		{"length just below 2^31", func(p int64) func([]byte) []byte { return put(p+8, 0x7f, 0xff, 0xff, 0xf8) }, "bad_size"},
		{"length 0", func(p int64) func([]byte) []byte { return put(p+8, 0, 0, 0, 0) }, "bad_size"},
		{"count -1", func(p int64) func([]byte) []byte { return put(p+57, 0xff, 0xff, 0xff, 0xff) }, "bad_record"},
		{"count 2^31-1", func(p int64) func([]byte) []byte { return put(p+57, 0x7f, 0xff, 0xff, 0xff) }, "bad_header"},
		{"count 0 with records", func(p int64) func([]byte) []byte { return put(p+57, 0, 0, 0, 0) }, "bad_record"},
		{"count 1 of 2", func(p int64) func([]byte) []byte { return put(p+57, 0, 0, 0, 1) }, "bad_record"},
		{"last offset delta negative", func(p int64) func([]byte) []byte { return put(p+23, 0xff, 0xff, 0xff, 0xff) }, "bad_header"},
		{"last offset delta too small", func(p int64) func([]byte) []byte { return put(p+23, 0, 0, 0, 0) }, "bad_header"},
		{"last offset delta beyond a segment", func(p int64) func([]byte) []byte { return put(p+23, 0x7f, 0xff, 0xff, 0xff) }, "offset_range"},
		{"codec 5", func(p int64) func([]byte) []byte { return put(p+21, 0, 5) }, "bad_codec"},
		{"codec 7", func(p int64) func([]byte) []byte { return put(p+21, 0, 7) }, "bad_codec"},
		{"codec zstd over plain bytes", func(p int64) func([]byte) []byte { return put(p+21, 0, 4) }, "bad_record"},
		{"codec lz4 over plain bytes", func(p int64) func([]byte) []byte { return put(p+21, 0, 3) }, "bad_record"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newVerifyLog(t, 5, 2, 0)
			starts := positions(t, v.read(firstLog))
			v.edit(firstLog, tt.damage(starts[2]))
			if !strings.HasPrefix(tt.name, "length") {
				v.edit(firstLog, seal(starts[2])) // so that only the field is wrong
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := v.verify(VerifyOptions{})
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
			require.Equal(t, tt.kind, r.Problems[0].Kind, "%v", lines(r))
			require.Equal(t, starts[2], r.Problems[0].Position)
			require.Equal(t, 1, count1(r, "log"), "%v", lines(r))
			require.EqualValues(t, 4, r.Batches)
		})
	}
}

// K127: bits that mean nothing are no fault.
func TestVerifyIgnoresUnusedAttributeBits(t *testing.T) {
	v := newVerifyLog(t, 3, 2, 0)
	v.edit(firstLog, put(21, 0xff, 0x80))
	v.edit(firstLog, seal(0))
	require.Empty(t, lines(v.verify(VerifyOptions{})))
}

func TestVerifyFindsRecordsThatDoNotBelongIntoTheirBatch(t *testing.T) {
	v := newVerifyLog(t, 1, 2, 0)
	log := v.read(firstLog)
	// The offset delta of the second record: behind its length, attributes and
	// a timestamp delta of one byte.
	second := record.HeaderSize + 1 + int(log[record.HeaderSize])/2 + 3
	require.EqualValues(t, 2, log[second])
	for _, delta := range []byte{0, 1, 4} {
		v.write(firstLog, seal(0)(put(int64(second), delta)(bytes.Clone(log))))
		r := v.verify(VerifyOptions{})
		require.Equal(t, []string{"bad_record"}, kindsOf(r))
		require.Contains(t, r.Problems[0].Detail, "record 1: offset")
	}
	// The time delta of the first record: later than the batch says.
	v.write(firstLog, seal(0)(put(record.HeaderSize+2, 40)(bytes.Clone(log))))
	r := v.verify(VerifyOptions{})
	require.Equal(t, []string{"max_timestamp"}, kindsOf(r))
	require.Equal(t, Warning, r.Problems[0].Severity)
}

// K039
func TestVerifyTellsATornTailFromDamage(t *testing.T) {
	whole := newVerifyLog(t, 3, 2, 0)
	log := whole.read(firstLog)
	starts := positions(t, log)
	size := starts[3] - starts[2]
	// A single byte of it would be a zero, which is told as such.
	for _, keep := range []int64{11, 16, 17, 60, 61, size - 1} {
		whole.write(firstLog, log[:starts[2]+keep])
		r := whole.verify(VerifyOptions{})
		require.Equal(t, "torn_tail", r.Problems[0].Kind)
		require.Equal(t, starts[2], r.Problems[0].Position)
		require.Contains(t, r.Problems[0].String(), fmt.Sprintf("torn tail of %d bytes", keep))
		require.Equal(t, Warning, r.Problems[0].Severity)
		require.EqualValues(t, 4, r.ReadableBelow)
		if keep >= record.HeaderSize {
			require.Zero(t, r.Damage)
		} else { // then nobody knows how many more there were
			require.Equal(t, 1, r.Damage)
			require.Contains(t, kindsOf(r), "missing_end")
		}
	}

	v := newVerifyLog(t, 10, 2, 400)
	name := layout.LogName(0)
	v.edit(name, func(data []byte) []byte { return data[:len(data)-3] })
	r := v.verify(VerifyOptions{})
	require.Equal(t, "torn_tail", r.Problems[0].Kind)
	require.Equal(t, Damage, r.Problems[0].Severity, "a sealed segment has no business being torn")
}

// K040
func TestVerifyCountsTheZerosAtTheEnd(t *testing.T) {
	for _, n := range []int{5, 4096, 1 << 20} {
		v := newVerifyLog(t, 3, 2, 0)
		end := len(v.read(firstLog))
		v.edit(firstLog, grow(n))
		r := v.verify(VerifyOptions{})
		require.Equal(t, []string{fmt.Sprintf("damage zero_tail %s: %d zero bytes at position %d", firstLog, n, end)}, lines(r))
		require.EqualValues(t, 3, r.Batches)
		require.EqualValues(t, 6, r.ReadableBelow)
	}
}

// K041
func TestOneFlippedBitIsOneBadBatch(t *testing.T) {
	v := newVerifyLog(t, 20, 2, 1100)
	starts := positions(t, v.read(firstLog))
	require.Len(t, starts, 11, "ten batches in the first segment")
	v.edit(firstLog, flip(starts[5]+80, 3))
	r := v.verify(VerifyOptions{})
	require.Equal(t, []string{"crc_mismatch", "index_position"}, kindsOf(r))
	require.Regexp(t, `crc mismatch \(stored [0-9a-f]{8}, computed [0-9a-f]{8}\)`, r.Problems[0].Detail)
	require.EqualValues(t, 10, r.Problems[0].Offset)
	require.Equal(t, fmt.Sprintf("%s: entry 4: position %d does not start a readable batch", firstIndex, starts[5]), r.Problems[1].String())
	require.EqualValues(t, 19, r.Batches)
	require.EqualValues(t, 10, r.ReadableBelow)
	require.Equal(t, 1, r.DamagedSegments)
}

func TestVerifyNamesTheBatchWhoseOffsetIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name   string
		offset int64
		kind   string
	}{
		{"a little back", 9, "offset_order"},
		{"far back", 0, "offset_order"},
		{"forward, over its followers", 15, "offset_order"},
		{"below the segment", -1, "offset_range"},
		{"beyond what a segment can hold", 1 << 33, "offset_range"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newVerifyLog(t, 10, 2, 0)
			starts := positions(t, v.read(firstLog))
			v.edit(firstLog, put(starts[5], binary.BigEndian.AppendUint64(nil, uint64(tt.offset))...))
			r := v.verify(VerifyOptions{})
			require.Equal(t, 1, count1(r, "log"), "%v", lines(r))
			require.Equal(t, tt.kind, ofLog(r).Kind)
			require.Equal(t, starts[5], ofLog(r).Position, "%v", lines(r))
			require.EqualValues(t, 10, r.ReadableBelow)
		})
	}
}

// K027
func TestVerifyAcceptsEveryIndexThatLeadsToTheRightPlace(t *testing.T) {
	v := newVerifyLog(t, 3, 10, 0)
	starts := positions(t, v.read(firstLog))
	entry := func(offset, position int64) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(offset))
		return binary.BigEndian.AppendUint32(b, uint32(position))
	}
	for _, tt := range []struct {
		name  string
		index []byte
	}{
		{"last offsets", slices.Concat(entry(19, starts[1]), entry(29, starts[2]))},
		{"first offsets", slices.Concat(entry(10, starts[1]), entry(20, starts[2]))},
		{"one entry for two batches", entry(29, starts[1])},
		{"an entry for the first batch", entry(9, 0)},
		{"a single entry of zeros", entry(0, 0)}, // K023
		{"empty", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v.write(firstIndex, tt.index)
			require.Empty(t, lines(v.verify(VerifyOptions{})))
			require.Empty(t, lines(v.verify(VerifyOptions{Quick: true})))
		})
	}
	for _, tt := range []struct {
		name  string
		index []byte
		want  string
	}{
		{"below the batch", entry(9, starts[1]), fmt.Sprintf("entry 0: offset 9 is below the batch at position %d, which begins at 10", starts[1])},
		{"inside of a batch", entry(19, starts[1]+1), fmt.Sprintf("entry 0: position %d does not start a batch", starts[1]+1)},
		{"behind the log", slices.Concat(entry(19, starts[1]), entry(20, starts[3])), fmt.Sprintf("entry 1: position %d is behind the log, which ends at %d", starts[3], starts[3])},
		{"an offset that is not there", slices.Concat(entry(19, starts[1]), entry(30, starts[2])), "entry 1: offset 30 is behind the segment, which ends at 29"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v.write(firstIndex, tt.index)
			r := v.verify(VerifyOptions{})
			require.Len(t, r.Problems, 1)
			require.Equal(t, firstIndex+": "+tt.want, r.Problems[0].String())
			require.Equal(t, Damage, r.Problems[0].Severity)
			require.EqualValues(t, 30, r.ReadableBelow, "an index costs no record")
		})
	}
}

// K024
func TestVerifyNamesFileRuleAndEntryOfABadIndex(t *testing.T) {
	for _, tt := range []struct {
		name   string
		file   string
		damage func([]byte) []byte
		want   []string
	}{
		{"13 bytes", firstIndex, func([]byte) []byte { return make([]byte, 13) },
			[]string{"index_odd_length " + firstIndex + ": length 13 is not a multiple of 8"}},
		{"25 bytes", firstTimeIndex, func(b []byte) []byte { return append(b[:24:24], 0) },
			[]string{"timeindex_odd_length " + firstTimeIndex + ": length 25 is not a multiple of 12"}},
		{"last relative offset -1", firstIndex, func(b []byte) []byte { return put(int64(len(b)-8), 0xff, 0xff, 0xff, 0xff)(b) },
			[]string{"index_entry " + firstIndex + ": entry 8: offset -1 at position 909: makes no sense"}},
		{"offset out of order", firstIndex, put(24, 0, 0, 0, 3),
			[]string{"index_order " + firstIndex + ": entry 3: offset 3 at position 404: not above entry 2, offset 7 at position 303"}},
		{"offset above those behind it", firstIndex, put(24, 0, 0, 1, 3),
			[]string{"index_order " + firstIndex + ": entry 3: offset 259 at position 404: not below entry 4, offset 11 at position 505"}},
		{"first offset above those behind it", firstIndex, put(0, 0, 0, 1, 3),
			[]string{"index_order " + firstIndex + ": entry 0: offset 259 at position 101: not below entry 1, offset 5 at position 202"}},
		{"zeros in the middle", firstIndex, put(24, make([]byte, 8)...),
			[]string{"index_order " + firstIndex + ": entry 3: offset 0 at position 0: not above entry 2, offset 7 at position 303"}},
		{"last timestamp below the first", firstTimeIndex, func(b []byte) []byte { return put(int64(len(b)-12), 0, 0, 0, 0, 0, 0, 0, 1)(b) },
			[]string{"timeindex_order " + firstTimeIndex + ": entry 8: timestamp 1 at offset 19: not above entry 7, timestamp 1017 at offset 17"}},
		{"negative timestamp", firstTimeIndex, put(12, 0xff),
			[]string{"timeindex_entry " + firstTimeIndex + ": entry 1: timestamp -72057594037926931 at offset 5: makes no sense"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newVerifyLog(t, 10, 2, 0)
			v.edit(tt.file, tt.damage)
			r := v.verify(VerifyOptions{})
			var got []string
			for _, p := range r.Problems {
				got = append(got, p.Kind+" "+p.String())
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestVerifyComparesTheTimeIndexWithEveryRecord(t *testing.T) {
	entry := func(timestamp, offset int64) []byte {
		b := binary.BigEndian.AppendUint64(nil, uint64(timestamp))
		return binary.BigEndian.AppendUint32(b, uint32(offset))
	}
	v := newVerifyLog(t, 3, 10, 0) // timestamps 1000 to 1029
	for _, tt := range []struct {
		name  string
		index []byte
		want  string
	}{
		{"as written", slices.Concat(entry(1019, 19), entry(1029, 29)), ""},
		{"offsets of records", slices.Concat(entry(1015, 15), entry(1029, 29)), ""},
		{"later than all before", slices.Concat(entry(1017, 15), entry(1029, 29)), ""},
		{"last record of a batch", entry(1018, 19), "entry 0: a record up to offset 19 has timestamp 1019, above the entry's 1018"},
		{"record in a batch", entry(1014, 15), "entry 0: a record up to offset 15 has timestamp 1015, above the entry's 1014"},
		{"between batches", slices.Concat(entry(1001, 9), entry(1029, 29)), "entry 0: a record up to offset 9 has timestamp 1009, above the entry's 1001"},
		{"at the end", entry(1028, 29), "entry 0: a record up to offset 29 has timestamp 1029, above the entry's 1028"},
		{"a timestamp that nothing has", entry(1030, 29), "entry 0: the last entry has timestamp 1030, the largest in the log is 1029"},
		{"an offset that is not there", entry(1029, 30), "entry 0: offset 30 is behind the segment, which ends at 29"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v.write(firstTimeIndex, tt.index)
			r := v.verify(VerifyOptions{})
			if tt.want == "" {
				require.Empty(t, lines(r))
				return
			}
			require.Contains(t, lines(r)[0], firstTimeIndex+": "+tt.want)
		})
	}
}

func TestTheTimeIndexOfASealedSegmentEndsWithTheLargestTimestamp(t *testing.T) {
	v := newVerifyLog(t, 20, 2, 1100)
	v.edit(firstTimeIndex, func(b []byte) []byte { return b[:len(b)-12] })
	r := v.verify(VerifyOptions{})
	require.Equal(t, []string{"timeindex_largest"}, kindsOf(r))
}

// K022
func TestVerifyCountsThePaddingOfAnIndex(t *testing.T) {
	v := newVerifyLog(t, 20, 2, 1100)
	last := v.read(layout.TimeIndexName(20))
	pad := func(name string, size, to int) int64 {
		n := len(v.read(name))
		v.edit(name, grow(to-n))
		return int64(to/size - n/size)
	}
	timeSlots := pad(firstTimeIndex, 12, 10485756)
	slots := pad(firstIndex, 8, 10485760)
	pad(layout.TimeIndexName(20), 12, len(last)+120)
	r := v.verify(VerifyOptions{})
	require.Equal(t, []string{
		fmt.Sprintf("warning index_padding %s: %d zero entries behind 9 entries", firstIndex, slots),
		fmt.Sprintf("warning timeindex_padding %s: %d zero entries behind 9 entries", firstTimeIndex, timeSlots),
		fmt.Sprintf("note timeindex_padding %s: 10 zero entries behind 9 entries", layout.TimeIndexName(20)),
	}, lines(r))
}

// K025
func TestAMissingOrEmptyIndexIsAWarning(t *testing.T) {
	v := newVerifyLog(t, 100, 2, 9000)
	v.remove(firstIndex)
	require.Equal(t, []string{"index_missing"}, kindsOf(v.verify(VerifyOptions{})))
	v.write(firstIndex, nil)
	require.Equal(t, []string{"index_empty"}, kindsOf(v.verify(VerifyOptions{})))
	v.write(firstTimeIndex, nil)
	require.Equal(t, []string{"index_empty", "timeindex_empty"}, kindsOf(v.verify(VerifyOptions{})))
	v.remove(firstTimeIndex)
	r := v.verify(VerifyOptions{})
	require.Equal(t, []string{"index_empty", "timeindex_missing"}, kindsOf(r))
	require.Zero(t, r.Damage)

	empty := newVerifyLog(t, 0, 0, 0)
	empty.remove(firstIndex)
	require.Empty(t, empty.verify(VerifyOptions{}).Problems, "an empty log needs none")
}

// K026, K054, K056
func TestVerifyTellsWhatElseIsInTheDirectory(t *testing.T) {
	v := newVerifyLog(t, 10, 2, 400)
	for _, name := range []string{
		"00000000000000000500.index", "00000000000000000500.txnindex",
		"00000000000000000000.log.deleted", "00000000000000000005.snapshot.deleted", "leader-epoch-checkpoint.tmp",
		"00000000000000000000.log.bak", "foo.log", "123.log", "00000000000000000000 (copy).log", ".nfs0001",
		"0000000000000000000.log", "000000000000000000000.log", "99999999999999999999.log",
	} {
		v.write(name, nil)
	}
	require.NoError(t, os.Mkdir(v.path("00000000000000000050.log"), 0o755))
	r := v.verify(VerifyOptions{})
	require.EqualValues(t, 10, r.Batches)
	require.Zero(t, r.Damage)
	require.Equal(t, []string{
		"note foreign_name 0000000000000000000.log: not the name of a file of a log: left alone",
		"note foreign_name 00000000000000000000 (copy).log: not the name of a file of a log: left alone",
		"note foreign_name 00000000000000000000.log.bak: not the name of a file of a log: left alone",
		"note leftover 00000000000000000000.log.deleted: removed when the log is next opened for writing",
		"note foreign_name 000000000000000000000.log: not the name of a file of a log: left alone",
		"note leftover 00000000000000000005.snapshot.deleted: removed when the log is next opened for writing",
		"note foreign_name 00000000000000000050.log: not a regular file: left alone",
		"warning orphan 00000000000000000500.index: there is no log of that name: removed when the log is next opened for writing",
		"warning orphan 00000000000000000500.txnindex: there is no log of that name: removed when the log is next opened for writing",
		"note foreign_name 123.log: not the name of a file of a log: left alone",
		"note foreign_name 99999999999999999999.log: not the name of a file of a log: left alone",
		"note foreign_name foo.log: not the name of a file of a log: left alone",
		"note leftover leader-epoch-checkpoint.tmp: removed when the log is next opened for writing",
	}, lines(r))
}

// K057
func TestASegmentWithoutBatchesIsAGap(t *testing.T) {
	v := newVerifyLog(t, 12, 2, 450) // segments 0, 8, 16
	v.write(layout.LogName(24), nil)
	require.Empty(t, lines(v.verify(VerifyOptions{})), "a crash of a roll leaves an empty last segment")

	v.write(layout.LogName(8), nil)
	v.write(layout.OffsetIndexName(8), nil)
	v.write(layout.TimeIndexName(8), nil)
	r := v.verify(VerifyOptions{})
	require.Equal(t, []string{
		"damage segment_gap " + layout.LogName(8) + ": offsets 8 to 15 are missing before the next segment: the log was never compacted there, so a segment is lost",
	}, lines(r))

	v.remove(layout.LogName(8))
	r = v.verify(VerifyOptions{})
	require.Equal(t, []string{"segment_gap", "orphan", "orphan"}, kindsOf(r))
}

func TestVerifyFindsSegmentsThatOverlap(t *testing.T) {
	v := newVerifyLog(t, 12, 2, 450) // segments 0, 8, 16
	for _, kind := range []layout.Kind{layout.Log, layout.OffsetIndex, layout.TimeIndex} {
		require.NoError(t, os.Rename(v.path(layout.SegmentFileName(kind, 8, layout.Live)), v.path(layout.SegmentFileName(kind, 6, layout.Live))))
	}
	r := v.verify(VerifyOptions{})
	i := slices.Index(kindsOf(r), "segment_overlap")
	require.GreaterOrEqual(t, i, 0)
	require.Contains(t, lines(r)[i], "damage segment_overlap "+layout.LogName(0))
	require.Contains(t, lines(r)[i], "ends at offset 7, and the next one begins at 6")
}

// K072
func TestVerifyComparesTheTransactionIndexWithTheMarkers(t *testing.T) {
	const golden = "testdata/kafka/4.3.1/txn-0"
	names, err := filepath.Glob(filepath.Join(golden, "*.txnindex"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, path := range names {
		name := filepath.Base(path)
		clean, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotEmpty(t, clean)
		for _, tt := range []struct {
			name   string
			damage func([]byte) []byte
			want   string
		}{
			{"20 bytes more", grow(20), "txnindex_odd_length"},
			{"version 7", put(0, 7), "txnindex_entry"},
			{"last offset below the segment", put(18, make([]byte, 8)...), "txnindex_offset"},
			{"another marker", func(b []byte) []byte { b[25]++; return b }, "txnindex_marker"},
			{"another producer", func(b []byte) []byte { b[8] ^= 1; return b }, "txnindex_marker"},
			{"first offset too high", func(b []byte) []byte { copy(b[10:18], b[18:26]); return b }, "txnindex_first"},
			{"last stable offset too high", put(26, 1), "txnindex_entry"},
			{"an entry twice", func(b []byte) []byte { return append(b, b[len(b)-34:]...) }, "txnindex_order"},
			{"an entry missing", func(b []byte) []byte { return b[:len(b)-34] }, "txnindex_unlisted"},
			{"another one's entry", func(b []byte) []byte {
				e := bytes.Clone(b[len(b)-34:])
				binary.BigEndian.PutUint64(e[18:], binary.BigEndian.Uint64(e[18:])+1)
				return append(b, e...)
			}, "txnindex_marker"},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				v := copyVerifyLog(t, golden)
				v.edit(name, tt.damage)
				r := v.verify(VerifyOptions{})
				require.Contains(t, kindsOf(r), tt.want, "%v", lines(r))
				require.Len(t, filesOf(r), 1)
				single, err := Verify(t.Context(), v.path(name), VerifyOptions{})
				require.NoError(t, err)
				if tt.want != "txnindex_first" && tt.want != "txnindex_unlisted" { // that takes the segments before
					require.Contains(t, kindsOf(single), tt.want, "the file alone")
				}
			})
		}
		t.Run(name+"/missing", func(t *testing.T) {
			v := copyVerifyLog(t, golden)
			v.remove(name)
			require.Equal(t, []string{"txnindex_missing"}, kindsOf(v.verify(VerifyOptions{})))
		})
	}
}

func filesOf(r VerifyReport) map[string]bool {
	files := map[string]bool{}
	for _, p := range r.Problems {
		files[p.File] = true
	}
	return files
}

func TestVerifyChecksTheSmallFiles(t *testing.T) {
	const golden = "testdata/kafka/4.3.1/txn-0"
	snapshots, err := filepath.Glob(filepath.Join(golden, "*.snapshot"))
	require.NoError(t, err)
	snapshot := filepath.Base(snapshots[0])
	for _, tt := range []struct {
		name string
		file string
		data func([]byte) []byte
		want string
	}{
		{"snapshot with a flipped bit", snapshot, flip(20, 1), "snapshot_crc"},
		{"snapshot cut short", snapshot, func(b []byte) []byte { return b[:len(b)-1] }, "snapshot_bad"},
		{"snapshot of a later offset", snapshot, func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[10+14:], 1<<40)
			binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], crc32.MakeTable(crc32.Castagnoli)))
			return b
		}, "snapshot_bad"},
		{"epochs with a wrong count", "leader-epoch-checkpoint", func([]byte) []byte { return []byte("0\n2\n0 0\n") }, "checkpoint_bad"},
		{"epochs that fall", "leader-epoch-checkpoint", func([]byte) []byte { return []byte("0\n2\n3 0\n2 9\n") }, "checkpoint_bad"},
		{"metadata without an id", "partition.metadata", func([]byte) []byte { return []byte("version: 0\n") }, "checkpoint_bad"},
		{"state with a wrong checksum", "seglog.state", func([]byte) []byte { return []byte("0\n2\nlog-start-offset 0\nrecovery-point 9\ncrc 00000000\n") }, "checkpoint_bad"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := copyVerifyLog(t, golden)
			old, _ := os.ReadFile(v.path(tt.file))
			v.write(tt.file, tt.data(old))
			r := v.verify(VerifyOptions{})
			require.Equal(t, []string{tt.want}, kindsOf(r), "%v", lines(r))
			require.Equal(t, tt.file, r.Problems[0].File)
			require.Equal(t, Damage, r.Problems[0].Severity)
			single, err := Verify(t.Context(), v.path(tt.file), VerifyOptions{})
			require.NoError(t, err)
			require.Equal(t, r.Problems, single.Problems)
		})
	}
}

func TestVerifyTakesASingleFile(t *testing.T) {
	v := newVerifyLog(t, 20, 2, 1100)
	entries, err := os.ReadDir(v.dir)
	require.NoError(t, err)
	for _, e := range entries {
		r, err := Verify(t.Context(), v.path(e.Name()), VerifyOptions{})
		require.NoError(t, err, e.Name())
		require.Empty(t, lines(r), e.Name())
	}
	starts := positions(t, v.read(firstLog))
	v.edit(firstLog, flip(starts[5]+80, 0))
	for name, want := range map[string][]string{
		firstLog:       {"crc_mismatch"},
		firstIndex:     {"index_position"},
		firstTimeIndex: nil,
	} {
		r, err := Verify(t.Context(), v.path(name), VerifyOptions{})
		require.NoError(t, err)
		require.Equal(t, want, kindsOf(r), name)
	}

	// Without its log an index is checked by itself, and under another name.
	alone := verifyLog{t, t.TempDir()}
	alone.write(firstIndex, put(24, make([]byte, 8)...)(v.read(firstIndex)))
	alone.write(firstLog+".deleted", v.read(firstLog))
	r, err := Verify(t.Context(), alone.path(firstIndex), VerifyOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"index_order"}, kindsOf(r))
	r, err = Verify(t.Context(), alone.path(firstLog+".deleted"), VerifyOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"crc_mismatch"}, kindsOf(r))
}

func TestVerifyRefusesWhatIsNoLog(t *testing.T) {
	dir := t.TempDir()
	_, err := Verify(t.Context(), filepath.Join(dir, "nosuch"), VerifyOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Verify(t.Context(), dir, VerifyOptions{})
	require.ErrorIs(t, err, ErrNotALog)
	_, err = Verify(t.Context(), "testdata/kafka/4.3.1", VerifyOptions{})
	require.ErrorIs(t, err, ErrNotALog)
	require.ErrorContains(t, err, "it holds directories of logs, such as ")
	require.NoError(t, os.WriteFile(filepath.Join(dir, firstIndex), nil, 0o644))
	_, err = Verify(t.Context(), dir, VerifyOptions{})
	require.ErrorIs(t, err, ErrNotALog)
	require.ErrorContains(t, err, firstIndex)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "foo.log"), nil, 0o644))
	_, err = Verify(t.Context(), filepath.Join(dir, "foo.log"), VerifyOptions{})
	require.ErrorIs(t, err, ErrNotALog)
	_, err = Verify(t.Context(), dir, VerifyOptions{Jobs: -1})
	require.ErrorIs(t, err, ErrOption)
}

// K095
func TestVerifyChangesNothing(t *testing.T) {
	v := newVerifyLog(t, 20, 2, 1100)
	v.edit(firstLog, grow(100))
	v.remove(firstIndex)
	look := func() string {
		var b strings.Builder
		require.NoError(t, filepath.WalkDir(v.dir, func(path string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := d.Info()
			require.NoError(t, err)
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
			return os.Chmod(path, info.Mode()&^0o222)
		}))
		return b.String()
	}
	look()
	before := look()
	r := v.verify(VerifyOptions{})
	require.NotEmpty(t, r.Problems)
	require.Equal(t, before, look())
	require.NoError(t, os.Chmod(v.dir, 0o755))
}

// K096
func TestVerifyBesideAWriterTakesAnUnfinishedBatchForTheEnd(t *testing.T) {
	v := newVerifyLog(t, 5, 2, 0)
	log := v.read(firstLog)
	starts := positions(t, log)
	for _, tt := range []struct {
		name string
		tail []byte
	}{
		{"a few bytes", log[:5]},
		{"a header", log[:61]},
		{"most of a batch", log[:starts[1]-1]},
		{"a batch with its end missing", append(bytes.Clone(log[:starts[1]-20]), make([]byte, 20)...)},
		{"preallocated", make([]byte, 4096)},
		{"part of a batch, preallocated", append(bytes.Clone(log[:40]), make([]byte, 4096)...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v.write(firstLog, log)
			l, err := Open(v.dir, Options{})
			require.NoError(t, err)
			f, err := os.OpenFile(v.path(firstLog), os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(tt.tail, int64(len(log)))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			r := v.verify(VerifyOptions{})
			require.Equal(t, "in_progress", r.Problems[len(r.Problems)-1].Kind, "%v", lines(r))
			require.Zero(t, r.Damage+r.Warnings, "%v", lines(r))
			require.EqualValues(t, 10, r.ReadableBelow)
			require.NoError(t, os.Truncate(v.path(firstLog), int64(len(log))))
			require.NoError(t, l.Close())
		})
	}
}

// However long a writer takes for the second word of an entry.
func TestAnIndexEntryThatIsBeingWrittenIsNoDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	l, err := Open(dir, Options{IndexIntervalBytes: 1, Sync: SyncNever})
	require.NoError(t, err)
	for i := range 6 {
		_, err := l.Append([]Record{{Timestamp: int64(i + 1)}}, nil)
		require.NoError(t, err)
	}
	index, err := os.OpenFile(filepath.Join(dir, "00000000000000000000.index"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer index.Close()
	half := func(entry int64) []string {
		was := make([]byte, 8)
		_, err := index.ReadAt(was, 8*entry)
		require.NoError(t, err)
		_, err = index.WriteAt([]byte{0, 0, 0, 5, 0, 0, 0, 0}, 8*entry)
		require.NoError(t, err)
		r, err := Verify(t.Context(), dir, VerifyOptions{})
		require.NoError(t, err)
		_, err = index.WriteAt(was, 8*entry)
		require.NoError(t, err)
		if r.Damage == 0 {
			return nil
		}
		return lines(r)
	}
	require.Empty(t, half(4), "the last one")
	require.NotEmpty(t, half(3))
	require.NoError(t, l.Close())
	require.NotEmpty(t, half(4), "nobody writes any more")
}

func TestVerifyMayRunBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	l, err := Open(dir, Options{SegmentBytes: 8000, IndexIntervalBytes: 1, Sync: SyncNever})
	require.NoError(t, err)
	_, err = l.Append([]Record{{Value: []byte("x")}}, nil)
	require.NoError(t, err)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := l.Append([]Record{{Timestamp: int64(n + 1), Value: bytes.Repeat([]byte{'v'}, n%300)}}, nil); err != nil {
				done <- err
				return
			}
			if n%500 == 499 {
				if err := l.DeleteBefore(l.Offsets().End - 100); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	for range 100 {
		r, err := Verify(t.Context(), dir, VerifyOptions{})
		require.NoError(t, err)
		require.Zero(t, r.Damage, "%v", lines(r))
	}
	close(stop)
	require.NoError(t, <-done)
	require.NoError(t, l.Close())
	r, err := Verify(t.Context(), dir, VerifyOptions{})
	require.NoError(t, err)
	require.Empty(t, lines(r))
}

func TestProblemsComeInOrderHoweverManyJobs(t *testing.T) {
	v := newVerifyLog(t, 400, 1, 1000)
	logs, err := filepath.Glob(v.path("*.log"))
	require.NoError(t, err)
	require.Greater(t, len(logs), 10)
	for _, log := range logs {
		v.edit(filepath.Base(log), flip(70, 1))
	}
	var want []string
	for _, jobs := range []int{1, 2, 7, 100} {
		var got []string
		var lastDone int64
		r := v.verify(VerifyOptions{
			Jobs:      jobs,
			OnProblem: func(p Problem) { got = append(got, p.String()) },
			Progress: func(done, total int64) {
				require.GreaterOrEqual(t, done, lastDone)
				require.GreaterOrEqual(t, total, done)
				lastDone = done
			},
		})
		require.Equal(t, r.Bytes, lastDone)
		require.Len(t, got, r.Damage)
		require.Equal(t, len(logs), r.DamagedSegments)
		require.True(t, slices.IsSorted(files(got)))
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

func files(problems []string) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p[:20])
	}
	return all
}

func TestFailFastEndsAtTheFirstDamage(t *testing.T) {
	v := newVerifyLog(t, 400, 1, 1000)
	logs, err := filepath.Glob(v.path("*.log"))
	require.NoError(t, err)
	v.edit(filepath.Base(logs[1]), grow(2000))
	v.edit(filepath.Base(logs[3]), grow(2000))
	r := v.verify(VerifyOptions{FailFast: true})
	require.Equal(t, []string{"zero_tail"}, kindsOf(r))
	require.True(t, r.Stopped)
	require.Equal(t, filepath.Base(logs[1]), r.Problems[0].File)
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	v := newVerifyLog(t, 400, 1, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := Verify(ctx, v.dir, VerifyOptions{})
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, r.Stopped)

	ctx, cancel = context.WithCancel(t.Context())
	for _, log := range []string{layout.LogName(0)} {
		v.edit(log, grow(100))
	}
	_, err = Verify(ctx, v.dir, VerifyOptions{OnProblem: func(Problem) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
}

// An index that belongs to another log has thousands of bad entries, and one
// sentence says so.
func TestVerifyDoesNotRepeatItselfWithoutEnd(t *testing.T) {
	v := newVerifyLog(t, 1000, 1, 0)
	v.edit(firstIndex, func(b []byte) []byte {
		for at := 4; at < len(b); at += 8 {
			binary.BigEndian.PutUint32(b[at:], binary.BigEndian.Uint32(b[at:])+1)
		}
		return b
	})
	r := v.verify(VerifyOptions{})
	require.Len(t, r.Problems, maxAlike+1)
	require.Equal(t, firstIndex+": 899 entries more like these", r.Problems[maxAlike].String())
}

// K103: a batch that cannot be decompressed does not stop the check.
func TestVerifyGoesOnBehindABatchThatDoesNotDecompress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "orders-0")
	l, err := Open(dir, Options{Compression: record.Zstd, Sync: SyncNever})
	require.NoError(t, err)
	for range 5 {
		_, err := l.Append([]Record{{Value: bytes.Repeat([]byte("abc"), 100)}, {Value: []byte("d")}}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	v := verifyLog{t, dir}
	starts := positions(t, v.read(firstLog))
	v.edit(firstLog, put(starts[2]+61, bytes.Repeat([]byte{0xee}, int(starts[3]-starts[2])-61)...))
	v.edit(firstLog, seal(starts[2]))
	r := v.verify(VerifyOptions{})
	require.Equal(t, []string{"bad_record"}, kindsOf(r))
	require.Contains(t, r.Problems[0].String(), "offset 4: records do not decompress from zstd")
	require.EqualValues(t, 4, r.Batches)
}

func TestVerifyReadsOldFormats(t *testing.T) {
	v := verifyLog{t, filepath.Join(t.TempDir(), "old-0")}
	require.NoError(t, os.Mkdir(v.dir, 0o755))
	// Magic 0 at offset 0 and magic 1 at offset 1, from Kafka's
	// MemoryRecordsTest.java.
	zero, err := base64.StdEncoding.DecodeString("AAAAAAAAAAAAAAAYdfD0HQAAAAAABGtleTEAAAAGdmFsdWUx")
	require.NoError(t, err)
	one, err := base64.StdEncoding.DecodeString("AAAAAAAAAAEAAAAgBoWzZAEAAAAAAAAEVMMAAAAEa2V5MQAAAAZ2YWx1ZTE=")
	require.NoError(t, err)
	v.write(firstLog, slices.Concat(zero, one))
	r := v.verify(VerifyOptions{})
	require.Equal(t, []string{"index_missing", "timeindex_missing"}, kindsOf(r))
	require.EqualValues(t, 2, r.Records)

	v.edit(firstLog, flip(int64(len(zero)+40), 0))
	require.Equal(t, "crc_mismatch", v.verify(VerifyOptions{}).Problems[0].Kind)
}

// FuzzVerify: whatever the files hold, the check ends without an error, says the
// same each time, and every byte of the log is either in a good batch or counted
// as unreadable. Its goroutines make coverage vary: with -fuzzminimizetime 1x it
// gets further.
func FuzzVerify(f *testing.F) {
	v := newVerifyLog(f, 4, 2, 0)
	log, index, times := v.read(firstLog), v.read(firstIndex), v.read(firstTimeIndex)
	txn := binary.BigEndian.AppendUint64(make([]byte, 26), 5)
	f.Add(log, index, times, txn)
	f.Add(log[:len(log)-7], index, times, []byte{})
	f.Add(flip(300, 2)(bytes.Clone(log)), index[:13], times, []byte{1})
	f.Add(append(bytes.Clone(log), 0, 0, 0), grow(64)(bytes.Clone(index)), grow(7)(bytes.Clone(times)), txn[:20])
	f.Fuzz(func(t *testing.T, log, index, times, txn []byte) {
		v := verifyLog{t, t.TempDir()}
		v.write(firstLog, log)
		v.write(firstIndex, index)
		v.write(firstTimeIndex, times)
		v.write(layout.TxnIndexName(0), txn)
		full := v.verify(VerifyOptions{})
		again := v.verify(VerifyOptions{Jobs: 1})
		require.Equal(t, full, again)
		require.EqualValues(t, len(log), full.Bytes)
		require.LessOrEqual(t, full.Unreadable, full.Bytes)
		for _, p := range full.Problems {
			require.LessOrEqual(t, p.Position, int64(max(len(log), len(index), len(times), len(txn))))
		}
		v.verify(VerifyOptions{Quick: true})
	})
}
