package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog/bench/peers/work"
)

// The writer that is killed is this binary again.
func TestMain(m *testing.M) {
	if os.Getenv(work.ChildEnv) != "" {
		if err := work.Child(os.Args[1:], All(), os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const few = 4000 // records

func forEach(t *testing.T, f func(t *testing.T, spec work.Spec)) {
	for _, spec := range All() {
		if spec.Run != nil { // it is tested where its driver is
			continue
		}
		t.Run(spec.Name, func(t *testing.T) { f(t, spec) })
	}
}

// filled is an open log of few records.
func filled(t *testing.T, spec work.Spec, o work.Options, batch int) (work.Log, string) {
	dir := t.TempDir()
	l, err := spec.Open(dir, o)
	require.NoError(t, err)
	source := work.NewSource(128)
	for n := int64(0); n < few; n += int64(batch) {
		base, err := l.Append(source.Batch(n, batch))
		require.NoError(t, err)
		require.Equal(t, n, base)
	}
	return l, dir
}

func requireAll(t *testing.T, l work.Log, from int64) {
	first, next, err := l.Bounds()
	require.NoError(t, err)
	require.Equal(t, []int64{from, few}, []int64{first, next})
	source := work.NewSource(128)
	if s, ok := l.(work.Scanner); ok {
		offset := from
		require.NoError(t, s.Scan(from, func(r *work.Record) error {
			offset++
			return source.CheckAll(r, offset-1)
		}))
		require.EqualValues(t, few, offset)
	}
	if g, ok := l.(work.Getter); ok {
		reader := g.Reader()
		var r work.Record
		for offset := from; offset < few; offset += 7 {
			require.NoError(t, reader.Get(offset, &r))
			require.NoError(t, source.CheckAll(&r, offset))
		}
	}
}

func TestWhatIsAppendedIsReadAgain(t *testing.T) {
	for _, batch := range []int{1, 100} {
		forEach(t, func(t *testing.T, spec work.Spec) {
			l, dir := filled(t, spec, work.Options{Writers: 1, SegmentBytes: 64 << 10}, batch)
			requireAll(t, l, 0)
			require.NoError(t, l.Close())
			l, err := spec.Open(dir, work.Options{Writers: 1, SegmentBytes: 64 << 10})
			require.NoError(t, err)
			requireAll(t, l, 0)
			require.NoError(t, l.Close())
		})
	}
}

func TestSyncedAppendsAreReadAgain(t *testing.T) {
	forEach(t, func(t *testing.T, spec work.Spec) {
		l, dir := filled(t, spec, work.Options{Writers: 1, Sync: true}, 1000)
		require.NoError(t, l.Close())
		l, err := spec.Open(dir, work.Options{Writers: 1, Sync: true})
		require.NoError(t, err)
		requireAll(t, l, 0)
		require.NoError(t, l.Close())
	})
}

func TestTheFirstRecordOfATimeIsFound(t *testing.T) {
	forEach(t, func(t *testing.T, spec work.Spec) {
		l, _ := filled(t, spec, work.Options{Writers: 1}, 100)
		defer l.Close()
		f, ok := l.(work.TimeFinder)
		if !ok {
			t.Logf("%s does not find times", spec.Name)
			return
		}
		for n := int64(0); n < few; n += 331 {
			offset, at, err := f.FirstAt(work.TimeOf(n))
			require.NoError(t, err)
			require.Equal(t, []int64{n / 10 * 10, work.TimeOf(n)}, []int64{offset, at})
		}
	})
}

func TestWhatIsDroppedIsGoneAndTheRestIsThere(t *testing.T) {
	forEach(t, func(t *testing.T, spec work.Spec) {
		l, dir := filled(t, spec, work.Options{Writers: 1, SegmentBytes: 64 << 10}, 100)
		d, ok := l.(work.Dropper)
		if !ok {
			require.NoError(t, l.Close())
			t.Logf("%s drops nothing", spec.Name)
			return
		}
		require.NoError(t, d.DropBefore(few/2))
		requireAll(t, l, few/2)
		require.NoError(t, l.Close())
		l, err := spec.Open(dir, work.Options{Writers: 1, SegmentBytes: 64 << 10})
		require.NoError(t, err)
		requireAll(t, l, few/2)
		require.NoError(t, l.Close())
	})
}

func TestAFollowerGetsWhatIsAppendedLater(t *testing.T) {
	forEach(t, func(t *testing.T, spec work.Spec) {
		l, err := spec.Open(t.TempDir(), work.Options{Writers: 1})
		require.NoError(t, err)
		defer l.Close()
		f, ok := l.(work.Follower)
		if !ok {
			t.Logf("%s is not followed", spec.Name)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := make(chan error, few)
		ended := make(chan error, 1)
		check := work.NewSource(128)
		offset := int64(0)
		go func() {
			ended <- f.Follow(ctx, 0, func(r *work.Record) error {
				got <- check.CheckAll(r, offset)
				offset++
				return nil
			})
		}()
		source := work.NewSource(128)
		for n := range int64(50) {
			_, err := l.Append(source.Batch(n, 1))
			require.NoError(t, err)
			require.NoError(t, <-got)
		}
		cancel()
		require.NoError(t, <-ended)
	})
}

// Every workload is done once, very small: it has its own checks. A store that cannot
// do it says why.
func TestEveryWorkloadIsDoneOrSaysWhyNot(t *testing.T) {
	forEach(t, func(t *testing.T, spec work.Spec) {
		root := t.TempDir()
		for _, w := range work.Works() {
			if w.Growth {
				continue
			}
			dir := filepath.Join(root, w.Log)
			if w.Log == "" {
				dir = filepath.Join(root, "own-"+w.ID)
			}
			job := work.Job{Store: spec.Name, Work: w.ID, Dir: dir, Seed: 1, BoxNs: 5e6, MaxBytes: 4 << 20, Params: w.Params.Scaled(0.002)}
			res := work.Run(job, All())
			require.Empty(t, res.Error, w.ID)
			if res.Skipped != "" {
				t.Logf("%s: %s", w.ID, res.Skipped)
				continue
			}
			require.NotEmpty(t, res.Figures, w.ID)
			_, err := json.Marshal(res) // no NaN
			require.NoError(t, err, w.ID)
		}
	})
}

// A store that gives wrong answers must not get a figure.
func TestAWrongAnswerIsAnErrorAndNoFigure(t *testing.T) {
	dir := t.TempDir()
	wrong := seglogSpec
	wrong.Name = "wrong"
	wrong.Open = func(dir string, o work.Options) (work.Log, error) {
		l, err := seglogSpec.Open(dir, o)
		if err != nil {
			return nil, err
		}
		return liar{l.(*seglogLog)}, nil
	}
	p := work.Params{Batch: 100, Value: 128, Records: few, Goroutines: 1}
	for _, id := range []string{"fill-100", "get-100-1", "time-100", "scan-100", "drop"} {
		spec := seglogSpec
		if id != "fill-100" {
			spec = wrong
		}
		res := work.Run(work.Job{Store: spec.Name, Work: id, Dir: dir, BoxNs: 1e6, Params: p}, []work.Spec{spec})
		require.Equal(t, id != "fill-100", res.Error != "", "%s: %+v", id, res)
	}
}

type liar struct{ *seglogLog }

func (l liar) Reader() work.Reader { return lyingReader{l.seglogLog.Reader()} }

func (l liar) Scan(from int64, f func(*work.Record) error) error {
	return l.seglogLog.Scan(from, func(r *work.Record) error {
		if r.Offset == few-1 {
			return nil
		}
		return f(r)
	})
}

func (l liar) FirstAt(time int64) (int64, int64, error) {
	offset, at, err := l.seglogLog.FirstAt(time)
	return offset + 1, at, err
}

func (l liar) DropBefore(int64) error { return nil }

type lyingReader struct{ work.Reader }

func (l lyingReader) Get(offset int64, r *work.Record) error {
	if offset == 0 {
		return errors.New("not for the liar")
	}
	return l.Reader.Get(offset-1, r)
}
