package offsetslog

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A table is a map, whichever way it is kept.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table
		want := map[TopicPartition]entry{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			tp := TopicPartition{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic"), int32(rapid.IntRange(0, 7).Draw(t, "partition"))}
			if rapid.Bool().Draw(t, "put") {
				e := entry{record: rapid.Int64().Draw(t, "record")}
				got.put(tp, e)
				want[tp] = e
			} else {
				_, had := want[tp]
				require.Equal(t, had, got.delete(tp))
				delete(want, tp)
			}
			e, ok := got.get(tp)
			require.Equal(t, want[tp], e)
			require.Equal(t, ok, got.has(tp))
			require.Equal(t, len(want), got.len())
			require.Equal(t, want, maps.Collect(got.all()))
		}
	})
}
