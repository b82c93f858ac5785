package producerstate

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// golden is the entry of ProducerStateManagerTest.java, and its file.
var golden = Entry{
	ProducerID: 1, ProducerEpoch: 2, LastSequence: 1, LastOffset: 2, OffsetDelta: 3,
	Timestamp: -1, CoordinatorEpoch: 3, CurrentTxnFirstOffset: 100,
}

const goldenHex = "00015b83e057000000010000000000000001000200000001" +
	"000000000000000200000003ffffffffffffffff000000030000000000000064"

func goldenBytes(t testing.TB) []byte {
	b, err := hex.DecodeString(goldenHex)
	require.NoError(t, err)
	return b
}

// annotated prints a snapshot, a line for each field.
func annotated(b []byte) string {
	type field struct {
		size int
		name string
	}
	fields := []field{{2, "version"}, {4, "crc32c of bytes 6 onward"}, {4, "number of entries"}}
	for range binary.BigEndian.Uint32(b[6:]) {
		fields = append(fields, field{8, "producer id"}, field{2, "producer epoch"}, field{4, "last sequence"},
			field{8, "last offset"}, field{4, "offset delta"}, field{8, "timestamp"}, field{4, "coordinator epoch"},
			field{8, "first offset of the open transaction"})
	}
	var text strings.Builder
	at := 0
	for _, f := range fields {
		fmt.Fprintf(&text, "%02d-%02d: % x # %s\n", at, at+f.size, b[at:at+f.size], f.name)
		at += f.size
	}
	return text.String()
}

func TestSnapshotIsAsKafkaWritesIt(t *testing.T) {
	b := Append(nil, []Entry{golden})
	require.Equal(t, goldenHex, hex.EncodeToString(b))
	require.Equal(t, `00-02: 00 01 # version
02-06: 5b 83 e0 57 # crc32c of bytes 6 onward
06-10: 00 00 00 01 # number of entries
10-18: 00 00 00 00 00 00 00 01 # producer id
18-20: 00 02 # producer epoch
20-24: 00 00 00 01 # last sequence
24-32: 00 00 00 00 00 00 00 02 # last offset
32-36: 00 00 00 03 # offset delta
36-44: ff ff ff ff ff ff ff ff # timestamp
44-48: 00 00 00 03 # coordinator epoch
48-56: 00 00 00 00 00 00 00 64 # first offset of the open transaction
`, annotated(b))
	require.Equal(t, "head"+string(b), string(Append([]byte("head"), []Entry{golden})))

	entries, err := Parse(b)
	require.NoError(t, err)
	require.Equal(t, []Entry{golden}, entries)
}

func TestSnapshotMayBeEmpty(t *testing.T) {
	b := Append(nil, nil)
	require.Len(t, b, headerSize)
	entries, err := Parse(b)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestSnapshotComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOf(rapid.Make[Entry]()).Draw(t, "entries")
		got, err := Parse(Append(nil, entries))
		require.NoError(t, err)
		require.Equal(t, append([]Entry{}, entries...), got)
	})
}

// sealed gives data the checksum it should have.
func sealed(data []byte) []byte {
	binary.BigEndian.PutUint32(data[crcAt:], checksum(data))
	return data
}

