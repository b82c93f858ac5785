package seglog_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog"
)

func TestTheLatestRecordOfAKeyIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		opts := compacted
		opts.SegmentBytes = 700
		opts.DeleteRetention = -1
		opts.ProducerIDExpiration = math.MaxInt64
		l, err := seglog.Open(t.TempDir(), opts)
		require.NoError(rt, err)
		defer func() { require.NoError(rt, l.Close()) }()
		tables := []*seglog.KeyTable{seglog.NewKeyTable(l, 0), seglog.NewKeyTable(l, 200), seglog.NewKeyTable(l, 1<<20)}
		check := func() {
			want := map[string]seglog.Record{}
			for r, err := range l.Records(t.Context(), l.Offsets().Start, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
				require.NoError(rt, err)
				want[string(r.Key)] = r.Clone()
			}
			for i := range 9 {
				key := fmt.Sprint("k", i)
				r, found, err := l.LatestByKey(t.Context(), []byte(key))
				require.NoError(rt, err)
				expected, known := want[key]
				require.Equal(rt, known, found, key)
				require.Equal(rt, expected, r)
				for _, table := range tables {
					r, found, err = table.Latest(t.Context(), []byte(key))
					require.NoError(rt, err)
					require.Equal(rt, known, found, key)
					require.Equal(rt, expected, r)
				}
			}
		}
		draw := func(low, high int, what string) int { return rapid.IntRange(low, high).Draw(rt, what) }
		now := int64(1_000_000)
		for range draw(1, 25, "steps") {
			switch draw(0, 9, "step") {
			case 0:
				now += 10
				compact(rt, l, &seglog.CompactOptions{Full: true, Now: time.UnixMilli(now)})
			case 1:
				rollLog(rt, l)
			case 2:
				at := l.Offsets()
				require.NoError(rt, l.TruncateTo(at.Start+int64(draw(0, int(at.End-at.Start), "to"))))
			case 3:
				at := l.Offsets()
				require.NoError(rt, l.DeleteBefore(at.Start+int64(draw(0, int(at.End-at.Start), "before"))))
			case 4:
				_, err := l.EndTransaction(seglog.Producer{ID: 1}, seglog.TransactionResult(draw(0, 1, "commit")), nil)
				require.NoError(rt, err)
			case 5:
				check()
			default:
				var opts seglog.AppendOptions
				if draw(0, 2, "transaction") == 0 {
					opts.Producer = &seglog.Producer{ID: 1, Transactional: true}
					known, err := l.Producers()
					require.NoError(rt, err)
					for _, p := range known {
						opts.Producer.Sequence = p.LastSequence + 1
					}
				}
				value := fmt.Sprint("value ", now)
				if draw(0, 3, "tombstone") == 0 {
					value = ""
				}
				_, err := l.Append([]seglog.Record{kv(fmt.Sprint("k", draw(0, 7, "key")), value), kv(fmt.Sprint("k", draw(0, 7, "key")), "second")}, &opts)
				require.NoError(rt, err)
			}
		}
		check()
	})
}

func TestALookUpByKeyIsCancelled(t *testing.T) {
	l := openLog(t, t.TempDir(), compacted)
	put(t, l, "k", "v")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := l.LatestByKey(ctx, []byte("k"))
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = seglog.NewKeyTable(l, 1000).Latest(ctx, []byte("k"))
	require.ErrorIs(t, err, context.Canceled)
}
