package record_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/record"
)

// A wrapper keeps its format when it is made again of some of its messages, and the
// offsets of these, with their gaps.
func TestALegacyWrapperIsWrappedAgain(t *testing.T) {
	for _, magic := range []int8{record.MagicV0, record.MagicV1} {
		for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.LZ4} {
			t.Run(fmt.Sprintf("magic %d %s", magic, codec), func(t *testing.T) {
				// The format is taken from a wrapper, of which only the header counts.
				like := make([]byte, 40)
				copy(like[8:], []byte{0, 0, 0, 28})
				like[16], like[17] = byte(magic), byte(codec)
				b, err := record.Parse(like)
				require.NoError(t, err)
				var l record.LegacyBuilder
				require.NoError(t, l.Reset(b))
				_, err = l.Build()
				require.ErrorIs(t, err, record.ErrEmpty)
				var want []record.Record
				for i, offset := range []int64{20, 21, 25, 1 << 40} {
					r := record.Record{Offset: offset, Timestamp: record.NoTimestamp, Key: fmt.Append(nil, "key ", i)}
					if i%2 == 0 {
						r.Value = []byte("a value a value a value")
					}
					if magic == record.MagicV1 {
						r.Timestamp = int64(100 - i)
					}
					require.NoError(t, l.AppendAt(offset, r))
					want = append(want, r)
				}
				require.ErrorIs(t, l.AppendAt(5, record.Record{}), record.ErrInvalid)
				out, err := l.Build()
				require.NoError(t, err)
				got, err := record.Parse(out)
				require.NoError(t, err)
				require.NoError(t, got.Verify(nil))
				require.Equal(t, magic, got.Magic())
				require.Equal(t, codec, got.Codec())
				require.EqualValues(t, int64(1<<40), got.LastOffset())
				if magic == record.MagicV1 {
					require.EqualValues(t, 100, got.MaxTimestamp())
				}
				var it record.Iterator
				require.NoError(t, it.Reset(got))
				for range 2 {
					var records []record.Record
					for it.Next() {
						records = append(records, it.Record().Clone())
					}
					require.NoError(t, it.Err())
					require.Equal(t, want, records)
					it.Rewind()
				}
			})
		}
	}
	var l record.LegacyBuilder
	b, err := record.Parse(record.AppendEmptyBatch(nil, record.BatchHeader{}))
	require.NoError(t, err)
	require.ErrorIs(t, l.Reset(b), record.ErrUnsupported)
}

func TestAnIteratorIsRewound(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: 7, Codec: codec})
		for range 3 {
			require.NoError(t, b.Append(record.Record{Key: []byte("k"), Value: []byte("v")}))
		}
		out, err := b.Build()
		require.NoError(t, err)
		batch, err := record.Parse(out)
		require.NoError(t, err)
		var it record.Iterator
		require.NoError(t, it.Reset(batch))
		for range 3 {
			offset := int64(7)
			for it.Next() {
				require.Equal(t, offset, it.Record().Offset)
				offset++
			}
			require.EqualValues(t, 10, offset)
			it.Rewind()
		}
	}
}
