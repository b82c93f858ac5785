package kafkadump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// write makes a file in a folder of its own, or in that of another file.
func write(t testing.TB, name string, content []byte) string {
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(t.TempDir(), name)
	}
	require.NoError(t, os.WriteFile(path, content, 0o666))
	return path
}

// batchAt encodes a batch of records that start at an offset.
func batchAt(t testing.TB, base int64, records ...record.Record) []byte {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: base})
	for _, r := range records {
		require.NoError(t, b.Append(r))
	}
	built, err := b.Build()
	require.NoError(t, err)
	return bytes.Clone(built)
}

const (
	logName       = "00000000000000000000.log"
	indexName     = "00000000000000000000.index"
	timeIndexName = "00000000000000000000.timeindex"
)

func TestNamesThatKafkaDoesNotKnowAreIgnored(t *testing.T) {
	for _, name := range []string{"notes", "notes.txt", "00000000000000000000.log.deleted", "leader-epoch-checkpoint"} {
		var out, complaints bytes.Buffer
		d := New(vfs.OS, &out, &complaints, Options{})
		known, err := d.File(name)
		require.NoError(t, err)
		require.False(t, known)
		require.Equal(t, "Dumping "+name+"\n", out.String())
		require.Equal(t, "Ignoring unknown file "+name+"\n", complaints.String())
	}
}

func TestNamesWithoutANumberEndTheTool(t *testing.T) {
	for _, name := range []string{"foo.log", "foo.index", "foo.timeindex", "foo.txnindex"} {
		_, stderr := dump(t, write(t, name, nil), Options{})
		require.Equal(t, "Exception in thread \"main\" java.lang.NumberFormatException: For input string: \"foo\"\n", stderr)
	}
	_, stderr := dump(t, write(t, "foo.checkpoint", nil), Options{})
	require.Equal(t, "Exception in thread \"main\" java.util.NoSuchElementException: No value present\n", stderr)
}

func TestMissingFileIsAnErrorOfReading(t *testing.T) {
	d := New(vfs.OS, &bytes.Buffer{}, &bytes.Buffer{}, Options{})
	_, err := d.File(filepath.Join(t.TempDir(), logName))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = d.File(filepath.Dir(write(t, logName, nil)) + ".log")
	require.ErrorIs(t, err, os.ErrNotExist)
	dir := filepath.Join(t.TempDir(), logName)
	require.NoError(t, os.Mkdir(dir, 0o755))
	_, err = d.File(dir)
	require.ErrorContains(t, err, "is a directory")
}

func TestPathsAreThoseOfJava(t *testing.T) {
	if filepath.Separator != '/' {
		t.Log("separators are others here")
		return
	}
	for path, want := range map[string]string{
		"a.log": "a.log", "./a.log": "./a.log", "x//y///a.log": "x/y/a.log", "x/": "x", "/": "/", "//": "/", "x/../a.log": "x/../a.log",
	} {
		require.Equal(t, want, javaPath(path), "%q", path)
	}
	d := New(vfs.OS, nil, nil, Options{WorkingDir: "/w"})
	require.Equal(t, "/w/./a.log", d.absolute("./a.log"))
	require.Equal(t, "/x/a.log", d.absolute("/x/a.log"))
}

