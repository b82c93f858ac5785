package segment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/record"
)

// ofEachKind is a log with what is checked in place among what is not: batches of producers,
// small ones and some that are larger than a piece.
func ofEachKind(t testing.TB, base int64, n int) []byte {
	var log []byte
	for i := range n {
		o := record.BuilderOptions{BaseOffset: base + 2*int64(i)}
		if i%7 == 3 {
			o.Producer = &record.Producer{ID: 5, BaseSequence: int32(2 * i)}
		}
		b := record.NewBuilder(o)
		for range 2 {
			value := make([]byte, 1+(i*i*37)%(6<<10))
			copy(value, fmt.Sprint("value of batch ", i))
			require.NoError(t, b.Append(record.Record{Timestamp: int64(1000 + i), Value: value}))
		}
		built, err := b.Build()
		require.NoError(t, err)
		log = append(log, built...)
	}
	return log
}

// recovery is all that Recover leaves.
type recovery struct {
	found   Recovery
	visited []record.Summary
	next    int64
	files   map[string]string
}

func recoverLog(t require.TestingT, dir string, log []byte, places *Places) recovery {
	const base = 100
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, layout.LogName(base)), log, 0o644))
	s := Open(dir, base, Options{FS: vfs.OS, IndexIntervalBytes: 4096, Places: places})
	var r recovery
	var err error
	r.found, err = s.Recover(RecoverOptions{Visit: func(h record.Summary, load func() (record.Batch, error)) error {
		r.visited = append(r.visited, h)
		b, err := load()
		require.NoError(t, err)
		require.Equal(t, h, b.Summary())
		return nil
	}})
	require.NoError(t, err)
	r.next = s.NextOffset()
	require.NoError(t, s.Seal())
	require.NoError(t, s.Trim())
	require.NoError(t, s.Retire())
	if r.found.Reason != nil {
		r.found.Reason = errors.New(r.found.Reason.Error())
	}
	r.files = map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		r.files[e.Name()] = string(data)
	}
	return r
}

// Whatever is wrong with a log, in place the same is found, and made of it, as by calls.
func TestRecoveryInPlaceIsTheSame(t *testing.T) {
	sound := ofEachKind(t, 100, 600)
	require.Greater(t, len(sound), 2*lookChunk)
	dirs := [2]string{filepath.Join(t.TempDir(), "in place"), filepath.Join(t.TempDir(), "calls")}
	require.Equal(t, recoverLog(t, dirs[1], sound, nil), recoverLog(t, dirs[0], sound, newPlaces(1<<20)))
	rapid.Check(t, func(rt *rapid.T) {
		log := slices.Clone(sound)
		at := rapid.IntRange(0, len(log)-1).Draw(rt, "at")
		switch rapid.SampledFrom([]string{"flip", "cut", "zeros", "noise", "gone"}).Draw(rt, "what") {
		case "flip":
			log[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		case "cut":
			log = log[:at]
		case "zeros":
			clear(log[at:])
		case "noise":
			copy(log[at:], rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(rt, "noise"))
		case "gone":
			log = slices.Delete(log, at, min(len(log), at+rapid.IntRange(1, 5000).Draw(rt, "bytes")))
		}
		require.Equal(rt, recoverLog(rt, dirs[1], log, nil), recoverLog(rt, dirs[0], log, newPlaces(1<<20)))
	})
}

func TestWhatIsCheckedInPlace(t *testing.T) {
	log := ofEachKind(t, 100, 600)
	s := holding(t, log, 100, newPlaces(1<<20))
	require.Nil(t, holding(t, log, 100, nil).inPlaceWalk(), "without places nothing is mapped")
	if !vfs.KnowsResident {
		require.Nil(t, s.inPlaceWalk())
		return
	}
	m := s.inPlaceWalk()
	var w Walker
	w.Reset(s.open.log, 100, 0, int64(len(log)))
	for w.Next() {
		part := w.Part()
		got, ok := m.next(part.Position, int64(len(log)))
		require.Equal(t, part.Summary.ProducerID < 0, ok)
		if ok {
			require.Equal(t, part, got)
		}
	}
	require.NoError(t, w.Err())
	_, ok := m.next(1, int64(len(log)))
	require.False(t, ok, "not a batch")
}

// The file is cut while it is read. What was seen before is not seen again.
func TestALogThatIsCutWhileItIsRecovered(t *testing.T) {
	if !vfs.KnowsResident {
		return
	}
	dir := t.TempDir()
	log := ofEachKind(t, 100, 600)
	path := filepath.Join(dir, layout.LogName(100))
	require.NoError(t, os.WriteFile(path, log, 0o644))
	s := Open(dir, 100, Options{FS: vfs.OS, IndexIntervalBytes: 4096, Places: newPlaces(1 << 20)})
	next := int64(100)
	_, err := s.Recover(RecoverOptions{Visit: func(h record.Summary, _ func() (record.Batch, error)) error {
		require.Equal(t, next, h.BaseOffset)
		next = h.LastOffset + 1
		if next == 300 {
			return os.Truncate(path, 1<<20)
		}
		return nil
	}})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "file ends at position 1048576")
	require.Greater(t, next, int64(300))
	require.NoError(t, s.Retire())
}
