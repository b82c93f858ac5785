package seglog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

// flippable is a log in which every byte will be flipped: a sealed segment of three
// batches, an active one of two, and an index entry for each batch but the first.
type flippable struct {
	disk *logtest.Disk
	opts seglog.Options
	end  int64

	killed bool
}

func flippableRecord(offset int64) seglog.Record {
	return seglog.Record{Offset: offset, Timestamp: 1000 + 10*offset, Key: fmt.Append(nil, "k", offset), Value: fmt.Append(nil, "value ", offset)}
}

// newFlippable writes the log and closes it, or leaves it as a killed process does.
func newFlippable(t *testing.T, killed bool) flippable {
	f := flippable{disk: logtest.NewDisk(logtest.DiskOptions{}),
		opts: seglog.Options{SegmentIndexBytes: 64, IndexIntervalBytes: 1, LeaderEpoch: 5}}
	l := f.open(t, f.disk, false)
	for _, n := range []int{2, 1, 2, 0, 1, 2} {
		if n == 0 {
			_, err := l.Roll()
			require.NoError(t, err)
			continue
		}
		var records []seglog.Record
		for ; n > 0; n-- {
			records = append(records, flippableRecord(f.end))
			f.end++
		}
		_, err := l.Append(records, nil)
		require.NoError(t, err)
	}
	eventually(t, func() bool {
		state, err := f.disk.ReadFile("log/seglog.state")
		return err == nil && strings.Contains(string(state), "recovery-point 5\n")
	})
	f.killed = killed
	if killed {
		f.disk = f.disk.Kill()
	} else {
		require.NoError(t, l.Close())
	}
	f.disk.SyncAll()
	return f
}

func (f *flippable) open(t *testing.T, disk *logtest.Disk, readOnly bool) *seglog.Log {
	l, err := f.tryOpen(disk, readOnly)
	require.NoError(t, err)
	return l
}

func (f *flippable) tryOpen(disk *logtest.Disk, readOnly bool) (*seglog.Log, error) {
	o := f.opts
	o.FS, o.ReadOnly = disk.FS(), readOnly
	return seglog.Open("log", o)
}

// files are the names of the log's files that end in a suffix.
func (f *flippable) files(t *testing.T, suffix string) (names []string) {
	all, err := f.disk.ReadDir("log")
	require.NoError(t, err)
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names)
	return names
}

// flip is a log with one bit flipped, and what comes of it.
type flip struct {
	name    string
	at, bit int
	verify  []seglog.Problem // but for notes
	told    []string         // by errors of reading and by what opening has done
	cut     bool             // opening for writing has cut something off
	lost    []string         // records that are not found, and no error says why
	wrong   []string         // records and answers that are not what was appended
}

func (p flip) String() string {
	return fmt.Sprintf("byte %d bit %d of %s: verify %v, told %q, lost %q, wrong %q", p.at, p.bit, p.name, p.verify, p.told, p.lost, p.wrong)
}

// eachFlip flips every bit of a file, one at a time, and looks what becomes of the
// log: checked, opened for reading, opened for writing.
func (f *flippable) eachFlip(t *testing.T, name string, judge func(flip)) {
	f.eachBit(t, name, func(bad *logtest.Disk, at, bit int) {
		p := flip{name: name, at: at, bit: bit, verify: damageOf(t, bad)}
		f.read(t, &p, bad, true)
		f.read(t, &p, bad, false)
		judge(p)
	})
}

// eachBit makes a disk for every bit of a file on which that bit is flipped. One dot
// stands for all of the padding.
func (f *flippable) eachBit(t *testing.T, name string, use func(bad *logtest.Disk, at, bit int)) {
	content, err := f.disk.ReadFile("log/" + name)
	require.NoError(t, err)
	for at := range content {
		if at > 1 && string(content[at-2:at+1]) == "..." {
			continue
		}
		for bit := range 8 {
			content[at] ^= 1 << bit
			bad := f.disk.Kill()
			require.NoError(t, bad.WriteFile("log/"+name, content))
			content[at] ^= 1 << bit
			use(bad, at, bit)
		}
	}
}

