//go:build !race

package offsetslog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

func TestCommitAllocatesNothing(t *testing.T) {
	opts := quiet
	opts.Sync = seglog.SyncNever
	h := newHouseOnDisk(t, opts)
	r := simple("g", orders, 1)
	r.Offsets[0].Metadata = "same as before"
	require.Less(t, testing.AllocsPerRun(500, func() {
		if err := h.Commit(ctx, r); err != nil {
			t.Error(err)
		}
	}), 1.0)
}
