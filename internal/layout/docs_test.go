package layout_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/index"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/leaderepoch"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/internal/txnindex"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/timeindex"
)

// The pages in docs/format say that their bytes are real. They are read here with
// the packages they describe. This package is the one that knows every kind of
// file, so the test is here.

func page(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join("../../docs/format", name))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// blocks returns the fenced blocks of a page, each with the heading above it.
func blocks(t *testing.T, name string) (headings, texts []string) {
	heading := ""
	inside := false
	for _, line := range strings.Split(page(t, name), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			if inside = !inside; inside {
				headings, texts = append(headings, heading), append(texts, "")
			}
		case inside:
			texts[len(texts)-1] += line + "\n"
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimLeft(line, "# ")
		}
	}
	require.False(t, inside, name)
	return headings, texts
}

var annotatedLine = regexp.MustCompile(`^(\d+)-(\d+): ([0-9a-f ]+?) +# +(.*)$`)

type field struct {
	bytes   []byte
	meaning string
}

// annotated returns the fields of the blocks of annotated bytes of a page.
func annotated(t *testing.T, name string) (fields [][]field, texts []string) {
	_, all := blocks(t, name)
	for _, text := range all {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if !annotatedLine.MatchString(lines[0]) {
			continue
		}
		var block []field
		at := 0
		for _, line := range lines {
			parts := annotatedLine.FindStringSubmatch(line)
			require.NotNil(t, parts, "%s: %q", name, line)
			b, err := hex.DecodeString(strings.ReplaceAll(parts[3], " ", ""))
			require.NoError(t, err, "%s: %q", name, line)
			require.Equal(t, at, atoi(t, parts[1]), "%s: %q", name, line)
			at += len(b)
			require.Equal(t, at, atoi(t, parts[2]), "%s: %q", name, line)
			block = append(block, field{b, parts[4]})
		}
		fields, texts = append(fields, block), append(texts, text)
	}
	return fields, texts
}

func atoi(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

func join(fields []field) []byte {
	var b []byte
	for _, f := range fields {
		b = append(b, f.bytes...)
	}
	return b
}

// requireNumbers checks that the meaning of each field ends in its number.
func requireNumbers(t *testing.T, fields []field) {
	for _, f := range fields {
		if strings.HasPrefix(f.meaning, "crc") {
			continue
		}
		n := int64(int8(f.bytes[0]))
		for _, b := range f.bytes[1:] {
			n = n<<8 | int64(b)
		}
		require.True(t, strings.HasSuffix(f.meaning, " "+strconv.FormatInt(n, 10)), "%d is not %q", n, f.meaning)
	}
}

func TestFormatPagesShowRealBatches(t *testing.T) {
	for name, count := range map[string]int{"record-batch.md": 7, "legacy-message-sets.md": 2} {
		fields, texts := annotated(t, name)
		require.Len(t, texts, count, name)
		for i, text := range texts {
			b, err := record.Parse(join(fields[i]))
			require.NoError(t, err, text)
			require.NoError(t, b.Verify(nil), text)
			require.Equal(t, text, string(record.AppendAnnotated(nil, b)))
		}
	}
}

func TestFormatPagesShowRealIndexes(t *testing.T) {
	fields, _ := annotated(t, "offset-index.md")
	require.Len(t, fields, 1)
	requireNumbers(t, fields[0])
	path := filepath.Join(t.TempDir(), layout.OffsetIndexName(41000))
	require.NoError(t, os.WriteFile(path, join(fields[0]), 0o644))
	x, err := index.OpenReadOnly(path, 41000, index.Options{})
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, x.Check())
	require.Equal(t, index.Entry{Offset: 41009, Position: 4221}, x.Lookup(41010))
	require.Equal(t, index.Entry{Offset: 141000, Position: 1048577}, x.Lookup(141000))
	require.Equal(t, 3, x.Len())

	fields, _ = annotated(t, "time-index.md")
	require.Len(t, fields, 1)
	requireNumbers(t, fields[0])
	path = filepath.Join(t.TempDir(), layout.TimeIndexName(41000))
	require.NoError(t, os.WriteFile(path, join(fields[0]), 0o644))
	y, err := timeindex.OpenReadOnly(path, 41000, timeindex.Options{})
	require.NoError(t, err)
	defer y.Close()
	require.NoError(t, y.Check())
	require.Equal(t, timeindex.Entry{Timestamp: 1767225600000, Offset: 141000}, y.Lookup(1767225600001))
	require.Equal(t, 3, y.Len())

	fields, _ = annotated(t, "txn-index.md")
	require.Len(t, fields, 1)
	requireNumbers(t, fields[0])
	e, err := txnindex.ParseEntry(join(fields[0]))
	require.NoError(t, err)
	require.Equal(t, join(fields[0]), txnindex.AppendEntry(nil, e))
}

func TestFormatPagesShowARealSnapshot(t *testing.T) {
	fields, _ := annotated(t, "producer-snapshot.md")
	require.Len(t, fields, 1)
	requireNumbers(t, fields[0])
	entries, err := producerstate.Parse(join(fields[0]))
	require.NoError(t, err)
	require.Equal(t, join(fields[0]), producerstate.Append(nil, entries))
}

func TestFormatPagesShowRealCheckpoints(t *testing.T) {
	headings, texts := blocks(t, "checkpoints.md")
	read := map[string]func(text string) (again []byte, err error){
		"`leader-epoch-checkpoint`": func(text string) ([]byte, error) {
			entries, err := leaderepoch.Parse([]byte(text))
			return leaderepoch.Append(nil, entries), err
		},
		"`*-offset-checkpoint`": func(text string) ([]byte, error) {
			entries, problems, err := checkpoint.ParseOffsets([]byte(text))
			require.Empty(t, problems)
			return checkpoint.AppendOffsets(nil, entries), err
		},
		"`partition.metadata`": func(text string) ([]byte, error) {
			m, err := checkpoint.ParsePartitionMetadata([]byte(text))
			return append(checkpoint.AppendPartitionMetadata(nil, m), '\n'), err // the fence needs the newline
		},
		"`meta.properties`": func(text string) ([]byte, error) {
			m, err := checkpoint.ParseMetaProperties([]byte(text))
			require.Equal(t, int32(1), m.NodeID)
			return []byte(text), err
		},
		"`seglog.state`": func(text string) ([]byte, error) {
			s, err := checkpoint.ParseState([]byte(text))
			return checkpoint.AppendState(nil, s), err
		},
	}
	for i, heading := range headings {
		parse := read[heading]
		if parse == nil {
			continue
		}
		delete(read, heading)
		again, err := parse(texts[i])
		require.NoError(t, err, heading)
		require.Equal(t, texts[i], string(again), heading)
	}
	require.Empty(t, read)
}

func TestFormatPagesNameEveryFile(t *testing.T) {
	_, trees := blocks(t, "directory-layout.md")
	named := map[layout.Kind]bool{}
	for _, line := range strings.Split(trees[0], "\n") {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasSuffix(name, "/") {
			continue
		}
		f, ok := layout.ParseFile(name)
		require.True(t, ok, name)
		named[f.Kind] = true
	}
	for kind := layout.Log; kind <= layout.SeglogState; kind++ {
		require.True(t, named[kind], "%s is in no directory", kind)
	}
}

func TestFormatPagesAreListed(t *testing.T) {
	pages, err := filepath.Glob("../../docs/format/*.md")
	require.NoError(t, err)
	list := page(t, "README.md")
	for _, path := range pages {
		if name := filepath.Base(path); name != "README.md" {
			require.Contains(t, list, "]("+name+")")
		}
	}
}