func damageOf(t *testing.T, disk *logtest.Disk) (found []seglog.Problem) {
	report, err := seglog.Verify(t.Context(), "log", seglog.VerifyOptions{FS: disk.FS(), Jobs: 1})
	require.NoError(t, err)
	for _, p := range report.Problems {
		if p.Severity > seglog.Note {
			found = append(found, p)
		}
	}
	return found
}

// read asks a log for everything in every way.
func (f *flippable) read(t *testing.T, p *flip, disk *logtest.Disk, readOnly bool) {
	l, err := f.tryOpen(disk, readOnly)
	if err != nil {
		require.ErrorIs(t, err, seglog.ErrCorrupt, p)
		p.told = append(p.told, err.Error())
		return
	}
	defer l.Close()
	if r := stats(t, l).Recovery; len(r.Cut)+len(r.Damaged)+len(r.SetAside) > 0 {
		p.told = append(p.told, fmt.Sprint(r.Cut, r.Damaged, r.SetAside))
		p.cut = p.cut || !readOnly && len(r.Cut) > 0
	}
	found := map[int64]bool{}
	for r, err := range l.Records(context.Background(), l.Offsets().Start, &seglog.IterOptions{SkipDamaged: true}) {
		if err != nil {
			require.ErrorIs(t, err, seglog.ErrCorrupt, p)
			p.told = append(p.told, err.Error())
			continue
		}
		p.compare(r)
		found[r.Offset] = true
	}
	for offset := range f.end {
		r, err := l.Get(offset)
		switch {
		case err == nil:
			p.compare(r)
		case errors.Is(err, seglog.ErrCorrupt):
			p.told = append(p.told, err.Error())
		default:
			p.lost = append(p.lost, err.Error())
		}
		if !found[offset] {
			p.lost = append(p.lost, fmt.Sprint("offset ", offset))
		}
	}
	for offset := range f.end {
		at, ok, err := l.OffsetForTime(flippableRecord(offset).Timestamp - 5)
		if err != nil {
			require.ErrorIs(t, err, seglog.ErrCorrupt, p)
			p.told = append(p.told, err.Error())
			continue
		}
		// The first that can be read: a header that lies may have a look-up pass
		// over the damaged batch.
		want := offset
		for want < f.end && !found[want] {
			want++
		}
		if ok != (want < f.end) || ok && at.Offset != want {
			p.wrong = append(p.wrong, fmt.Sprintf("looking up the time of offset %d gives %+v, %v", offset, at, ok))
		}
	}
}

func (p *flip) compare(r seglog.Record) {
	want := flippableRecord(r.Offset)
	if r.Timestamp != want.Timestamp || string(r.Key) != string(want.Key) || string(r.Value) != string(want.Value) {
		p.wrong = append(p.wrong, fmt.Sprintf("offset %d holds %q", r.Offset, r.Value))
	}
}

// eachState runs a test for a log that was closed and for one whose process was
// killed.
func eachState(t *testing.T, test func(t *testing.T, f flippable)) {
	for what, killed := range map[string]bool{"closed": false, "killed": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			test(t, newFlippable(t, killed))
		})
	}
}