func TestDamageIsToldApartFromRemarks(t *testing.T) {
	whole := append(batchAt(t, 0, record.Record{Timestamp: 5}, record.Record{Timestamp: 6}), batchAt(t, 10, record.Record{Timestamp: 7})...)
	second := uint32(len(batchAt(t, 0, record.Record{Timestamp: 5}, record.Record{Timestamp: 6})))
	flipped := bytes.Clone(whole)
	flipped[second+42] ^= 1 // of the largest timestamp
	index := func(entries ...uint32) (b []byte) {
		for _, e := range entries {
			b = binary.BigEndian.AppendUint32(b, e)
		}
		return b
	}
	for _, tt := range []struct {
		name    string
		log     []byte
		index   []byte
		dumped  string
		damaged bool
		stderr  string
	}{
		{"a gap between offsets", whole, nil, logName, false, "Non-consecutive offsets in 0"},
		{"a wrong checksum", flipped, nil, logName, true, "Non-consecutive"},
		{"an end that is cut off", whole[:len(whole)-3], nil, logName, false, ""},
		{"an entry with the last offset of its batch", whole, index(10, second), indexName, false, ""},
		{"an entry with the last offset of a set of batches", whole, index(10, 0), indexName, false, "Mismatches in :"},
		{"an entry with the first offset of its batch", whole, index(0, 0, 10, second), indexName, false, "Mismatches in :"},
		{"an entry whose batch begins above it", whole, index(5, second), indexName, true, "Mismatches in :"},
		{"an entry beyond the log", whole, index(5, 9999), indexName, true, "IllegalArgumentException: Slice from position 9999 exceeds end position of FileRecords(size="},
		{"an entry at the end of the log", whole, index(5, uint32(len(whole))), indexName, true, "NoSuchElementException"},
		{"a negative position", whole, index(5, 1<<31), indexName, true, "Invalid position: -2147483648 in read from"},
		{"zeros behind the entries", whole, index(10, second, 0, 0, 0, 0), indexName, false, ""},
		{"no entry", whole, nil, indexName, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, logName, tt.log)
			write(t, filepath.Join(filepath.Dir(path), indexName), tt.index)
			var out, complaints bytes.Buffer
			d := New(vfs.OS, &out, &complaints, Options{Deep: true})
			_, err := d.File(filepath.Join(filepath.Dir(path), tt.dumped))
			require.NoError(t, d.Findings())
			if err != nil {
				complaints.WriteString(err.Error())
			}
			require.Equal(t, tt.damaged, d.Damaged())
			if tt.stderr == "" {
				require.Empty(t, complaints.String())
			}
			require.Contains(t, strings.ReplaceAll(complaints.String(), filepath.Dir(path)+string(filepath.Separator), ""), tt.stderr)
		})
	}
}

func TestMismatchesFallAndKeepTheLastOfEach(t *testing.T) {
	log := append(batchAt(t, 0, record.Record{}), batchAt(t, 5, record.Record{})...)
	path := write(t, logName, log)
	var b []byte
	for _, e := range []uint32{3, 0, 9, 0, 3, uint32(len(log) / 2)} {
		b = binary.BigEndian.AppendUint32(b, e)
	}
	_, stderr := dump(t, write(t, filepath.Join(filepath.Dir(path), indexName), b), Options{})
	require.Equal(t, "Mismatches in :"+indexName+"\n  Index offset: 9, log offset: 0\n  Index offset: 3, log offset: 5\n", stderr)
}

func TestTimeIndexFindingsAreListedByKind(t *testing.T) {
	log := append(batchAt(t, 0, record.Record{Timestamp: 50}), batchAt(t, 1, record.Record{Timestamp: 60})...)
	path := write(t, logName, log)
	entry := func(timestamp uint64, offset uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, timestamp), offset)
	}
	b := bytes.Join([][]byte{entry(70, 0), entry(60, 1), entry(80, 9)}, nil)
	b = append(b, make([]byte, 24)...)
	stdout, stderr := dump(t, write(t, filepath.Join(filepath.Dir(path), timeIndexName), b), Options{})
	require.Equal(t, "Dumping "+timeIndexName+"\ntimestamp: 70 offset: 0\ntimestamp: 60 offset: 1\ntimestamp: 80 offset: 9\n", stdout)
	require.Equal(t, "Found timestamp mismatch in :"+timeIndexName+"\n  Index timestamp: 70, log timestamp: 50\n"+
		"Found out of order timestamp in :"+timeIndexName+"\n  Index timestamp: 60, Previously indexed timestamp: 70\n"+
		"The following indexed offsets are not found in :"+timeIndexName+"\nIndexed offset: 9, found log offset: -1\n", stderr)
	_, err := os.Stat(filepath.Join(filepath.Dir(path), indexName))
	require.ErrorIs(t, err, os.ErrNotExist, "Kafka's tool creates a missing index")
}

func TestTimeIndexFailsOverDamageAnywhereBehindAnEntry(t *testing.T) {
	log := append(batchAt(t, 0, record.Record{Timestamp: 50}), make([]byte, 100)...)
	path := write(t, logName, log)
	b := append(binary.BigEndian.AppendUint64(nil, 50), 0, 0, 0, 0)
	stdout, stderr := dump(t, write(t, filepath.Join(filepath.Dir(path), timeIndexName), b), Options{})
	require.Equal(t, "Dumping "+timeIndexName+"\n", stdout)
	require.Contains(t, stderr, "CorruptRecordException: Found record size 0 smaller than minimum record overhead (14) in file "+logName+".")
}

