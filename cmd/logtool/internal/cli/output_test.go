package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/record"
)

func TestTableAlignsNumbersRightAndTextLeft(t *testing.T) {
	var b bytes.Buffer
	out := newOutput(&b)
	table := out.Table(Right("N"), Left("NAME"), Left("LAST"))
	require.NoError(t, table.Row(1, "a", "x"))
	require.NoError(t, table.Row(1000, "naïve ☃", Styled(Bad, "y")))
	require.NoError(t, table.Row(2, "b"))
	require.NoError(t, table.Row(3, "", "z"))
	require.NoError(t, table.Flush())
	require.NoError(t, out.Flush())
	require.Equal(t, strings.Join([]string{
		"   N  NAME     LAST",
		"   1  a        x",
		"1000  naïve ☃  y",
		"   2  b",
		"   3           z",
		"",
	}, "\n"), b.String())
}

func TestStreamedTableShowsEachRowAtOnceAndGrows(t *testing.T) {
	var b bytes.Buffer
	out := newOutput(&b)
	table := out.Table(Right("N").Wide(3), Left("NAME"), Left("NOTE")).Stream()
	require.NoError(t, table.Row(1, "a", "a note of any length"))
	require.NoError(t, out.Flush())
	require.Equal(t, "  N  NAME  NOTE\n  1  a     a note of any length\n", b.String())
	b.Reset()
	require.NoError(t, table.Row(12345, "b", "c"))
	require.NoError(t, table.Row(6, "d", "e"))
	require.NoError(t, out.Flush())
	require.Equal(t, "12345  b     c\n    6  d     e\n", b.String())
}

