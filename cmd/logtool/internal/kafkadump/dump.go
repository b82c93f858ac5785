// Package kafkadump prints the files of a log as Kafka's own dump tool does, byte
// for byte: org.apache.kafka.tools.DumpLogSegments of Kafka 4.3.1. Scripts that
// read the output of that tool read this one's, and the two can be compared.
//
// Differences, all of them where the tool fails:
//
//   - Where it ends with an exception the text up to there is the same, and the
//     exception is named on a line of its own; the words behind its name may
//     differ where they come from a compression library.
//   - Sizes inside a damaged message of magic 0 or 1 that was compressed are found
//     wrong here before the record is printed, and there when its value is.
//   - It creates an offset index that is missing beside a time index, and fails.
//     Here nothing is created, and look-ups start at the beginning of the log.
//   - Findings about several files come in the order of the files, where the
//     tool has that of a hash map.
//
// Nothing is ever written, and all sizes are fixed when a file is opened.
package kafkadump

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
)

// Options are the flags of the tool.
type Options struct {
	// Deep is --deep-iteration: a line for each record.
	Deep bool
	// Print is --print-data-log: keys and values too. It implies Deep.
	Print bool
	// MaxBytes is --max-bytes: how much of a log is read. 0 means all of it.
	MaxBytes int64
	// WorkingDir is what relative paths are relative to in findings.
	WorkingDir string
}

// Dumper prints files one after the other. It is not safe for concurrent use.
type Dumper struct {
	fs   vfs.FS
	opts Options
	out  *bufio.Writer
	err  io.Writer

	damaged bool
	// What the tool keeps until it has printed all files, each in the order of
	// the files.
	offsets, timestamps, order, missing, gaps []findings
}

// findings are the lines about one file, under their heading.
type findings struct {
	heading string
	lines   []string
}

// New returns a Dumper that prints to stdout, and to stderr what the tool prints
// there.
func New(fsys vfs.FS, stdout, stderr io.Writer, opts Options) *Dumper {
	opts.Deep = opts.Deep || opts.Print
	return &Dumper{fs: fsys, opts: opts, out: bufio.NewWriterSize(stdout, 64<<10), err: stderr}
}

// Exception is what ends the tool. Everything before it has been printed.
type Exception struct {
	Class   string // such as java.lang.IllegalArgumentException
	Message string // may be empty
}

func (e *Exception) Error() string {
	if e.Message == "" {
		return e.Class
	}
	return e.Class + ": " + e.Message
}

func exceptionf(class, format string, args ...any) *Exception {
	return &Exception{class, fmt.Sprintf(format, args...)}
}

// Classes of exceptions that the tool ends with.
const (
	kafkaException  = "org.apache.kafka.common.KafkaException"
	corruptRecord   = "org.apache.kafka.common.errors.CorruptRecordException"
	invalidRecord   = "org.apache.kafka.common.InvalidRecordException"
	illegalArgument = "java.lang.IllegalArgumentException"
	numberFormat    = "java.lang.NumberFormatException"
	noSuchElement   = "java.util.NoSuchElementException"
	indexOutOfRange = "java.lang.IndexOutOfBoundsException"
)

// Damaged reports whether anything printed so far was damage. Not all that the
// tool points out is: offsets with gaps are what compaction leaves, and indexes
// of followers name the last of several batches where the tool wants the first.
func (d *Dumper) Damaged() bool { return d.damaged }

// File dumps one file. known is false for a file of a kind that the tool does
// not know, which it says on stderr. An *Exception ended the tool: nothing
// further would have been printed, the findings neither. Any other error is one
// of reading.
func (d *Dumper) File(path string) (known bool, err error) {
	path = javaPath(path)
	fmt.Fprintf(d.out, "Dumping %s\n", path)
	known, err = d.file(path)
	if flushed := d.out.Flush(); err == nil {
		err = flushed
	}
	return known, err
}