func TestLookupIsMisledByZerosAsKafkaIs(t *testing.T) {
	var entries [][2]uint32
	for i := range uint32(10) {
		entries = append(entries, [2]uint32{10 * (i + 1), 100 * (i + 1)})
	}
	make := func(zeros int) *table {
		var b []byte
		for _, e := range entries {
			b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, e[0]), e[1])
		}
		b = append(b, bytes.Repeat([]byte{0}, 8*zeros)...)
		d := New(vfs.OS, nil, nil, Options{})
		table, err := d.openTable(write(t, indexName, b), 0, offsetEntrySize)
		require.NoError(t, err)
		t.Cleanup(func() { table.Close() })
		return table
	}
	look := func(x *table, offset int64) int64 {
		position, err := x.lookup(offset)
		require.NoError(t, err)
		return position
	}
	trimmed := make(0)
	for _, tt := range [][2]int64{{5, 0}, {10, 100}, {15, 100}, {99, 900}, {100, 1000}, {5000, 1000}} {
		require.Equal(t, tt[1], look(trimmed, tt[0]))
	}
	padded := make(22)
	require.Equal(t, int64(0), look(padded, 55), "the zeros are below every offset")
	require.Equal(t, int64(0), look((*table)(nil), 55))
}

func TestDamagedSnapshotsAreToldAndNotPrinted(t *testing.T) {
	good := producerstate.Append(nil, []producerstate.Entry{{ProducerID: 1, LastOffset: -1, LastSequence: -1, CurrentTxnFirstOffset: -1, CoordinatorEpoch: -1}})
	change := func(f func([]byte) []byte) []byte { return f(bytes.Clone(good)) }
	sum := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], crc32.MakeTable(crc32.Castagnoli)))
		return b
	}
	for _, tt := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"whole", good, ""},
		{"empty", nil, "Snapshot failed schema validation: null"},
		{"half a header", good[:5], "Snapshot failed schema validation: null"},
		{"another version", change(func(b []byte) []byte { b[1] = 7; return b }), "Snapshot failed schema validation: Snapshot contained an unknown file version 7"},
		{"a flipped bit", change(func(b []byte) []byte { b[20] ^= 1; return b }), "Snapshot is corrupt (CRC is no longer valid). Stored crc: "},
		{"a negative number", change(func(b []byte) []byte { b[6] = 0xff; return sum(b) }), "Snapshot failed schema validation: non-nullable field producerEntries was serialized as null"},
		{"a number that lies", change(func(b []byte) []byte { b[6] = 0x7f; return sum(b) }), "Tried to allocate a collection of size 2130706433, but there are only 46 bytes remaining."},
		{"an entry cut off", good[:len(good)-1], "Snapshot failed schema validation: null"},
		{"bytes behind the entries", sum(append(bytes.Clone(good), make([]byte, 46)...)), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr := dump(t, write(t, "00000000000000000000.snapshot", tt.content), Options{})
			require.Contains(t, stderr, tt.want)
			lines := 1
			if tt.want == "" {
				lines, _ = 2, stderr
				require.Empty(t, stderr)
			}
			require.Equal(t, lines, strings.Count(stdout, "\n"), stdout)
		})
	}
}

func TestTransactionIndexOfALaterVersionIsNotPrinted(t *testing.T) {
	b := make([]byte, 2*abortedTxnSize)
	b[abortedTxnSize] = 1
	stdout, stderr := dump(t, write(t, "00000000000000000000.txnindex", b), Options{})
	require.Equal(t, "Dumping 00000000000000000000.txnindex\n", stdout)
	require.Contains(t, stderr, "KafkaException: Unexpected aborted transaction version 1 in transaction index 00000000000000000000.txnindex, current version is 0")
	b[abortedTxnSize], b[abortedTxnSize+1] = 0, 80 // half of the field that nobody reads
	stdout, stderr = dump(t, write(t, "00000000000000000000.txnindex", b[:len(b)-1]), Options{})
	require.Equal(t, 1, strings.Count(stdout, "version: 0 producerId: 0"))
	require.Empty(t, stderr)
}

func TestJavaReadsBytesThatAreNotUTF8(t *testing.T) {
	const r = "\ufffd"
	for in, want := range map[string]string{
		"plain": "plain", "naïve ☃ 😀": "naïve ☃ 😀", "a\x00b\n": "a\x00b\n",
		"\x80": r, "\xff\xfe": r + r, "\xc0\xaf": r + r, "\xc3": r, "\xc3(": r + "(",
		"\xe2\x98": r, "\xe2\x98(": r + "(", "\xe2(\x98": r + "(" + r, "\xe0\x80\x80": r + r + r,
		"\xed\xa0\x80": r, "\xed\xa0": r, "\xed\xa0a": r + "a",
		"\xf0\x9f\x98": r, "\xf0\x9f": r, "\xf0\x9fa": r + "a", "\xf0\x80\x80\x80": r + r + r + r,
		"\xf4\x90\x80\x80": r + r + r + r, "\xf5\x80": r + r, "\xf0\x9f\x98a": r + "a",
	} {
		require.Equal(t, want, string(appendJavaString(nil, []byte(in))), "%q", in)
	}
}

