package seglog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

func single(v string) []seglog.Record { return []seglog.Record{{Value: []byte(v)}} }

func TestAppendReturnsDurableByDefault(t *testing.T) {
	l, err := seglog.Open(t.TempDir(), seglog.Options{})
	require.NoError(t, err)
	defer l.Close()
	at, err := l.Append(single("a"), nil)
	require.NoError(t, err)
	require.Equal(t, at.LastOffset+1, l.Offsets().Durable)
}

func TestTicketBecomesDurable(t *testing.T) {
	l, err := seglog.Open(t.TempDir(), seglog.Options{})
	require.NoError(t, err)
	defer l.Close()
	var wg sync.WaitGroup
	for i := range 50 {
		tk, err := l.AppendAsync(single(fmt.Sprint(i)))
		require.NoError(t, err)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			require.NoError(t, tk.Durable(ctx))
			require.Greater(t, l.Offsets().Durable, tk.LastOffset)
		})
	}
	wg.Wait()
}

func TestFlushMessagesBoundsWhatIsUnsynced(t *testing.T) {
	l, err := seglog.Open(t.TempDir(), seglog.Options{Sync: seglog.SyncNever, FlushMessages: 10})
	require.NoError(t, err)
	defer l.Close()
	for range 100 {
		_, err := l.Append(single("x"), nil)
		require.NoError(t, err)
		at := l.Offsets()
		require.Less(t, at.End-at.Durable, int64(10))
	}
}

func TestFlushIntervalSyncsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := seglog.Open(t.TempDir(), seglog.Options{Sync: seglog.SyncNever, FlushInterval: time.Second})
		require.NoError(t, err)
		defer l.Close()
		_, err = l.Append(single("x"), nil)
		require.NoError(t, err)
		require.EqualValues(t, 0, l.Offsets().Durable)
		time.Sleep(time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, l.Offsets().Durable)
	})
}

func TestDurableReadersDoNotSeeWhatIsNotSynced(t *testing.T) {
	l, err := seglog.Open(t.TempDir(), seglog.Options{Sync: seglog.SyncNever})
	require.NoError(t, err)
	defer l.Close()
	l.Append(single("a"), nil)
	require.NoError(t, l.Sync())
	l.Append(single("b"), nil)
	n := 0
	for range l.Records(context.Background(), 0, &seglog.IterOptions{Durable: true}) {
		n++
	}
	require.Equal(t, 1, n)
	res, err := l.Read(0, 1<<20, &seglog.ReadOptions{Durable: true})
	require.NoError(t, err)
	require.EqualValues(t, 1, res.NextOffset)
}
