package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The short way and the long one say the same of any bytes.
func FuzzShort(f *testing.F) {
	for _, r := range [][]Record{
		{{Key: []byte("k"), Value: []byte("value")}, {Timestamp: 5, Value: []byte{}}},
		{{Timestamp: 9000, Key: make([]byte, 63), Value: make([]byte, 64)}, {Key: make([]byte, 8191), Timestamp: 0}},
		{{Value: make([]byte, 8192)}, {Timestamp: 1 << 40, Key: []byte("key"), Value: []byte("value")}},
		{{Key: []byte("k"), Headers: []Header{{Key: "a", Value: []byte("b")}, {Key: "", Value: nil}}}, {Key: make([]byte, 20)}},
	} {
		var b Builder
		b.Reset(BuilderOptions{})
		for _, r := range r {
			require.NoError(f, b.Append(r))
		}
		built, err := b.Build()
		require.NoError(f, err)
		f.Add(built[HeaderSize:], uint8(len(r)), false)
		f.Add(built[HeaderSize:], uint8(len(r)+1), true)
		f.Add(built[HeaderSize:len(built)-1], uint8(len(r)), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, count uint8, appendTime bool) {
		blank := Batch{make([]byte, HeaderSize)}
		blank.b[magicPos] = 2
		begin := func() *Iterator {
			return &Iterator{batch: blank, data: in, count: int(count), baseOffset: 1000, baseTimestamp: 77, hasAppendTime: appendTime, appendTime: 99}
		}
		short, long := begin(), begin()
		for {
			more := long.index < long.count && long.nextV2()
			require.Equal(t, more, short.Next())
			require.Equal(t, long.Err(), short.Err())
			require.Equal(t, long.Position(), short.Position())
			if !more {
				return
			}
			require.Equal(t, long.Record(), short.Record())
			require.Equal(t, cap(long.Record().Key), cap(short.Record().Key))
			require.Equal(t, cap(long.Record().Value), cap(short.Record().Value))
		}
	})
}
