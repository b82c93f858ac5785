package seglog_test

import (
	"fmt"
	"iter"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// What was read ahead does not count any more when the log has changed since.
func TestAnIterationIsNotFedFromWhatItHasReadAhead(t *testing.T) {
	begin := func(t *testing.T, rollAt int) (*seglog.Log, func() (seglog.Record, error)) {
		l := openLog(t, filepath.Join(t.TempDir(), "log"), quick)
		for i := range 20 {
			appendEach(t, l, seglog.Record{Timestamp: 1, Value: fmt.Appendf(nil, "old %d", i)})
			if i == rollAt {
				_, err := l.Roll()
				require.NoError(t, err)
			}
		}
		pull, stop := iter.Pull2(l.Records(t.Context(), 0, nil))
		t.Cleanup(stop)
		next := func() (seglog.Record, error) {
			r, err, more := pull()
			require.True(t, more)
			return r, err
		}
		for i := range 3 {
			r, err := next()
			require.NoError(t, err)
			require.EqualValues(t, i, r.Offset)
		}
		return l, next
	}
	for _, rollAt := range []int{9, -1} { // with and without a segment that goes
		t.Run("truncated and written anew", func(t *testing.T) {
			l, next := begin(t, rollAt)
			require.NoError(t, l.TruncateTo(4))
			for i := range 3 {
				appendEach(t, l, seglog.Record{Timestamp: 1, Value: fmt.Appendf(nil, "new %d", 4+i)})
			}
			for offset, want := range []string{3: "old 3", 4: "new 4", 5: "new 5", 6: "new 6"} {
				if want == "" {
					continue
				}
				r, err := next()
				require.NoError(t, err)
				require.EqualValues(t, offset, r.Offset)
				require.Equal(t, want, string(r.Value))
			}
		})
	}
	t.Run("truncated below what was read", func(t *testing.T) {
		l, next := begin(t, 9)
		require.NoError(t, l.TruncateTo(1))
		_, err := next()
		var truncated *seglog.TruncationError
		require.ErrorAs(t, err, &truncated)
	})
	t.Run("its segment deleted", func(t *testing.T) {
		l, next := begin(t, 9)
		require.NoError(t, l.DeleteBefore(12))
		_, err := next()
		require.ErrorIs(t, err, seglog.ErrOffsetOutOfRange)
	})
	t.Run("closed", func(t *testing.T) {
		l, next := begin(t, 9)
		closeLog(t, l)
		_, err := next()
		require.ErrorIs(t, err, seglog.ErrClosed)
	})
}