func (d *Dumper) file(path string) (bool, error) {
	name := filepath.Base(path)
	switch filepath.Ext(name) {
	case layout.Log.Suffix(), checkpointSuffix:
		return true, d.log(path, name)
	case layout.OffsetIndex.Suffix():
		return true, d.index(path, name)
	case layout.TimeIndex.Suffix():
		return true, d.timeIndex(path, name)
	case layout.TxnIndex.Suffix():
		return true, d.txnIndex(path, name)
	case layout.Snapshot.Suffix():
		return true, d.snapshot(path)
	}
	d.out.Flush()
	fmt.Fprintf(d.err, "Ignoring unknown file %s\n", path)
	return false, nil
}

const checkpointSuffix = ".checkpoint"

// Findings prints what the tool prints last, on stderr.
func (d *Dumper) Findings() error {
	w := bufio.NewWriter(d.err)
	for _, sections := range [][]findings{d.offsets, d.timestamps, d.order, d.missing, d.gaps} {
		for _, s := range sections {
			fmt.Fprintln(w, s.heading)
			for _, line := range s.lines {
				fmt.Fprintln(w, line)
			}
		}
	}
	return w.Flush()
}

// absolute is java.io.File.getAbsolutePath.
func (d *Dumper) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return d.opts.WorkingDir + string(filepath.Separator) + path
}

// javaPath is java.io.File's normal form of a path: separators that follow each
// other are one, and none is at the end. Unlike filepath.Clean it keeps dots.
func javaPath(path string) string {
	path = filepath.FromSlash(path)
	volume := filepath.VolumeName(path)
	sep := string(filepath.Separator)
	rest := path[len(volume):]
	for strings.Contains(rest, sep+sep) {
		rest = strings.ReplaceAll(rest, sep+sep, sep)
	}
	if len(rest) > 1 {
		rest = strings.TrimSuffix(rest, sep)
	}
	return volume + rest
}

// baseOffset is the number that a name begins with, up to the first dot.
func baseOffset(name string) (int64, error) {
	digits, _, _ := strings.Cut(name, ".")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, exceptionf(numberFormat, "For input string: %q", digits)
	}
	return n, nil
}

// sibling is the path of the file with the same number and another suffix.
func sibling(path, suffix string) string {
	digits, _, _ := strings.Cut(filepath.Base(path), ".")
	return filepath.Join(filepath.Dir(path), digits+suffix)
}

// source is an open file of which the size is fixed.
type source struct {
	file vfs.File
	path string
	end  int64 // nothing at or beyond it is read

	buf   []byte
	start int64 // position of buf[0]
}

func (d *Dumper) open(path string) (*source, error) {
	f, err := d.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &source{file: f, path: path, end: info.Size()}, nil
}

func (s *source) Close() error { return s.file.Close() }

// whole and slice are FileRecords.toString of a whole log and of a part of it.
func (s *source) whole() string { return s.describe(0, s.end, math.MaxInt32) }

func (s *source) slice(from, to int64) string { return s.describe(from, to-from, to) }

func (s *source) describe(start, size, end int64) string {
	return fmt.Sprintf("FileRecords(size=%d, file=%s, start=%d, end=%d)", size, s.path, start, end)
}

const chunkSize = 256 << 10

// read returns n bytes from pos, which lie before the end. They are valid until
// the next call.
func (s *source) read(pos, n int64) ([]byte, error) {
	if off := pos - s.start; off >= 0 && off+n <= int64(len(s.buf)) {
		return s.buf[off : off+n : off+n], nil
	}
	want := min(max(n, chunkSize), s.end-pos)
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:want]
	got, err := vfs.ReadFull(s.file, s.buf, pos)
	s.buf, s.start = s.buf[:got], pos
	if int64(got) < n {
		return nil, fmt.Errorf("read %s at position %d: %w", s.path, pos, err)
	}
	return s.buf[:n:n], nil
}
