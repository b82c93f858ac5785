package seglog_test

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/logtest"
)

// slowDisk takes its time to sync the log, and may refuse to.
type slowDisk struct {
	vfs.FS
	takes time.Duration
	mu    sync.Mutex
	syncs int
	full  error
}

func (d *slowDisk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return slowFile{f, d}, nil
}

type slowFile struct {
	vfs.File
	d *slowDisk
}

func (f slowFile) Sync() error {
	time.Sleep(f.d.takes) // by the clock of synctest: it costs nothing
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	return errors.Join(f.d.full, f.File.Sync())
}

func onSlowDisk(t *testing.T) (*seglog.Log, *slowDisk) {
	d := &slowDisk{FS: logtest.NewDisk(logtest.DiskOptions{}).FS(), takes: time.Millisecond}
	l, err := seglog.Open("log", seglog.Options{FS: d})
	require.NoError(t, err)
	return l, d
}

// Most of the 16 are in each, 50 to 85 syncs in all; the limit is far above that, since who
// runs when is the scheduler's. (Without gather it is nearly 100.)
func TestAppendersWhoWaitTogetherShareEachSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := onSlowDisk(t)
		defer l.Close()
		const appenders, each = 16, 50
		var wg sync.WaitGroup
		for range appenders {
			wg.Go(func() {
				for range each {
					at, err := l.Append(single("x"), nil)
					require.NoError(t, err)
					require.Greater(t, l.Offsets().Durable, at.LastOffset)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, appenders*each, l.Offsets().Durable)
		t.Logf("%d syncs for %d appends", d.syncs, appenders*each)
		require.Less(t, d.syncs, appenders*each/4)
	})
}

func TestALoneAppenderSyncsOnceForEachAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := onSlowDisk(t)
		defer l.Close()
		begin := time.Now()
		for range 10 {
			_, err := l.Append(single("x"), nil)
			require.NoError(t, err)
		}
		require.Equal(t, 10, d.syncs)
		require.Equal(t, 10*time.Millisecond, time.Since(begin))
	})
}

// All of them, and not only the one whose sync it was.
func TestAFailedSyncFailsEveryoneWhoWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d := onSlowDisk(t)
		defer l.Close()
		_, err := l.Append(single("durable"), nil)
		require.NoError(t, err)
		d.full = errors.New("no more")
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				_, err := l.Append(single("x"), nil)
				require.ErrorIs(t, err, seglog.ErrFailed)
				require.ErrorContains(t, err, "no more")
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, l.Offsets().Durable)
		require.Equal(t, 2, d.syncs, "nobody tries again")
	})
}
