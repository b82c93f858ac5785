package record

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestVarintsAreThoseOfProtocolBuffers(t *testing.T) {
	for _, tt := range []struct {
		v    int32
		want string
	}{
		{0, "00"}, {-1, "01"}, {1, "02"}, {63, "7e"}, {-64, "7f"}, {64, "8001"}, {-65, "8101"},
		{8191, "fe7f"}, {-8192, "ff7f"}, {8192, "808001"}, {-8193, "818001"},
		{1048575, "feff7f"}, {1048576, "80808001"}, {134217727, "feffff7f"}, {134217728, "8080808001"},
		{math.MaxInt32, "feffffff0f"}, {math.MinInt32, "ffffffff0f"},
	} {
		b := appendVarint(nil, tt.v)
		require.Equal(t, tt.want, hex.EncodeToString(b), "%d", tt.v)
		require.Equal(t, len(b), sizeVarint(tt.v), "%d", tt.v)
		v, p := varint(b, 0)
		require.Equal(t, tt.v, v)
		require.Equal(t, len(b), p)
	}
	for _, tt := range []struct {
		v    int64
		want string
	}{
		{300, "d804"}, {-300, "d704"},
		{math.MaxInt64, "feffffffffffffffff01"}, {math.MinInt64, "ffffffffffffffffff01"},
	} {
		b := appendVarlong(nil, tt.v)
		require.Equal(t, tt.want, hex.EncodeToString(b), "%d", tt.v)
		require.Equal(t, len(b), sizeVarlong(tt.v), "%d", tt.v)
		v, p := varlong(b, 0)
		require.Equal(t, tt.v, v)
		require.Equal(t, len(b), p)
	}
}

func TestVarintsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v32, v64 := rapid.Int32().Draw(t, "v32"), rapid.Int64().Draw(t, "v64")
		b := appendVarlong(appendVarint([]byte{0xff}, v32), v64)
		got32, p := varint(b, 1)
		require.Equal(t, v32, got32)
		require.Equal(t, 1+sizeVarint(v32), p)
		got64, p := varlong(b, p)
		require.Equal(t, v64, got64)
		require.Equal(t, len(b), p)
		require.Equal(t, sizeVarlong(v64), len(b)-1-sizeVarint(v32))
		for cut := 1; cut < 1+sizeVarint(v32); cut++ {
			_, p = varint(b[:cut], 1)
			require.Equal(t, -1, p)
		}
	})
}

func TestVarintsEndInTime(t *testing.T) {
	long := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
	_, p := varint(long, 0)
	require.Equal(t, -1, p)
	_, p = varlong(long, 0)
	require.Equal(t, -1, p)

	_, p = varint(nil, 0)
	require.Equal(t, -1, p)
	_, p = varlong(nil, 0)
	require.Equal(t, -1, p)
}

// As Kafka's do: longer than needed is fine, and bits beyond the width are lost.
func TestVarintsAcceptLazyEncodings(t *testing.T) {
	v, p := varint([]byte{0x82, 0x80, 0x80, 0x80, 0x70}, 0)
	require.Equal(t, int32(1), v)
	require.Equal(t, 5, p)
	l, p := varlong([]byte{0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7e}, 0)
	require.Equal(t, int64(1), l)
	require.Equal(t, 10, p)
}
