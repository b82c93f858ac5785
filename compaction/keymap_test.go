package compaction

import (
	"fmt"
	"math"
	"slices"
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

// Every size on the way: what grows keeps what it has, also beyond the homes and in
// memory that was used before.
func TestAKeyMapGrowsInsideOfItsMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 20*fewHomes).Draw(t, "slots")
		m := NewKeyMap(slots)
		for range 2 {
			keys := rapid.IntRange(0, slots).Draw(t, "keys")
			for i := range keys {
				require.True(t, m.Put(fmt.Append(nil, "key", i), int64(i)))
				if m.homes < slots {
					require.LessOrEqual(t, m.Len(), m.homes-m.homes*3/8+1)
				}
			}
			require.Equal(t, keys, m.Len())
			for i := range keys {
				require.EqualValues(t, i, m.Get(fmt.Append(nil, "key", i)))
			}
			if keys < slots {
				require.EqualValues(t, -1, m.Get([]byte("absent")))
			}
			for _, s := range m.slots[m.used:] {
				require.Zero(t, s)
			}
			m.Clear()
			require.Zero(t, slices.IndexFunc(m.slots, func(s slot) bool { return s != slot{} })+1)
		}
	})
}

// The hashes of one cluster, at either end of the table, can need slots that others
// have not left yet, or that are not there.
func TestAKeyMapGrowsWhateverTheHashesAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 5*fewHomes).Draw(t, "slots")
		m := NewKeyMap(slots)
		m.homes = rapid.IntRange(1, slots).Draw(t, "homes")
		hash := rapid.Custom(func(t *rapid.T) keyHash {
			near := rapid.SampledFrom([]uint64{0, 1 << 63, math.MaxUint64 - 1<<20}).Draw(t, "near")
			return keyHash{near + rapid.Uint64Range(0, 1<<20).Draw(t, "above"), rapid.Uint64Range(0, 3).Draw(t, "rest")}
		})
		want := map[keyHash]int64{}
		for offset, h := range rapid.SliceOfN(hash, 0, 60).Draw(t, "hashes") {
			if m.put(h, int64(offset)) {
				want[h] = int64(offset)
			} else {
				require.Len(t, want, slots)
			}
		}
		require.Equal(t, len(want), m.Len())
		for h, offset := range want {
			require.Equal(t, offset, m.get(h))
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