// Every bit of a .log is under a checksum, but for the base offset (bytes 0 to 7 of
// a batch, each flip of which is found by comparing neighbours and indexes) and the
// leader epoch (bytes 12 to 15).
//
// A flip under the checksum is an error of every read that meets the batch, and no
// record of it is served. A log that ends with it is cut there only if it was not
// closed, so that nobody knows whether the batch was durable.
//
// A flip of a base offset costs the records of its batch, and every read that meets
// it says so, where good batches lie on both sides. The last batch of all may be
// served under offsets that are not its own; Verify calls that damage, unless nothing
// contradicts it: then the log was not closed and the batch is moved by less than it
// has records. Opening a log that was not closed knows less and may take the batch
// behind for the wrong one. In a log with gaps, a flip that moves a batch within one
// cannot be told; see TestABaseOffsetThatMovesWithinAGapCannotBeTold.
//
// A flip of a leader epoch is harmless: nothing that is served depends on it. Verify
// warns of one that is above the next or below the one before. The two that nothing
// contradicts are a lower epoch of the first batch of all and a higher one of the
// last.
func TestEveryFlippedBitOfALogIsFound(t *testing.T) {
	eachState(t, func(t *testing.T, f flippable) {
		names := f.files(t, ".log")
		if f.killed {
			names = names[1:] // a sealed segment is the same in both
		}
		for _, name := range names {
			content, err := f.disk.ReadFile("log/" + name)
			require.NoError(t, err)
			starts := startsOf(t, content)
			f.eachFlip(t, name, func(p flip) {
				batch := 0
				for batch+1 < len(starts) && starts[batch+1] <= p.at {
					batch++
				}
				switch field := p.at - starts[batch]; {
				case field < 8:
					if f.killed && batch == len(starts)-1 && field == 7 && p.bit == 0 && len(p.verify) == 0 {
						break // from offset 6 to 7, of two records
					}
					requireDamage(t, p)
					if last := batch == len(starts)-1 && name == "00000000000000000005.log"; !f.killed && !last {
						b, err := record.Parse(content[starts[batch]:])
						require.NoError(t, err)
						require.NotEmpty(t, p.told, p)
						require.Empty(t, p.wrong, p)
						require.Len(t, p.lost, 2*int(b.Count()), "%s: other batches are lost", p)
					}
				case field >= 12 && field < 16:
					require.Empty(t, p.told, p)
					require.Empty(t, p.lost, p)
					require.Empty(t, p.wrong, p)
					higher := p.bit+8*(15-field) < 31 && 5&(1<<(p.bit+8*(15-field))) == 0
					first := batch == 0 && name == "00000000000000000000.log"
					last := batch == 1 && name == "00000000000000000005.log"
					require.Equal(t, first && !higher && p.bit+8*(15-field) < 31 || last && higher, len(p.verify) == 0, p)
				default:
					requireDamage(t, p)
					require.NotEmpty(t, p.told, p)
					require.Empty(t, p.wrong, p)
				}
				require.False(t, p.cut && !f.killed, "%s: it was durable", p)
			})
		}
	})
}

func requireDamage(t *testing.T, p flip) {
	t.Helper()
	for _, problem := range p.verify {
		if problem.Severity == seglog.Damage {
			return
		}
	}
	require.Fail(t, "Verify finds no damage", "%s", p)
}

func kinds(p flip) (list []string) {
	for _, problem := range p.verify {
		list = append(list, problem.Kind)
	}
	return list
}

func startsOf(t *testing.T, content []byte) (starts []int) {
	for pos := 0; pos < len(content); {
		b, err := record.Parse(content[pos:])
		require.NoError(t, err)
		starts = append(starts, pos)
		pos += b.Size()
	}
	return starts
}

// No bit of an index changes an answer: it is harmless, all of it. Where an entry
// leads is compared with the batch there, and the log is read from an earlier place
// if they contradict each other; an index that does not hold together is made anew
// when a log is opened for writing, and left aside when it is not.
//
// Verify tells of every flip but those that leave an entry true: an offset in the
// index that still lies in the batch at its position or before the next entry's
// batch, or a timestamp that is still not below any of the records up to its offset,
// or an offset in the time index that still is of the same batch, or of an older one.
func TestNoFlippedBitOfAnIndexChangesAnAnswer(t *testing.T) {
	eachState(t, func(t *testing.T, f flippable) {
		for _, name := range f.files(t, "index") {
			flips, silent := 0, 0
			f.eachFlip(t, name, func(p flip) {
				require.Empty(t, p.told, p)
				require.Empty(t, p.lost, p)
				require.Empty(t, p.wrong, p)
				flips++
				if len(p.verify) == 0 {
					silent++
				}
			})
			require.Less(t, silent, flips/20, "%s: Verify misses too much", name)
		}
	})
}

