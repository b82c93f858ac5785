package seglog_test

import (
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/logtest"
)

// meter counts what is read from a file system.
type meter struct {
	vfs.FS
	opened, bytes atomic.Int64 // files; bytes read or mapped
}

func (m *meter) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	m.opened.Add(1)
	f, err := m.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return meteredFile{f, m}, nil
}

type meteredFile struct {
	vfs.File
	m *meter
}

func (f meteredFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.m.bytes.Add(int64(n))
	return n, err
}

func (f meteredFile) Map(length int, writable bool) (vfs.Mapping, error) {
	f.m.bytes.Add(int64(length))
	return f.File.Map(length, writable)
}

// K047, decision 7: what opening reads does not depend on how much there is, only
// on what was written since the last roll.
func TestOpeningReadsNoMoreOfALargeLogThanOfASmallOne(t *testing.T) {
	opts := seglog.Options{SegmentIndexBytes: 1 << 10, MaxOpenSegments: 8, Sync: seglog.SyncNever}
	reaches := func(disk *logtest.Disk, point int) {
		eventually(t, func() bool {
			state, err := disk.ReadFile("log/seglog.state")
			return err == nil && strings.Contains(string(state), fmt.Sprintf("recovery-point %d\n", point))
		})
	}
	build := func(segments int) (closed, killed *logtest.Disk) {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		o := opts
		o.FS = disk.FS()
		l, err := seglog.Open("log", o)
		require.NoError(t, err)
		for i := range segments {
			if i > 0 {
				_, err := l.Roll()
				require.NoError(t, err)
			}
			_, err := l.Append(many(20, int64(1+20*i)), nil)
			require.NoError(t, err)
		}
		require.Len(t, bases(t, l), segments)
		reaches(disk, 20*(segments-1))
		killed = disk.Kill()
		require.NoError(t, l.Close())
		return disk, killed
	}
	open := func(disk *logtest.Disk, readOnly, killed bool, segments int) (opened, read int64) {
		m := &meter{FS: disk.FS()}
		o := opts
		o.FS, o.ReadOnly = m, readOnly
		l, err := seglog.Open("log", o)
		require.NoError(t, err)
		if killed && !readOnly { // with what it does in the background
			reaches(disk, 20*segments-1)
		}
		opened, read = m.opened.Load(), m.bytes.Load()
		require.Equal(t, int64(20*segments), l.Offsets().End)
		require.NoError(t, l.Close())
		return opened, read
	}
	closed10, killed10 := build(10)
	closed1000, killed1000 := build(1000)
	for _, row := range []struct {
		name         string
		small, large *logtest.Disk
		readOnly     bool
		killed       bool
	}{
		{"closed, for reading", closed10, closed1000, true, false},
		{"closed, for writing", closed10, closed1000, false, false},
		{"killed, for reading", killed10, killed1000, true, true},
		{"killed, for writing", killed10, killed1000, false, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			files, bytes := open(row.small, row.readOnly, row.killed, 10)
			manyFiles, manyBytes := open(row.large, row.readOnly, row.killed, 1000)
			t.Logf("10 segments: %d files, %d bytes; 1000 segments: %d files, %d bytes", files, bytes, manyFiles, manyBytes)
			require.Equal(t, files, manyFiles)
			require.InDelta(t, bytes, manyBytes, 0.02*float64(bytes)+100) // offsets have more digits
		})
	}
}
