package index_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seglog/seglog/index"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	modelBase    = 1000
	modelEntries = 40
)

// model is an index and the slice it must behave like.
type model struct {
	x       *index.Index
	path    string
	entries []index.Entry
	trimmed bool
}

var modelOptions = index.Options{MaxBytes: modelEntries*8 + 5}

func (m *model) capacity() int {
	if m.trimmed {
		return len(m.entries)
	}
	return modelEntries
}

func (m *model) last() index.Entry {
	if len(m.entries) == 0 {
		return index.Entry{Offset: modelBase}
	}
	return m.entries[len(m.entries)-1]
}

func (m *model) append(t *rapid.T) {
	last := m.last()
	e := index.Entry{
		Offset:   last.Offset + rapid.Int64Range(-2, 50).Draw(t, "offset step"),
		Position: last.Position + rapid.Int64Range(-1, 5000).Draw(t, "position step"),
	}
	err := m.x.Append(e.Offset, e.Position)
	switch some := len(m.entries) > 0; {
	case e.Offset < modelBase || e.Position < 0:
		require.ErrorIs(t, err, index.ErrOverflow)
	case some && (e.Offset <= last.Offset || e.Position < last.Position):
		require.ErrorIs(t, err, index.ErrOrder)
	case len(m.entries) >= m.capacity():
		require.ErrorIs(t, err, index.ErrFull)
	default:
		require.NoError(t, err)
		m.entries = append(m.entries, e)
	}
}

func (m *model) lookup(t *rapid.T) {
	offset := rapid.Int64Range(modelBase-5, m.last().Offset+5).Draw(t, "offset")
	want := index.Entry{Offset: modelBase}
	for _, e := range m.entries {
		if e.Offset <= offset {
			want = e
		}
	}
	require.Equal(t, want, m.x.Lookup(offset))
}

func (m *model) upperBound(t *rapid.T) {
	position := rapid.Int64Range(0, m.last().Position+5).Draw(t, "position")
	if len(m.entries) > 0 && position == m.entries[0].Position {
		return // the quirk has its own test
	}
	got, ok := m.x.UpperBound(position)
	for _, e := range m.entries {
		if e.Position >= position {
			require.True(t, ok)
			require.Equal(t, e.Position, got.Position)
			return
		}
	}
	require.False(t, ok)
}

func (m *model) truncate(t *rapid.T) {
	offset := rapid.Int64Range(modelBase-2, m.last().Offset+2).Draw(t, "offset")
	require.NoError(t, m.x.TruncateTo(offset))
	keep := 0
	for keep < len(m.entries) && m.entries[keep].Offset < offset {
		keep++
	}
	if m.trimmed && keep < len(m.entries) {
		// What was cut leaves slots behind that may be used again.
		require.NoError(t, m.x.Grow())
		m.trimmed = false
	}
	m.entries = m.entries[:keep]
}

func (m *model) trim(t *rapid.T) {
	require.NoError(t, m.x.Trim())
	m.trimmed = true
}

func (m *model) grow(t *rapid.T) {
	require.NoError(t, m.x.Grow())
	m.trimmed = false
}

func (m *model) reset(t *rapid.T) {
	require.NoError(t, m.x.Reset())
	m.entries, m.trimmed = nil, false
}

func (m *model) reopen(t *rapid.T) {
	require.NoError(t, m.x.Close())
	require.EqualValues(t, len(m.entries)*8, m.fileLength(t))
	m.open(t)
	require.Zero(t, m.x.Padding())
}

// crash reopens the file with whatever zeros are behind its entries.
func (m *model) crash(t *rapid.T) {
	require.NoError(t, m.x.Drop())
	zeros := rapid.IntRange(0, 3).Draw(t, "zero slots")
	length := m.fileLength(t) + int64(zeros)*8
	require.NoError(t, os.Truncate(m.path, length))
	// An all-zero entry is one only if it is all there is.
	first := index.Entry{Offset: modelBase}
	switch {
	case len(m.entries) == 1 && m.entries[0] == first && length > 8:
		m.entries = nil
	case len(m.entries) == 0 && length == 8:
		m.entries = []index.Entry{first}
	}
	m.readOnly(t)
	m.open(t)
}

func (m *model) open(t *rapid.T) {
	x, err := index.Open(m.path, modelBase, modelOptions)
	require.NoError(t, err)
	m.x, m.trimmed = x, false
}

func (m *model) readOnly(t *rapid.T) {
	x, err := index.OpenReadOnly(m.path, modelBase, modelOptions)
	require.NoError(t, err)
	require.True(t, slices.Equal(m.entries, entriesOf(x)))
	require.NoError(t, x.Check())
	require.NoError(t, x.Close())
}

func (m *model) fileLength(t *rapid.T) int64 {
	info, err := os.Stat(m.path)
	require.NoError(t, err)
	return info.Size()
}

func (m *model) check(t *rapid.T) {
	require.True(t, slices.Equal(m.entries, entriesOf(m.x)), "%v, want %v", entriesOf(m.x), m.entries)
	require.Equal(t, len(m.entries), m.x.Len())
	require.Equal(t, m.capacity(), m.x.Cap())
	require.Equal(t, len(m.entries) >= m.capacity(), m.x.Full())
	require.Equal(t, m.last().Offset, m.x.LastOffset())
	last, ok := m.x.Last()
	require.Equal(t, m.last(), last)
	require.Equal(t, len(m.entries) > 0, ok)
	require.NoError(t, m.x.Check())
}

func TestIndexBehavesLikeASortedSlice(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{path: filepath.Join(dir, "00000000000000001000.index")}
		x, err := index.Create(m.path, modelBase, modelOptions)
		require.NoError(t, err)
		m.x = x
		defer func() { _ = m.x.Drop() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":      m.append,
			"append more": m.append,
			"lookup":      m.lookup,
			"upper bound": m.upperBound,
			"truncate":    m.truncate,
			"trim":        m.trim,
			"grow":        m.grow,
			"reset":       m.reset,
			"reopen":      m.reopen,
			"crash":       m.crash,
			"":            m.check,
		})
	})
}
