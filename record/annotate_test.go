package record

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func annotated(b Batch) string { return string(AppendAnnotated(nil, b)) }

func TestAnnotatedHeaderIsTheStartOfIt(t *testing.T) {
	for _, g := range goldens {
		b := parse(t, unhex(t, g.hex))
		require.True(t, strings.HasPrefix(annotated(b), string(AppendAnnotatedHeader(nil, b))), g.name)
	}
	require.Equal(t, "before", string(AppendAnnotatedHeader([]byte("before"), rawBatch(0, None, nil))[:6]))
}

func TestAnnotatedTextSaysWhatIsUnusual(t *testing.T) {
	wrong := rawBatch(0, None, nil)
	wrong.Bytes()[crcPos]++
	for _, tt := range []struct {
		name  string
		batch Batch
		want  string
	}{
		{"a wrong checksum", wrong, "# crc32c of bytes 21 onward, which is "},
		{"flags", parse(t, unhex(t, goldens[3].hex)), "21-23: 00 30                    # attributes: none, CreateTime, transactional, control\n"},
		{"a horizon", parse(t, unhex(t, goldens[5].hex)), "# base timestamp and delete horizon 1073741823\n"},
		{"a codec", rawBatch(1, Zstd, []byte{1, 2, 3}), "61-64: 01 02 03                 # records in zstd\n"},
		{"null", parse(t, unhex(t, goldens[6].hex)), "65-66: 01                       #   key length -1\n66-67: 02                       #   value length 1\n"},
		{"a long value", rawBatch(1, None, rawRecord(append([]byte{0, 0, 0, 1, 80}, append(make([]byte, 40), 0)...)...)),
			"67-75: 00 00 00 00 00 00 00 00  #   value \"" + strings.Repeat(`\x00`, 32) + "\"...\n75-83: 00 00 00 00 00 00 00 00\n"},
		{"a compressed wrapper", parse(t, appendLegacy(nil, legacyMessage{codec: Gzip, value: []byte{9}})), "26-27: 09                       # messages in gzip\n"},
		{"no timestamp type in magic 0", parse(t, unhex(t, goldens[1].hex)), "17-18: 00                       # attributes: none\n"},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Contains(t, annotated(tt.batch), tt.want) })
	}
}

// What cannot be decoded is shown as bytes, from where it cannot.
func TestAnnotatedTextShowsDamagedRecords(t *testing.T) {
	fine := rawRecord(0, 0, 0, 1, 1, 0)
	for name, bad := range map[string][]byte{
		"nothing":            nil,
		"length cut off":     {0x80},
		"length too large":   {40, 0, 0, 0, 1, 1, 0},
		"length 0":           {0},
		"timestamp":          rawRecord(0, 0x80),
		"offset":             rawRecord(0, 0, 0x80),
		"key":                rawRecord(0, 0, 0, 50),
		"value":              rawRecord(0, 0, 0, 1, 50),
		"header count":       rawRecord(0, 0, 0, 1, 1, 0x80),
		"header":             rawRecord(0, 0, 0, 1, 1, 4, 0, 1),
		"bytes left over":    rawRecord(0, 0, 0, 1, 1, 0, 7),
		"and more after all": slices.Concat(fine, []byte{1, 2, 3}),
	} {
		b := rawBatch(2, None, slices.Concat(fine, bad))
		text := annotated(b)
		require.Equal(t, b.Bytes(), annotatedBytes(t, []byte(text)), name)
		require.Contains(t, text, "# record 0: length 6\n", name)
	}
	legacy := parse(t, appendLegacy(nil, legacyMessage{magic: 1, key: []byte("key")}))
	legacy.Bytes()[legacyKeyPosV1] = 0x7f
	require.Equal(t, legacy.Bytes(), annotatedBytes(t, []byte(annotated(legacy))))
	require.Contains(t, annotated(legacy), "# not decoded\n")
}