func TestControlRecordsOfAClusterAreJSON(t *testing.T) {
	key := func(control byte) []byte { return []byte{0, 0, 0, control} }
	id := []byte("0123456789abcdef")
	voters := append([]byte{
		0, 0, // version
		2,          // one voter
		0, 0, 0, 7, // its id
	}, id...)
	voters = append(voters, 2, 2, 'C', 3, 'a', '"', 0x23, 0x83, 0, // one endpoint C of host a" with port 9091
		0, 0, 0, 1, 0, // versions 0 to 1
		0,                      // no tags of the voter
		1, 5, 3, 'x', 'y', 'z') // and one of the message, which means nothing
	for _, tt := range []struct {
		name  string
		key   []byte
		value []byte
		want  string
		fails string
	}{
		{"leader change", key(2), []byte{0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 1, 0}, ` LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[]}`, ""},
		{"snapshot header", key(3), []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0}, ` SnapshotHeader {"version":0,"lastContainedLogTimestamp":9}`, ""},
		{"snapshot footer", key(4), []byte{0, 0, 0}, ` SnapshotFooter {"version":0}`, ""},
		{"version", key(5), []byte{0, 0, 0, 1, 0}, ` KRaftVersion {"version":0,"kRaftVersion":1}`, ""},
		{"voters", key(6), voters, ` KRaftVoters {"version":0,"voters":[{"voterId":7,"voterDirectoryId":"MDEyMzQ1Njc4OWFiY2RlZg",` +
			`"endpoints":[{"name":"C","host":"a\"","port":9091}],"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}`, ""},
		{"one nobody knows", key(77), nil, ` controlType: UNKNOWN(77)`, ""},
		{"cut off", key(6), voters[:10], "", "java.nio.BufferUnderflowException"},
		{"a number that lies", key(2), []byte{0, 0, 0, 0, 0, 1, 0xff, 0xff, 0x3f}, "", "Tried to allocate a collection of size 1048574, but there are only 0 bytes remaining."},
		{"null in place of a list", key(2), []byte{0, 0, 0, 0, 0, 1, 0}, "", "java.lang.RuntimeException"},
		{"a short key", []byte{0, 0, 0}, nil, "", "Must have at least 4 bytes, but found only 3"},
		{"a negative version", []byte{0xff, 0xff, 0, 0}, nil, "", "Invalid version found for control record: -1"},
		{"a short marker", key(0), []byte{0, 0}, "", "Must have at least 6 bytes, but found only 2"},
		{"a marker of a negative version", key(1), []byte{0xff, 0xff, 0, 0, 0, 0}, "", "Invalid version found for end transaction marker: -1"},
		{"a marker", key(1), []byte{0, 0, 0, 0, 0, 5, 1, 2}, " endTxnMarker: COMMIT coordinatorEpoch: 5", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line, err := appendControl(nil, &record.Record{Key: tt.key, Value: tt.value})
			require.Equal(t, tt.want, string(line))
			if tt.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.fails)
			}
		})
	}
}

func TestRecordsThatDoNotDecodeAreToldInTheToolsWords(t *testing.T) {
	// What follows the header of a batch of one or two records, zigzag varints
	// and all: length, attributes, two deltas, key, value, headers.
	for _, tt := range []struct {
		name    string
		records []byte
		count   uint32
		want    string
	}{
		{"nothing there", nil, 1, "Incorrect declared batch size, premature EOF reached"},
		{"longer than there is", []byte{100, 0}, 1, "Invalid record size: expected 50 bytes in record payload, but instead the buffer has only 1 remaining bytes."},
		{"a key beyond the end", []byte{12, 0, 0, 0, 100, 1, 0}, 1, "Found invalid record structure"},
		{"a negative number of headers", []byte{12, 0, 0, 0, 1, 1, 5}, 1, "Found invalid number of record headers -3"},
		{"more headers than bytes", []byte{12, 0, 0, 0, 1, 1, 110}, 1, "Found invalid number of record headers. 55 is larger than the remaining size of the buffer"},
		{"a header key without a length", []byte{16, 0, 0, 0, 1, 1, 2, 1, 0}, 1, "Invalid negative header key size -1"},
		{"fields that are too few", []byte{14, 0, 0, 0, 1, 1, 0, 9}, 1, "Invalid record size: expected to read 7 bytes in record payload, but instead read 6"},
		{"records left over", []byte{12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 0, 1, 1, 0}, 1, "Incorrect declared batch size, records still remaining in file"},
		{"the second is the bad one", []byte{12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 2, 1, 1, 5}, 2, "Found invalid number of record headers -3"},
		{"a negative count", []byte{12, 0, 0, 0, 1, 1, 0}, 1<<32 - 5, "Found invalid record count -5 in magic v2 batch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := append(batchAt(t, 0, record.Record{})[:record.HeaderSize:record.HeaderSize], tt.records...)
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-record.LogOverhead))
			binary.BigEndian.PutUint32(b[57:], tt.count)
			_, stderr := dump(t, write(t, logName, b), Options{Deep: true})
			require.Equal(t, "Exception in thread \"main\" org.apache.kafka.common.InvalidRecordException: "+tt.want+"\n", stderr)
		})
	}
}

