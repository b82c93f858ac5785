package segment_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/internal/vfs/faultfs"
	"github.com/seglog/seglog/record"
	"github.com/seglog/seglog/segment"
)

// mixed is a recovered segment of batches of many sizes, up to one that a walk does not
// keep in memory, and where each begins, and the last one ends.
func mixed(t *testing.T, fsys vfs.FS) (s *segment.Segment, positions []int64) {
	t.Helper()
	s = create(t, 0, segment.Options{FS: fsys})
	for o, n := range slices.Concat(slices.Repeat([]int{10}, 3000), []int{300_000, 20, 5 << 20, 30, 40}, slices.Repeat([]int{90_000}, 9)) {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: int64(o)})
		require.NoError(t, b.Append(record.Record{Timestamp: 1, Value: []byte(strings.Repeat("x", n))}))
		bytes, err := b.Build()
		require.NoError(t, err)
		pos, err := s.Size()
		require.NoError(t, err)
		positions = append(positions, pos)
		require.NoError(t, s.Append(segment.Set{Bytes: bytes, LastOffset: int64(o), MaxTimestamp: 1, OffsetOfMaxTimestamp: int64(o)}))
	}
	_, err := s.Recover(segment.RecoverOptions{})
	require.NoError(t, err)
	end, err := s.Size()
	require.NoError(t, err)
	return s, append(positions, end)
}

// Each byte is written once, as it was, and none before or behind.
func TestRewriteWritesWhatIsThereOverItself(t *testing.T) {
	for name, from := range map[string]int{"all": 0, "from within": 1234, "the last batch": 3013, "nothing": 3014} {
		t.Run(name, func(t *testing.T) {
			var s *segment.Segment
			var at []int64
			var before []byte
			calls := faultfs.Record(vfs.OS, func(fsys *faultfs.FS) {
				s, at = mixed(t, fsys)
				var err error
				before, err = os.ReadFile(s.LogPath())
				require.NoError(t, err)
				fsys.Fail(faultfs.Op(faultfs.Truncate), os.ErrInvalid)
				require.NoError(t, s.Rewrite(at[from], at[len(at)-1]))
				fsys.Clear()
			})
			opened := 0 // of the last opening
			for i, c := range calls {
				if c.Kind == faultfs.Open && c.Name == s.LogPath() {
					opened = i
				}
			}
			pos := at[from]
			for _, c := range calls[opened:] {
				if c.Kind == faultfs.Write {
					require.Equal(t, pos, c.Off)
					pos += c.Size
				}
			}
			if from < 3014 {
				require.Equal(t, at[len(at)-1], pos)
			}
			after, err := os.ReadFile(s.LogPath())
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}

// A kernel may drop what it could not write, and then shows what the disk has. That is not
// made durable.
func TestRewriteWritesNothingThatWasNotChecked(t *testing.T) {
	for _, victim := range []int{0, 2999, 3000, 3002, 3013} { // of all sizes
		fsys := faultfs.New(vfs.OS)
		s, at := mixed(t, fsys)
		f, err := os.OpenFile(s.LogPath(), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{0}, at[victim+1]-3)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		fsys.Do(faultfs.Op(faultfs.Write), func(c faultfs.Call) error {
			require.LessOrEqual(t, c.Off+c.Size, at[victim])
			return nil
		})
		var damage *segment.CorruptionError
		require.ErrorAs(t, s.Rewrite(0, at[len(at)-1]), &damage)
		require.Equal(t, at[victim], damage.Position)
	}
}

// What is appended meanwhile lies behind it.
func TestAppendsGoOnBesideARewrite(t *testing.T) {
	fsys := faultfs.New(vfs.OS)
	s := create(t, 0, segment.Options{FS: fsys, AheadBytes: 4096})
	put(t, s, 1, span(0, 99)...)
	_, err := s.Recover(segment.RecoverOptions{})
	require.NoError(t, err)
	end, err := s.Size()
	require.NoError(t, err)
	begun, proceed := make(chan struct{}), make(chan struct{})
	fsys.Do(faultfs.Op(faultfs.Write).Name("*.log").Nth(1), func(faultfs.Call) error {
		close(begun)
		<-proceed
		return nil
	})
	done := make(chan error)
	go func() { done <- s.Rewrite(0, end) }()
	<-begun
	put(t, s, 1, span(100, 199)...)
	close(proceed)
	put(t, s, 1, span(200, 299)...)
	require.NoError(t, <-done)
	require.Equal(t, span(0, 299), found(t, s, 0))
	require.NoError(t, s.Retire())
	require.ErrorIs(t, s.Rewrite(0, end), segment.ErrRetired)
}
