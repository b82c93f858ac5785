package timeindex_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seglog/seglog/timeindex"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	modelBase    = 1000
	modelEntries = 40
)

// model is a time index and the slice it must behave like.
type model struct {
	x       *timeindex.Index
	path    string
	entries []timeindex.Entry
	trimmed bool
}

var modelOptions = timeindex.Options{MaxBytes: modelEntries*12 + 5}

func (m *model) capacity() int {
	if m.trimmed {
		return len(m.entries)
	}
	return modelEntries
}

func (m *model) last() timeindex.Entry {
	if len(m.entries) == 0 {
		return timeindex.Entry{Timestamp: -1, Offset: modelBase}
	}
	return m.entries[len(m.entries)-1]
}

func (m *model) append(t *rapid.T) {
	last := m.last()
	e := timeindex.Entry{
		Timestamp: last.Timestamp + rapid.Int64Range(-1, 100).Draw(t, "timestamp step"),
		Offset:    last.Offset + rapid.Int64Range(-2, 50).Draw(t, "offset step"),
	}
	closing := rapid.Bool().Draw(t, "closing")
	err := m.x.MaybeAppend(e.Timestamp, e.Offset, closing)
	switch some := len(m.entries) > 0; {
	case !closing && len(m.entries) >= m.capacity()-1:
		require.ErrorIs(t, err, timeindex.ErrFull)
	case some && (e.Offset < last.Offset || e.Timestamp < last.Timestamp):
		require.ErrorIs(t, err, timeindex.ErrOrder)
	case e.Timestamp <= last.Timestamp:
		require.NoError(t, err, "ignored")
	case e.Offset < modelBase:
		require.ErrorIs(t, err, timeindex.ErrOverflow)
	case len(m.entries) >= m.capacity():
		require.ErrorIs(t, err, timeindex.ErrFull)
	default:
		require.NoError(t, err)
		m.entries = append(m.entries, e)
	}
}

func (m *model) lookup(t *rapid.T) {
	timestamp := rapid.Int64Range(-2, m.last().Timestamp+5).Draw(t, "timestamp")
	offset := rapid.Int64Range(modelBase-5, m.last().Offset+5).Draw(t, "offset")
	none := timeindex.Entry{Timestamp: -1, Offset: modelBase}
	byTimestamp, byOffset := none, none
	for _, e := range m.entries {
		if e.Timestamp <= timestamp {
			byTimestamp = e
		}
		if e.Offset <= offset {
			byOffset = e
		}
	}
	require.Equal(t, byTimestamp, m.x.Lookup(timestamp))
	require.Equal(t, byOffset, m.x.LookupOffset(offset))
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
	require.EqualValues(t, len(m.entries)*12, m.fileLength(t))
	m.open(t)
	require.Zero(t, m.x.Padding())
}

// crash reopens the file with whatever zeros are behind its entries.
func (m *model) crash(t *rapid.T) {
	require.NoError(t, m.x.Drop())
	zeros := rapid.IntRange(0, 3).Draw(t, "zero slots")
	length := m.fileLength(t) + int64(zeros)*12
	require.NoError(t, os.Truncate(m.path, length))
	// An all-zero entry is one only if it is all there is.
	first := timeindex.Entry{Offset: modelBase}
	switch {
	case len(m.entries) == 1 && m.entries[0] == first && length > 12:
		m.entries = nil
	case len(m.entries) == 0 && length == 12:
		m.entries = []timeindex.Entry{first}
	}
	m.readOnly(t)
	m.open(t)
}

func (m *model) open(t *rapid.T) {
	x, err := timeindex.Open(m.path, modelBase, modelOptions)
	require.NoError(t, err)
	m.x, m.trimmed = x, false
}

func (m *model) readOnly(t *rapid.T) {
	x, err := timeindex.OpenReadOnly(m.path, modelBase, modelOptions)
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
	require.Equal(t, len(m.entries) >= m.capacity()-1, m.x.Full())
	last, ok := m.x.Last()
	require.Equal(t, m.last(), last)
	require.Equal(t, len(m.entries) > 0, ok)
	require.NoError(t, m.x.Check())
}

func TestTimeIndexBehavesLikeASortedSlice(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{path: filepath.Join(dir, "00000000000000001000.timeindex")}
		x, err := timeindex.Create(m.path, modelBase, modelOptions)
		require.NoError(t, err)
		m.x = x
		defer func() { _ = m.x.Drop() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":      m.append,
			"append more": m.append,
			"lookup":      m.lookup,
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