// Nothing of a damaged snapshot is believed.
func TestParseRefusesDamage(t *testing.T) {
	flipped := goldenBytes(t)
	flipped[30] ^= 1
	claims := func(count uint32) []byte {
		b := goldenBytes(t)
		binary.BigEndian.PutUint32(b[countAt:], count)
		return sealed(b)
	}
	otherVersion := func(v uint16) []byte {
		b := goldenBytes(t)
		binary.BigEndian.PutUint16(b, v)
		return b
	}
	tests := []struct {
		name     string
		data     []byte
		position int
		rule     string
	}{
		{"empty file", nil, 0, "0 bytes, the header has 10"},
		{"half of the header", goldenBytes(t)[:5], 0, "5 bytes, the header has 10"},
		{"half of the file", goldenBytes(t)[:28], countAt, "1 entries do not make 28 bytes"},
		{"zeros", make([]byte, 56), 0, "version 0, want 1"},
		{"version 9", otherVersion(9), 0, "version 9, want 1"},
		{"negative version", otherVersion(0xffff), 0, "version -1, want 1"},
		{"one bit flipped", flipped, crcAt, "crc mismatch (stored 5b83e057, computed 762d6458)"},
		{"a million entries announced", claims(1_000_000), countAt, "1000000 entries do not make 56 bytes"},
		{"the most entries announced", claims(math.MaxInt32), countAt, "2147483647 entries do not make 56 bytes"},
		{"negative number of entries", claims(math.MaxUint32), countAt, "-1 entries do not make 56 bytes"},
		{"fewer entries than there are", claims(0), countAt, "0 entries do not make 56 bytes"},
		{"bytes behind the last entry", sealed(append(goldenBytes(t), 0)), countAt, "1 entries do not make 57 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "00000000000000000003.snapshot")
			require.NoError(t, os.WriteFile(path, tt.data, 0o644))
			entries, err := ReadFile(vfs.OS, path)
			require.Nil(t, entries)
			require.ErrorIs(t, err, ErrCorrupt)
			var corrupt *CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, CorruptError{path, tt.position, tt.rule}, *corrupt)
		})
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	for at := range 8 * len(goldenHex) / 2 {
		b := goldenBytes(t)
		b[at/8] ^= 1 << (at % 8)
		_, err := Parse(b)
		require.ErrorIs(t, err, ErrCorrupt, "bit %d", at)
	}
}

func TestFirstSequenceWraps(t *testing.T) {
	tests := []struct {
		name        string
		last, delta int32
		offset      int64
		want        int32
	}{
		{"plain", 25, 5, 100, 20},
		{"one record", 7, 0, 100, 7},
		{"the batch spans the wrap", 9, 20, 2020, math.MaxInt32 - 10},
		{"the batch ends at the wrap", 0, 1, 2020, math.MaxInt32},
		{"no batch", -1, 0, NoOffset, NoSequence},
		{"no batch, whatever the sequence", 7, 0, NoOffset, NoSequence},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Entry{LastSequence: tt.last, OffsetDelta: tt.delta, LastOffset: tt.offset, CurrentTxnFirstOffset: NoOffset}
			require.Equal(t, tt.want, e.FirstSequence())
			require.Equal(t, tt.offset != NoOffset, e.HasBatch())
			require.False(t, e.HasOpenTxn())
		})
	}
	require.True(t, golden.HasOpenTxn())
}

func TestWriteFileReplacesALongerSnapshot(t *testing.T) {
	for _, sync := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "00000000000000000003.snapshot")
		_, err := ReadFile(vfs.OS, path)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, WriteFile(vfs.OS, path, []Entry{golden, golden}, sync))
		require.NoError(t, WriteFile(vfs.OS, path, []Entry{golden}, sync))
		entries, err := ReadFile(vfs.OS, path)
		require.NoError(t, err)
		require.Equal(t, []Entry{golden}, entries)
	}
}

// faultFS counts syncs and fails what it is told to.
type faultFS struct {
	vfs.FS
	full, noRename bool
	syncs          int
}

func (f *faultFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	return faultFile{file, f}, err
}

func (f *faultFS) Rename(from, to string) error {
	if f.noRename {
		return syscall.EIO
	}
	return f.FS.Rename(from, to)
}

type faultFile struct {
	vfs.File
	fs *faultFS
}

func (f faultFile) WriteAt(b []byte, at int64) (int, error) {
	if f.fs.full {
		n, err := f.File.WriteAt(b[:1], at)
		return n, errors.Join(err, syscall.ENOSPC)
	}
	return f.File.WriteAt(b, at)
}

func (f faultFile) Sync() error {
	f.fs.syncs++
	return f.File.Sync()
}

func TestWriteFileSyncsWhenAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "00000000000000000003.snapshot")
	faults := &faultFS{FS: vfs.OS}
	require.NoError(t, WriteFile(faults, path, nil, false))
	require.Zero(t, faults.syncs)
	require.NoError(t, WriteFile(faults, path, nil, true))
	require.Equal(t, 1, faults.syncs)
}