func TestHeadersThatAreTooShortEndTheTool(t *testing.T) {
	short := make([]byte, 40)
	binary.BigEndian.PutUint32(short[8:], 28)
	short[16] = 2
	stdout, stderr := dump(t, write(t, logName, short), Options{})
	require.Equal(t, "Dumping "+logName+"\nLog starting offset: 0\n", stdout)
	require.Contains(t, stderr, "Failed to load record batch at position 0 from FileRecords(size=40, file="+logName+", start=0, end=40)")
	short[16] = 0xff
	stdout, stderr = dump(t, write(t, logName, short), Options{})
	require.True(t, strings.HasSuffix(stdout, "\noffset: 0"), stdout)
	require.Contains(t, stderr, "IllegalArgumentException: Invalid magic used in LegacyRecord: -1")
}

// memory is a folder of files that cannot be changed.
type memory struct {
	vfs.FS
	files map[string][]byte
}

func (m memory) OpenFile(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	content, some := m.files[name]
	if !some || flag != os.O_RDONLY {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return memoryFile{Reader: bytes.NewReader(content)}, nil
}

func (m memory) ReadDir(string) ([]fs.DirEntry, error) { return nil, nil }

type memoryFile struct {
	*bytes.Reader
	vfs.File
}

func (f memoryFile) ReadAt(b []byte, at int64) (int, error) { return f.Reader.ReadAt(b, at) }
func (f memoryFile) Close() error                           { return nil }
func (f memoryFile) Stat() (fs.FileInfo, error)             { return memoryInfo{size: f.Reader.Size()}, nil }

type memoryInfo struct {
	fs.FileInfo
	size int64
}

func (i memoryInfo) Size() int64       { return i.size }
func (i memoryInfo) IsDir() bool       { return false }
func (i memoryInfo) Mode() fs.FileMode { return 0o444 }

// Properties: never panics, ends, names every file, writes nothing: the files
// cannot even be opened for that.
func FuzzFiles(f *testing.F) {
	log := append(batchAt(f, 0, record.Record{Timestamp: 5, Key: []byte("k")}), batchAt(f, 1, record.Record{Timestamp: 6, Value: []byte("v")})...)
	f.Add(log, []byte{0, 0, 0, 1, 0, 0, 0, 70}, []byte{0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 1})
	f.Add(log[:len(log)-1], []byte{}, []byte{1})
	f.Add(make([]byte, 40), make([]byte, 16), make([]byte, 24))
	f.Add(producerstate.Append(nil, []producerstate.Entry{{ProducerID: 1}}), log, make([]byte, 34))
	f.Fuzz(func(t *testing.T, log, index, timeIndex []byte) {
		files := memory{files: map[string][]byte{
			indexName: index, timeIndexName: timeIndex, logName: log,
			"00000000000000000000.snapshot": log, "00000000000000000000.txnindex": timeIndex, "bootstrap.checkpoint": log,
		}}
		for _, name := range slices.Sorted(maps.Keys(files.files)) {
			for _, opts := range []Options{{}, {Print: true}, {MaxBytes: 50}} {
				var out bytes.Buffer
				d := New(files, &out, &bytes.Buffer{}, opts)
				_, err := d.File(name)
				var e *Exception
				require.True(t, err == nil || errors.As(err, &e), "%v", err)
				require.NoError(t, d.Findings())
				require.True(t, strings.HasPrefix(out.String(), "Dumping "+name+"\n"))
			}
		}
	})
}
