package seglog_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
)

// The five checks of docs/failures.md, which break other logs. Each begins with ten
// records that were synced one by one; bench/peers runs them against those logs.

var fiveChecks = seglog.Options{IndexIntervalBytes: 1, SegmentIndexBytes: 4096}

func tenRecords(t *testing.T, opts seglog.Options, dir string) *seglog.Log {
	t.Helper()
	l, err := seglog.Open(dir, opts)
	require.NoError(t, err)
	for i := range 10 {
		_, err := l.Append([]seglog.Record{tenth(i)}, nil)
		require.NoError(t, err)
	}
	return l
}

func tenth(i int) seglog.Record { return one(int64(100+i), fmt.Sprint("record ", i)) }

// requireTen: the records of the given numbers are there, and no others.
func requireTen(t *testing.T, l *seglog.Log, numbers ...int64) {
	t.Helper()
	found := []int64{}
	for r, err := range l.Records(t.Context(), 0, nil) {
		require.NoError(t, err)
		require.Equal(t, tenth(int(r.Offset)).Value, r.Value)
		found = append(found, r.Offset)
	}
	require.Equal(t, numbers, found)
}

// eachEnd runs a check on a directory that was closed, and on one whose process was
// killed.
func eachEnd(t *testing.T, check func(t *testing.T, dir string)) {
	t.Run("closed", func(t *testing.T) {
		l := tenRecords(t, fiveChecks, t.TempDir())
		closeLog(t, l)
		check(t, l.Dir())
	})
	t.Run("killed", func(t *testing.T) {
		l := tenRecords(t, fiveChecks, filepath.Join(t.TempDir(), "orders-0"))
		defer l.Close()
		check(t, crash(t, l))
	})
}

func TestCheckA_TheLastBytesAreCutOff(t *testing.T) {
	eachEnd(t, func(t *testing.T, dir string) {
		path := segmentFile(dir, 0, ".log")
		require.NoError(t, os.Truncate(path, fileSize(t, path)-5))
		l := openLog(t, dir, fiveChecks)
		requireTen(t, l, span(0, 8)...)
		require.Len(t, stats(t, l).Recovery.Cut, 1)
		at, err := l.Append([]seglog.Record{tenth(9)}, nil)
		require.NoError(t, err)
		require.Equal(t, int64(9), at.BaseOffset)
		l = reopen(t, l, fiveChecks)
		requireTen(t, l, span(0, 9)...)
		closeLog(t, l)
		requireSound(t, dir)
	})
}

// What was durable is known once a log was closed or has rolled. Then the damage is
// named, and costs one record. Of an active segment whose process was killed it is
// not known: the log ends at the damage, and all behind is set aside in a file.
func TestCheckB_AByteIsFlippedInTheMiddle(t *testing.T) {
	eachEnd(t, func(t *testing.T, dir string) {
		bad := batchesOf(t, dir, 0)[5]
		edit(t, segmentFile(dir, 0, ".log"), func(b []byte) []byte {
			b[bad.position+int64(bad.Size())-4] ^= 1
			return b
		})
		l := openLog(t, dir, fiveChecks)
		if st := stats(t, l); !st.Recovery.Clean {
			requireTen(t, l, span(0, 4)...)
			require.Len(t, st.Recovery.Cut, 1)
			require.Len(t, st.Recovery.SetAside, 1)
			require.Regexp(t, fmt.Sprintf(`^00000000000000000000\.log\.%d\.[0-9a-f]{16}\.cut$`, bad.position), st.Recovery.SetAside[0])
			return
		}
		found, damage := offsetsFrom(t, l, 0)
		require.Equal(t, spans(span(0, 4), span(6, 9)), found)
		require.Len(t, damage, 1)
		require.Equal(t, bad.position, damage[0].Position)
		_, err := l.Get(5)
		require.ErrorIs(t, err, seglog.ErrCorrupt)
		for _, o := range found {
			r, err := l.Get(o)
			require.NoError(t, err)
			require.Equal(t, tenth(int(o)).Value, r.Value)
		}
	})
}

func TestCheckC_AnIndexIsTwoEntriesShort(t *testing.T) {
	for kind, entry := range map[string]int64{".index": 8, ".timeindex": 12} {
		t.Run(kind, func(t *testing.T) {
			eachEnd(t, func(t *testing.T, dir string) {
				path := segmentFile(dir, 0, kind)
				edit(t, path, func(b []byte) []byte { // there may be room behind the entries
					for len(b) > 0 && binary.BigEndian.Uint64(b[len(b)-8:]) == 0 {
						b = b[:len(b)-int(entry)]
					}
					return b[:len(b)-2*int(entry)]
				})
				l := openLog(t, dir, fiveChecks)
				require.Equal(t, int64(10), l.Offsets().End)
				requireTen(t, l, span(0, 9)...)
				for i := range int64(10) {
					require.Equal(t, i, offsetForTime(t, l, 100+i))
				}
				at, err := l.Append([]seglog.Record{tenth(10)}, nil)
				require.NoError(t, err)
				require.Equal(t, int64(10), at.BaseOffset)
				l = reopen(t, l, fiveChecks)
				requireTen(t, l, span(0, 10)...)
				closeLog(t, l)
				requireSound(t, dir)
			})
		})
	}
}

// On a real file system this is TestNothingIsWrittenBehindAPartialAppend.
func TestCheckD_AnAppendFailsHalfwayAndIsTriedAgain(t *testing.T) {
	for moved := range 90 { // bytes written before it fails
		disk := logtest.NewDisk(logtest.DiskOptions{})
		opts := fiveChecks
		opts.FS = disk.FS()
		l := tenRecords(t, opts, "log")
		disk.FailAfter(logtest.Calls{Kind: logtest.Write, Name: "*.log", Nth: 1}, moved, syscall.ENOSPC)
		_, err := l.Append([]seglog.Record{tenth(10)}, nil)
		require.ErrorIs(t, err, seglog.ErrNoSpace)
		requireTen(t, l, span(0, 9)...)
		for i := 10; i < 12; i++ {
			at, err := l.Append([]seglog.Record{tenth(i)}, nil)
			require.NoError(t, err)
			require.Equal(t, int64(i), at.BaseOffset)
		}
		requireTen(t, l, span(0, 11)...)
		for _, after := range []*logtest.Disk{disk.Kill(), disk} {
			if after == disk {
				require.NoError(t, l.Close())
			}
			opts.FS = after.FS()
			again, err := seglog.Open("log", opts)
			require.NoError(t, err)
			requireTen(t, again, span(0, 11)...)
			require.NoError(t, again.Close())
		}
	}
}

func TestCheckE_ABatchOfThreeFailsPartway(t *testing.T) {
	for moved := range 130 {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		opts := fiveChecks
		opts.FS = disk.FS()
		l := tenRecords(t, opts, "log")
		disk.FailAfter(logtest.Calls{Kind: logtest.Write, Name: "*.log"}, moved, syscall.EIO)
		_, err := l.Append([]seglog.Record{tenth(10), tenth(11), tenth(12)}, nil)
		require.ErrorIs(t, err, syscall.EIO)
		requireTen(t, l, span(0, 9)...)
		for _, after := range []*logtest.Disk{disk.Kill(), disk} {
			if after == disk {
				disk.Heal()
				require.NoError(t, l.Close())
			}
			opts.FS = after.FS()
			again, err := seglog.Open("log", opts)
			require.NoError(t, err)
			requireTen(t, again, span(0, 9)...)
			require.NoError(t, again.Close())
		}
	}
}
