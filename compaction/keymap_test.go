package compaction

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Rows 356 to 358, K001.
func TestAKeyMapThatIsFullStillAnswers(t *testing.T) {
	m := NewKeyMap(10)
	require.Equal(t, 10, m.Cap())
	require.EqualValues(t, -1, m.Latest())
	for i := range int64(10) {
		require.True(t, m.Put(fmt.Append(nil, "key", i), i))
		require.Equal(t, i, m.Latest())
	}
	require.Equal(t, 10, m.Len())
	for i := range int64(10) {
		require.Equal(t, i, m.Get(fmt.Append(nil, "key", i)))
	}
	require.EqualValues(t, -1, m.Get([]byte("absent")))
	require.False(t, m.Put([]byte("one more"), 10))
	require.EqualValues(t, 9, m.Latest())
	require.True(t, m.Put([]byte("key3"), 11), "a key that is there takes no room")
	require.EqualValues(t, 11, m.Get([]byte("key3")))
	m.SetLatest(20)
	require.EqualValues(t, 20, m.Latest())
	m.Clear()
	require.Zero(t, m.Len())
	require.EqualValues(t, -1, m.Latest())
	for i := range 10 {
		require.EqualValues(t, -1, m.Get(fmt.Append(nil, "key", i)))
	}
	require.True(t, m.Put(nil, 0), "no bytes are a key, too, and offset 0 an offset")
	require.EqualValues(t, 0, m.Get([]byte{}))
}

func TestAKeyMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewKeyMap(rapid.IntRange(1, 40).Draw(t, "slots"))
		want := map[string]int64{}
		keys := rapid.StringN(0, 2, 8)
		for offset, key := range rapid.SliceOfN(keys, 0, 60).Draw(t, "keys") {
			_, known := want[key]
			fits := known || len(want) < m.Cap()
			require.Equal(t, fits, m.Put([]byte(key), int64(offset)))
			if fits {
				want[key] = int64(offset)
			}
			require.Equal(t, len(want), m.Len())
		}
		for key, offset := range want {
			require.Equal(t, offset, m.Get([]byte(key)))
		}
		if key := keys.Draw(t, "key"); want[key] == 0 {
			_, known := want[key]
			require.Equal(t, known, m.Get([]byte(key)) == 0)
		}
	})
}

func TestASlotTakesAsManyBytesAsKafkas(t *testing.T) { require.EqualValues(t, 24, SlotBytes) }

func BenchmarkKeyMap(b *testing.B) {
	m := NewKeyMap(1 << 20)
	keys := make([][]byte, 1<<20*9/10)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%012d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Put(keys[i%len(keys)], int64(i))
	}
}