func TestColourChangesNoWidth(t *testing.T) {
	var plain, coloured bytes.Buffer
	for b, color := range map[*bytes.Buffer]bool{&plain: false, &coloured: true} {
		out := newOutput(b)
		out.color = color
		table := out.Table(Left("A"), Right("B"))
		require.NoError(t, table.Row(Styled(Bad, "x"), Styled(Good, "yyyy")))
		require.NoError(t, table.Flush())
		require.NoError(t, out.Flush())
	}
	require.Contains(t, coloured.String(), "\x1b[31mx\x1b[0m")
	unpainted := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[1m", "", "\x1b[0m", "").Replace(coloured.String())
	require.Equal(t, plain.String(), unpainted)
}

func TestColourFollowsTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name     string
		flag     string
		terminal bool
		env      map[string]string
		want     bool
	}{
		{"a terminal", "auto", true, map[string]string{"TERM": "xterm"}, true},
		{"a pipe", "auto", false, map[string]string{"TERM": "xterm"}, false},
		{"NO_COLOR is set", "auto", true, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{"NO_COLOR is empty", "auto", true, map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		{"a dumb terminal", "auto", true, map[string]string{"TERM": "dumb"}, false},
		{"always", "always", false, map[string]string{"NO_COLOR": "1"}, true},
		{"never", "never", true, map[string]string{"TERM": "xterm"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app := newApp(Env{StdoutTerminal: tt.terminal, Getenv: func(name string) string { return tt.env[name] }})
			require.NoError(t, app.color.Set(tt.flag))
			require.Equal(t, tt.want, app.useColor())
		})
	}
}

func TestWriteErrorsAreReturnedEverAfter(t *testing.T) {
	out := newOutput(failingWriter{})
	_, err := out.Write([]byte("buffered"))
	require.NoError(t, err)
	require.Error(t, out.Flush())
	require.Error(t, out.Linef("x"))
	require.Error(t, out.Emit(out.Object("x")))
	require.Error(t, out.Table(Left("A")).Stream().Row("x"))
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk") }

// object parses what build makes of an object.
func object(t *testing.T, build func(*Object)) map[string]any {
	t.Helper()
	var b bytes.Buffer
	out := newOutput(&b)
	obj := out.Object("test")
	build(obj)
	require.NoError(t, out.Emit(obj))
	require.NoError(t, out.Flush())
	require.Equal(t, 1, strings.Count(b.String(), "\n"), "one line")
	d := json.NewDecoder(&b)
	d.UseNumber()
	fields := map[string]any{}
	require.NoError(t, d.Decode(&fields))
	return fields
}

func TestObjectsAreJSON(t *testing.T) {
	fields := object(t, func(o *Object) {
		o.Int("max", 1<<63-1).Int("min", -1<<63).Bool("yes", true).Null("none").String("text", "a\"b\\c\n\r\t\x00\x7fé☃😀")
		o.Array("list", func() {
			o.Element(func() { o.Int("a", 1).Int("b", 2) })
			o.Element(func() {})
		})
		o.Array("empty", func() {})
		o.String("after", "x")
	})
	require.Equal(t, map[string]any{
		"type": "test", "max": json.Number("9223372036854775807"), "min": json.Number("-9223372036854775808"),
		"yes": true, "none": nil, "text": "a\"b\\c\n\r\t\x00\x7fé☃😀",
		"list":  []any{map[string]any{"a": json.Number("1"), "b": json.Number("2")}, map[string]any{}},
		"empty": []any{}, "after": "x",
	}, fields)
}

func TestBytesInJSONKeepNullEmptyAndEveryByte(t *testing.T) {
	fields := object(t, func(o *Object) {
		o.Bytes("null", nil).Bytes("empty", []byte{}).Bytes("text", []byte("naïve")).Bytes("raw", []byte{0xff, 0})
	})
	require.Equal(t, map[string]any{"type": "test", "null": nil, "empty": "", "text": "naïve", "raw_base64": "/wA="}, fields)
}

func TestTimesInJSONAreRFC3339OrWhatIsLeft(t *testing.T) {
	fields := object(t, func(o *Object) {
		o.Time("none", record.NoTimestamp).Time("zero", 0).Time("late", 253402300800000).Time("before", -62135596800001)
		o.Time("last", 253402300799999).Time("negative", -2)
	})
	require.Equal(t, map[string]any{
		"type": "test", "none": nil, "zero": "1970-01-01T00:00:00.000Z", "late": json.Number("253402300800000"),
		"before": json.Number("-62135596800001"), "last": "9999-12-31T23:59:59.999Z", "negative": "1969-12-31T23:59:59.998Z",
	}, fields)
}

func TestRecordsInJSONHaveAllHeadersInOrder(t *testing.T) {
	fields := object(t, func(o *Object) {
		o.Record(&record.Record{Offset: 1<<53 + 1, Timestamp: 5, Key: []byte{}, Headers: []record.Header{
			{Key: "a,b:c\nd", Value: []byte{0xff}}, {Key: "", Value: nil}, {Key: "a,b:c\nd", Value: []byte{}}, {Key: "\xfe", Value: []byte("x")},
		}})
	})
	require.Equal(t, map[string]any{
		"type": "test", "offset": json.Number("9007199254740993"), "time": "1970-01-01T00:00:00.005Z", "key": "", "value": nil,
		"headers": []any{
			map[string]any{"key": "a,b:c\nd", "value_base64": "/w=="},
			map[string]any{"key": "", "value": nil},
			map[string]any{"key": "a,b:c\nd", "value": ""},
			map[string]any{"key_base64": "/g==", "value": "x"},
		},
	}, fields)
}

func TestObjectsDoNotAllocate(t *testing.T) {
	out := newOutput(discard{})
	r := &record.Record{Offset: 1, Key: []byte("key"), Value: []byte("naïve value \xff"), Headers: []record.Header{{Key: "trace", Value: []byte("1")}}}
	emit := func() { _ = out.Emit(out.Object("record").Record(r)) }
	emit()
	require.Zero(t, testing.AllocsPerRun(100, emit))
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// Properties: what is written is a JSON string that reads as the text it was made
// of, if that is UTF-8, and has no control characters in it.
func FuzzJSONString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x1f\x7f", "é☃😀", "\xff\xed\xa0\x80", "\u2028", strings.Repeat("x", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendJSONString(nil, s)
		var back string
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, string([]rune(s)), back, "%q", b)
		require.False(t, bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f }))
	})
}
