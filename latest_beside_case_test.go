package seglog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// meanwhile is a context that has something done when it is asked for the second time
// whether it has ended: while a log is being read.
type meanwhile struct {
	context.Context
	asked int
	do    func()
}

func (m *meanwhile) Err() error {
	if m.asked++; m.asked == 2 {
		m.do()
	}
	return m.Context.Err()
}

// A key that is superseded, and compacted away before the table has come to it, is found
// all the same.
func TestAKeyTableMissesNoKeyThatIsCompactedMeanwhile(t *testing.T) {
	l := openLog(t, t.TempDir(), compacted)
	for _, key := range []string{"a", "b", "k"} {
		put(t, l, key, "first")
	}
	ctx := &meanwhile{Context: t.Context(), do: func() {
		put(t, l, "k", "second")
		rollLog(t, l)
		compact(t, l, nil)
	}}
	r, found, err := seglog.NewKeyTable(l, 1<<20).Latest(ctx, []byte("k"))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "second", string(r.Value))
}

// openBeside opens a log once more, as another process does that only reads.
func openBeside(t *testing.T, l *seglog.Log, opts seglog.Options) *seglog.Log {
	t.Helper()
	opts.ReadOnly = true
	return openLog(t, l.Dir(), opts)
}

// What a read-only log looks up by key was the last record of it at some time since it
// was last refreshed, though another process has compacted it: neither one that had been
// superseded before, nor none.
func TestALookUpByKeyIsRightBesideACompaction(t *testing.T) {
	opts := compacted
	opts.SegmentBytes = 150 // each is a group of its own
	for _, row := range []struct {
		name string
		held int64 // an offset whose segment is open before
		keys []string
	}{
		{"an older record is held open", 0, []string{"k", "a", "b", "k"}},
		{"there is no older one", -1, []string{"a", "b", "c", "k"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := openLog(t, filepath.Join(t.TempDir(), "topic-0"), opts)
			for i, key := range row.keys {
				put(t, l, key, fmt.Sprint("v", i))
				if i%2 == 1 {
					rollLog(t, l)
				}
			}
			ro, again := openBeside(t, l, opts), openBeside(t, l, opts)
			if row.held >= 0 {
				for _, l := range []*seglog.Log{ro, again} {
					_, err := l.Get(row.held)
					require.NoError(t, err)
				}
			}
			put(t, l, "k", "newest")
			rollLog(t, l)
			compact(t, l, nil)
			r, found, err := ro.LatestByKey(t.Context(), []byte("k"))
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, "newest", string(r.Value))
			r, found, err = seglog.NewKeyTable(again, 1<<20).Latest(t.Context(), []byte("k"))
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, "newest", string(r.Value))
		})
	}
}