// A flip of the timestamp that stands for a segment has nothing removed for its age,
// and hides nothing.
func TestAFlippedTimestampOfAnIndexRemovesNothing(t *testing.T) {
	f := flippable{disk: logtest.NewDisk(logtest.DiskOptions{}), opts: seglog.Options{SegmentIndexBytes: 64}}
	l := f.open(t, f.disk, false)
	now := time.Now().UnixMilli()
	for i := range int64(2) {
		_, err := l.Append([]seglog.Record{{Timestamp: now + i}}, nil)
		require.NoError(t, err)
		_, err = l.Roll()
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	f.disk.SyncAll()
	f.eachBit(t, "00000000000000000000.timeindex", func(bad *logtest.Disk, at, bit int) {
		l := f.open(t, bad, false)
		res, err := l.ApplyRetention(t.Context())
		require.NoError(t, err)
		require.Zero(t, res.Segments, "byte %d bit %d", at, bit)
		newest, found, err := l.OffsetForTime(seglog.MaxTimestamp)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, seglog.TimestampOffset{Timestamp: now + 1, Offset: 1}, newest, "byte %d bit %d", at, bit)
		require.NoError(t, l.Close())
		require.Empty(t, damageOf(t, bad), "byte %d bit %d: it was not made anew", at, bit)
	})
}

// The end of a log that was closed is known. A base offset that contradicts it is
// not served, and not written behind.
func TestALogThatEndsElsewhereThanWhenItWasClosedIsRefused(t *testing.T) {
	f := newFlippable(t, false)
	name := "log/00000000000000000005.log"
	content, err := f.disk.ReadFile(name)
	require.NoError(t, err)
	last := startsOf(t, content)[1]
	content[last+7] ^= 1
	require.NoError(t, f.disk.WriteFile(name, content))
	for range 2 {
		_, err := f.tryOpen(f.disk, false)
		require.ErrorIs(t, err, seglog.ErrCorrupt)
		require.ErrorContains(t, err, "ends at offset 9, and was closed at 8")
	}
	found := damageOf(t, f.disk)
	require.Len(t, found, 1)
	require.Equal(t, "end_offset", found[0].Kind)
	require.Equal(t, int64(last), found[0].Position)
	content[last+7] ^= 1
	require.NoError(t, f.disk.WriteFile(name, content))
	l := f.open(t, f.disk, false)
	require.True(t, stats(t, l).Recovery.Clean)
	require.NoError(t, l.Close())
}

// Every bit of the state file is under a checksum, and there is a second one.
func TestAFlippedBitOfTheStateFileIsFoundAndCostsNothing(t *testing.T) {
	eachState(t, func(t *testing.T, f flippable) {
		for _, name := range []string{"seglog.state", "seglog.state.copy"} {
			f.eachFlip(t, name, func(p flip) {
				require.Equal(t, []string{"checkpoint_bad"}, kinds(p), p)
				require.Empty(t, p.told, p)
				require.Empty(t, p.lost, p)
				require.Empty(t, p.wrong, p)
			})
		}
	})
}

// The files a broker keeps for transactions, as it wrote them. No record that is
// served depends on them. Every bit of a snapshot is under a checksum. An index entry
// is compared with the batches and the marker of its transaction, but for two fields:
// the first offset where compaction has taken the batches away (bytes 10 to 17), and
// the last stable offset (bytes 26 to 33), which tells a broker when to stop looking
// for more entries. Within bounds neither is contradicted by anything in the log.
func TestFlippedBitsOfTransactionFiles(t *testing.T) {
	f := flippable{disk: logtest.NewDisk(logtest.DiskOptions{})}
	dir := filepath.Join("testdata", "kafka", "4.3.1", "compacted-txn-0")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, f.disk.WriteFile("log/"+e.Name(), readFile(t, filepath.Join(dir, e.Name()))))
	}
	before := len(damageOf(t, f.disk))
	for _, name := range []string{"00000000000000000060.txnindex", "00000000000000000060.snapshot"} {
		f.eachBit(t, name, func(bad *logtest.Disk, at, bit int) {
			if len(damageOf(t, bad)) > before {
				return
			}
			field := at % 34
			require.True(t, strings.HasSuffix(name, ".txnindex") && (field >= 10 && field < 18 || field >= 26), "%s: byte %d bit %d", name, at, bit)
		})
	}
}
