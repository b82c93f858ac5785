package seglog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// A reader of committed records goes on behind a sealed segment that holds nothing
// for it, and a follower does not step over what is not committed yet.
func TestReadersOfCommittedRecordsCrossSegments(t *testing.T) {
	h := newHistory(t).run("d:before t1:aborted | t1:aborted | t1:aborted abort:1 | d:after |")
	committed := func() []string {
		keys := []string{}
		for r, err := range h.log.Records(t.Context(), 0, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
			require.NoError(t, err)
			keys = append(keys, string(r.Key))
		}
		return keys
	}
	require.Equal(t, []string{"before", "after"}, committed())

	// The last stable offset lies in a sealed segment; its records come when they may.
	h.run("d:early t2:late d:behind | d:active")
	require.Equal(t, []string{"before", "after", "early"}, committed())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var followed []string
	for r, err := range h.log.Records(ctx, 0, &seglog.IterOptions{Isolation: seglog.ReadCommitted, Follow: true}) {
		require.NoError(t, err)
		followed = append(followed, string(r.Key))
		switch string(r.Key) {
		case "early":
			go func() { // when it waits, or not yet: both must do
				_, err := h.log.EndTransaction(seglog.Producer{ID: 2}, seglog.Commit, nil)
				if err != nil {
					cancel()
				}
			}()
		case "active":
			require.Equal(t, []string{"before", "after", "early", "late", "behind", "active"}, followed)
			return
		}
	}
}