func TestWriteFileKeepsTheOldSnapshotWhenItFails(t *testing.T) {
	for _, sync := range []bool{true, false} {
		for _, faults := range []*faultFS{{FS: vfs.OS, full: true}, {FS: vfs.OS, noRename: true}} {
			path := filepath.Join(t.TempDir(), "00000000000000000003.snapshot")
			require.NoError(t, WriteFile(vfs.OS, path, []Entry{golden}, sync))
			require.Error(t, WriteFile(faults, path, []Entry{golden, golden}, sync))
			entries, err := ReadFile(vfs.OS, path)
			require.NoError(t, err)
			require.Equal(t, []Entry{golden}, entries)
			require.NoFileExists(t, path+layout.TempSuffix)
		}
	}
}

func TestListFindsLiveSnapshots(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"00000000000000000042.snapshot", "00000000000000000005.snapshot", "00000000000000000002.snapshot",
		"00000000000000000001.snapshot.deleted", "00000000000000000003.snapshot.tmp",
		"00000000000000000005.log", "7.snapshot", "foo.snapshot",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "00000000000000000050.snapshot"), 0o755))
	offsets, err := List(vfs.OS, dir)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 5, 42}, offsets)
	_, err = List(vfs.OS, filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestStrayKeepsSegmentsAndTheLogEnd(t *testing.T) {
	tests := []struct {
		name             string
		snapshots, bases []int64
		want             []int64
	}{
		{"the latest is the log end", []int64{2, 5, 42}, []int64{5}, []int64{2}},
		{"the latest is a segment's", []int64{2, 5, 42}, []int64{42}, []int64{2, 5}},
		{"the latest is below the last segment", []int64{2, 5, 42}, []int64{2, 43}, []int64{5, 42}},
		{"no segments", []int64{2, 5, 42}, nil, []int64{2, 5}},
		{"in any order", []int64{42, 2, 5}, []int64{5}, []int64{2}},
		{"all belong to segments", []int64{2, 5}, []int64{2, 5, 9}, nil},
		{"nothing", nil, []int64{5}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ElementsMatch(t, tt.want, Stray(tt.snapshots, tt.bases))
		})
	}
}

func TestMarkDeletedRenames(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, WriteFile(vfs.OS, filepath.Join(dir, layout.SnapshotName(5)), nil, false))
	found, err := MarkDeleted(vfs.OS, dir, 5)
	require.NoError(t, err)
	require.True(t, found)
	require.FileExists(t, filepath.Join(dir, "00000000000000000005.snapshot.deleted"))
	offsets, err := List(vfs.OS, dir)
	require.NoError(t, err)
	require.Empty(t, offsets)

	found, err = MarkDeleted(vfs.OS, dir, 5)
	require.NoError(t, err)
	require.False(t, found)

	require.NoError(t, WriteFile(vfs.OS, filepath.Join(dir, layout.SnapshotName(6)), nil, false))
	found, err = MarkDeleted(&faultFS{FS: vfs.OS, noRename: true}, dir, 6)
	require.ErrorIs(t, err, syscall.EIO)
	require.False(t, found)
}

// FuzzParse: never panics; makes no more entries than the bytes hold; what parses
// re-encodes to the same bytes. The bytes are also tried with a matching
// checksum, or nothing would get past it.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(goldenBytes(f))
	f.Add(goldenBytes(f)[:28])
	f.Add(make([]byte, 56))
	f.Add(Append(nil, nil))
	f.Add(Append(nil, []Entry{golden, {ProducerID: 2, LastSequence: -1, LastOffset: -1, CurrentTxnFirstOffset: -1}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= headerSize {
			check(t, sealed(append([]byte{}, data...)))
		}
		check(t, data)
	})
}

func check(t *testing.T, data []byte) {
	entries, err := Parse(data)
	if err != nil {
		require.ErrorIs(t, err, ErrCorrupt)
		require.Nil(t, entries)
		return
	}
	require.Equal(t, data, Append(nil, entries))
	for _, e := range entries {
		e.FirstSequence()
	}
}
