package seglog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/producerstate"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

// sent is a batch of a producer that was acknowledged.
type sent struct {
	p       seglog.Producer
	n       int
	at      seglog.AppendResult
	durable bool
}

// transactor drives producers over a log that may crash or fail at any moment. What
// it was told it remembers.
type transactor struct {
	t   testing.TB
	log *seglog.Log
	// mu guards what a crash, which may come from the log's background work, looks at.
	mu   sync.Mutex
	acks []sent
	seqs map[int64]int32
	note func(error)
}

func newTransactor(t testing.TB, note func(error)) *transactor {
	return &transactor{t: t, seqs: map[int64]int32{}, note: note}
}

func (x *transactor) append(pid int64, n int, txn bool, policy seglog.SyncPolicy) {
	p := seglog.Producer{ID: pid, Sequence: x.seqs[pid], Transactional: txn}
	for range 2 { // one that failed is sent again
		at, err := x.log.Append(recent(n), &seglog.AppendOptions{Producer: &p, Sync: &policy})
		x.note(err)
		if err == nil {
			x.seqs[pid] = record.IncrementSequence(p.Sequence, int32(n))
			x.acked(sent{p, n, at, policy == seglog.SyncAlways})
			return
		}
	}
}

// replicate appends as a follower does, at an offset of the leader's.
func (x *transactor) replicate(pid int64, n int, txn bool, gap int64, policy seglog.SyncPolicy) {
	p := seglog.Producer{ID: pid, Sequence: x.seqs[pid], Transactional: txn}
	for range 2 {
		records := recent(n)
		o := record.BuilderOptions{
			BaseOffset: x.log.Offsets().End + gap, LeaderEpoch: x.log.LeaderEpoch(), Transactional: txn,
			Producer: &record.Producer{ID: pid, BaseSequence: p.Sequence},
		}
		for i := range records {
			records[i].Offset, records[i].Timestamp = o.BaseOffset+int64(i), time.Now().UnixMilli()
		}
		at, err := x.log.AppendReplicated(batchAt(x.t, o, records...), &seglog.AppendOptions{Sync: &policy})
		x.note(err)
		if err == nil {
			x.seqs[pid] = record.IncrementSequence(p.Sequence, int32(n))
			x.acked(sent{p, n, at, policy == seglog.SyncAlways})
			return
		}
	}
}

// deleteBefore leaves what transactions that are open have written.
func (x *transactor) deleteBefore(back int64) {
	stable, err := x.log.LastStableOffset()
	x.note(err)
	if err == nil {
		x.note(x.log.DeleteBefore(max(x.log.Offsets().Start, stable-back)))
	}
}

func (x *transactor) acked(s sent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.acks = append(x.acks, s)
	if s.durable {
		x.durableLocked(s.at.LastOffset + 1)
	}
}

func (x *transactor) durableLocked(end int64) {
	for i := range x.acks {
		x.acks[i].durable = x.acks[i].durable || x.acks[i].at.LastOffset < end
	}
}

func (x *transactor) end(pid int64, result seglog.TransactionResult, policy seglog.SyncPolicy) {
	_, err := x.log.EndTransaction(seglog.Producer{ID: pid}, result, &seglog.AppendOptions{Sync: &policy})
	x.note(err)
}

func (x *transactor) truncate(offset int64) {
	x.mu.Lock()
	x.acks = slices.DeleteFunc(x.acks, func(s sent) bool { return s.at.LastOffset >= offset })
	x.mu.Unlock()
	x.note(x.log.TruncateTo(offset))
	infos, err := x.log.Producers()
	x.note(err)
	if err != nil {
		return
	}
	clear(x.seqs)
	for _, i := range infos {
		x.seqs[i.ID] = record.IncrementSequence(i.LastSequence, 1)
	}
}

func (x *transactor) snapshot() []sent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.acks)
}

// last are the last acknowledged batches of the producers that must be there whenever
// between two moments the disk was copied.
func last(before, after []sent, killed bool) map[int64]sent {
	last := map[int64]sent{}
	for _, s := range before {
		if (s.durable || killed) && slices.ContainsFunc(after, func(o sent) bool { return o.p == s.p && o.at == s.at }) {
			last[s.p.ID] = s
		}
	}
	return last
}

// requireLast sends the last acknowledged batches again: they are there. One that is
// not the last in the log any more, because of one that was not acknowledged, may be
// forgotten, but is not stored twice.
func requireLast(t testing.TB, l *seglog.Log, last map[int64]sent, what string) {
	infos, err := l.Producers()
	require.NoError(t, err, what)
	st, _ := l.Stats()
	what = fmt.Sprintf("%s\n%+v\n%+v\n%+v", what, last, infos, st)
	for b, err := range l.Batches(t.Context(), l.Offsets().Start, &seglog.IterOptions{Isolation: seglog.ReadLogEnd}) {
		require.NoError(t, err, what)
		what += fmt.Sprintf("\n%d-%d pid %d epoch %d seq %d %v %v", b.BaseOffset(), b.LastOffset(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Attributes(), err)
	}
	for _, i := range infos {
		s, ok := last[i.ID]
		if !ok {
			continue
		}
		delete(last, i.ID)
		require.GreaterOrEqual(t, i.LastOffset, s.at.LastOffset, what)
		end := l.Offsets().End
		at, err := l.Append(recent(s.n), &seglog.AppendOptions{Producer: &s.p})
		require.Equal(t, end, l.Offsets().End, what)
		if i.LastOffset > s.at.LastOffset && err != nil {
			continue
		}
		require.NoError(t, err, what)
		require.True(t, at.Duplicate, what)
		require.Equal(t, s.at.BaseOffset, at.BaseOffset, what)
	}
	require.Empty(t, last, "%s: producers are forgotten", what)
}

// requireTransactions works out from the batches of a whole log what readers of
// committed records must see, and requires that they do.
func requireTransactions(t testing.TB, l *seglog.Log, what string) {
	type open struct {
		first   int64
		offsets []int64
	}
	unstable := map[int64]*open{}
	hidden := map[int64]bool{}
	for b, err := range l.Batches(t.Context(), l.Offsets().Start, &seglog.IterOptions{Isolation: seglog.ReadLogEnd}) {
		require.NoError(t, err, what)
		txn := unstable[b.ProducerID()]
		switch {
		case b.IsControl():
			for r, err := range b.Records(new(record.Iterator)) {
				require.NoError(t, err, what)
				kind, _, err := record.ParseControl(r.Key)
				require.NoError(t, err, what)
				if txn != nil && kind == record.Abort {
					for _, o := range txn.offsets {
						hidden[o] = true
					}
				}
			}
			delete(unstable, b.ProducerID())
		case b.IsTransactional():
			if txn == nil {
				txn = &open{first: b.BaseOffset()}
				unstable[b.ProducerID()] = txn
			}
			txn.offsets = append(txn.offsets, span(b.BaseOffset(), b.LastOffset())...)
		}
	}
	end := l.Offsets().End
	for _, txn := range unstable {
		end = min(end, txn.first)
	}
	hanging, err := l.Transactions()
	require.NoError(t, err, what)
	for _, txn := range hanging {
		if start := l.Offsets().Start; txn.FirstOffset < start { // nothing need be left of it
			end = start
		}
	}
	stable, err := l.LastStableOffset()
	require.NoError(t, err, what)
	require.Equal(t, end, stable, what)
	want := []int64{}
	for r, err := range l.Records(t.Context(), l.Offsets().Start, nil) {
		require.NoError(t, err, what)
		if r.Offset < end && !hidden[r.Offset] {
			want = append(want, r.Offset)
		}
	}
	require.Equal(t, want, committed(t, l), what)
}

// requireProducersSurvived opens the log of a disk that lost power, or whose process
// was killed.
func requireProducersSurvived(t testing.TB, disk *logtest.Disk, opts seglog.Options, last map[int64]sent, what string) {
	opts.FS = disk.FS()
	for range 2 { // recovered, and closed
		l, err := seglog.Open("log", opts)
		require.NoError(t, err, what)
		again := map[int64]sent{}
		for id, s := range last {
			again[id] = s
		}
		requireLast(t, l, again, what)
		requireTransactions(t, l, what)
		epoch := l.LeaderEpoch()
		require.Equal(t, seglog.EpochEnd{Epoch: epoch, EndOffset: l.Offsets().End}, l.EndOffsetForEpoch(epoch), what)
		require.NoError(t, l.Close(), what)
	}
	opts.ReadOnly = true
	l, err := seglog.Open("log", opts)
	require.NoError(t, err, what)
	requireTransactions(t, l, what)
	require.NoError(t, l.Close(), what)
}

func (x *transactor) random(random *rand.Rand, steps int) {
	for range steps {
		pid := int64(1 + random.IntN(3))
		policy := seglog.SyncPolicy(random.IntN(2))
		switch random.IntN(15) {
		case 0:
			_, err := x.log.Roll()
			x.note(err)
		case 1:
			end := x.log.Offsets().End
			x.truncate(max(0, end-random.Int64N(8)))
		case 2, 3:
			x.end(pid, seglog.Abort, policy)
		case 4:
			x.end(pid, seglog.Commit, policy)
		case 5:
			x.note(x.log.SetLeaderEpoch(x.log.LeaderEpoch() + 1))
		case 6:
			_, err := x.log.Append(recent(1), &seglog.AppendOptions{Sync: &policy})
			x.note(err)
		case 7:
			x.append(9, 1+random.IntN(3), false, policy)
		case 8:
			x.deleteBefore(random.Int64N(4))
		case 9, 10:
			x.replicate(pid, 1+random.IntN(3), true, random.Int64N(2)*2, policy)
		default:
			x.append(pid, 1+random.IntN(3), true, policy)
		}
	}
}

// No acknowledged batch is lost, one that is sent again is known, what was aborted
// stays so, and nothing uncommitted is shown, whenever the power goes or the process
// is killed.
func TestProducersAndTransactionsSurviveAPowerCut(t *testing.T) {
	for seed := range *crashSeeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			opts := small
			opts.SegmentBytes = 700
			disk := logtest.NewDisk(logtest.DiskOptions{})
			x := newTransactor(t, func(err error) { require.NoError(t, err) })
			states := 0
			disk.OnOp(func(op logtest.Op) {
				// The workload goes on meanwhile: what must be there was acknowledged before
				// the disk is copied, and not truncated until after.
				before := x.snapshot()
				killed := disk.Kill()
				cut := disk.States(max(1, *crashStates/10), seed+uint64(op.N))
				after := x.snapshot()
				states++
				requireProducersSurvived(t, killed, opts, last(before, after, true), fmt.Sprintf("killed before %s", op))
				for state := range cut {
					states++
					requireProducersSurvived(t, state, opts, last(before, after, false), fmt.Sprintf("power cut before %s, %s", op, state))
				}
			})
			o := opts
			o.FS = disk.FS()
			l, err := seglog.Open("log", o)
			require.NoError(t, err)
			x.log = l
			random := rand.New(rand.NewPCG(seed, 7))
			x.random(random, 20)
			require.NoError(t, l.Close())
			if x.log, err = seglog.Open("log", o); err != nil {
				require.NoError(t, err)
			}
			x.random(random, 10)
			require.NoError(t, x.log.Close())
			disk.OnOp(nil)
			t.Logf("%d disk states", states)
		})
	}
}

// The same when any call of the file system fails, once.
func TestNoFailureLosesAProducersBatch(t *testing.T) {
	t.Parallel()
	opts := small
	opts.SegmentBytes = 700
	run := func(disk *logtest.Disk, x *transactor) {
		o := opts
		o.FS = disk.FS()
		l, err := seglog.Open("log", o)
		if err != nil {
			x.note(err)
			return
		}
		x.log = l
		x.random(rand.New(rand.NewPCG(3, 3)), 25)
		x.note(l.Close())
	}
	n := 0
	for disk := range logtest.Faults(logtest.NewDisk(logtest.DiskOptions{}), func(disk *logtest.Disk) {
		run(disk, newTransactor(t, func(err error) { require.NoError(t, err) }))
	}) {
		n++
		x := newTransactor(t, func(err error) {
			if err != nil && !known(err) {
				require.ErrorIs(t, err, seglog.ErrOutOfOrderSequence, "%s", disk) // behind one that was given up
			}
		})
		run(disk, x)
		require.Zero(t, disk.Open()+disk.Mapped()+disk.Locked(), "%s", disk)
		requireProducersSurvived(t, disk.Kill(), opts, last(x.acks, x.acks, true), fmt.Sprintf("after %s", disk))
		for state := range disk.States(2, uint64(n)) {
			requireProducersSurvived(t, state, opts, last(x.acks, x.acks, false), fmt.Sprintf("after %s, %s", disk, state))
		}
	}
	t.Logf("%d faults", n)
}

// A producer whose last records have just been deleted is known after a crash all the
// same: by the snapshot of the first segment that stayed, for which removal waits.
func TestDeletingItsRecordsDoesNotForgetAProducer(t *testing.T) {
	t.Parallel()
	for i := range 40 {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		opts := small
		opts.FS = disk.FS()
		l, err := seglog.Open("log", opts)
		require.NoError(t, err)
		p := &writer{t: t, log: l, id: 7}
		p.send(3)
		if i%2 == 0 {
			roll(t, l)
		} else { // behind a gap
			_, err := l.AppendReplicated(batchAt(t, record.BuilderOptions{BaseOffset: 1 << 32}, at(1<<32, 1, "v")), nil)
			require.NoError(t, err)
			require.Len(t, bases(t, l), 2)
		}
		require.NoError(t, l.DeleteBefore(l.Offsets().End))
		opts.FS = disk.Kill().FS()
		killed, err := seglog.Open("log", opts)
		require.NoError(t, err)
		at, err := killed.Append(recent(3), &seglog.AppendOptions{Producer: &seglog.Producer{ID: 7}})
		require.NoError(t, err)
		require.True(t, at.Duplicate, "round %d", i)
		require.NoError(t, killed.Close())
		require.NoError(t, l.Close())
	}
}

// A snapshot that could not be written when the log rolled is made up for before the
// records that it speaks of are removed: in the same run of the program and in the next,
// whether the log is closed or killed then.
func TestASnapshotThatCouldNotBeWrittenIsMadeUpFor(t *testing.T) {
	lives := map[string]func(t *testing.T, l *seglog.Log, disk *logtest.Disk, opts seglog.Options) *logtest.Disk{
		"removed, closed": func(t *testing.T, l *seglog.Log, disk *logtest.Disk, opts seglog.Options) *logtest.Disk {
			require.NoError(t, l.DeleteBefore(3))
			require.NoError(t, l.Close())
			return disk
		},
		"removed, killed": func(t *testing.T, l *seglog.Log, disk *logtest.Disk, opts seglog.Options) *logtest.Disk {
			require.NoError(t, l.DeleteBefore(3))
			return disk.Kill()
		},
		"closed, removed, killed": func(t *testing.T, l *seglog.Log, disk *logtest.Disk, opts seglog.Options) *logtest.Disk {
			plain(t, l, 2)
			require.NoError(t, l.Close())
			l = openLog(t, "log", opts)
			require.NoError(t, l.DeleteBefore(3))
			plain(t, l, 1)
			return disk.Kill()
		},
		"killed, removed, killed": func(t *testing.T, l *seglog.Log, disk *logtest.Disk, opts seglog.Options) *logtest.Disk {
			plain(t, l, 2)
			disk = disk.Kill()
			opts.FS = disk.FS()
			l = openLog(t, "log", opts)
			require.NoError(t, l.DeleteBefore(3))
			return disk.Kill()
		},
	}
	for name, live := range lives {
		for _, kind := range []logtest.Kind{logtest.Create, logtest.Write, logtest.Sync, logtest.Rename} {
			for _, errno := range []error{syscall.EIO, syscall.ENOSPC} {
				t.Run(fmt.Sprintf("%s, %s: %s", name, kind, errno), func(t *testing.T) {
					disk := logtest.NewDisk(logtest.DiskOptions{})
					opts := small
					opts.FS = disk.FS()
					l := openLog(t, "log", opts)
					w := &writer{t: t, log: l, id: 7, txn: true}
					w.send(3)
					disk.Fail(logtest.Calls{Kind: kind, Name: "*.snapshot*", Nth: 1}, errno)
					roll(t, l)
					eventually(t, func() bool { return disk.Failed() == 1 })
					disk = live(t, l, disk, opts)
					opts.FS = disk.FS()
					l = openLog(t, "log", opts)
					at, err := l.Append(recent(3), &seglog.AppendOptions{Producer: &seglog.Producer{ID: 7, Transactional: true}})
					require.NoError(t, err)
					require.True(t, at.Duplicate)
					open, err := l.Transactions()
					require.NoError(t, err)
					require.Len(t, open, 1)
				})
			}
		}
	}
}

// 231: what was not put on disk about producers holds up the recovery point, and is
// tried again.
func TestTheRecoveryPointWaitsForTheSnapshots(t *testing.T) {
	disk := logtest.NewDisk(logtest.DiskOptions{})
	opts := small
	opts.FS = disk.FS()
	l := openLog(t, "log", opts)
	w := &writer{t: t, log: l, id: 7}
	point := func() int64 {
		state, err := (&checkpoint.StateFiles{FS: disk.FS(), Dir: "log"}).Read()
		require.NoError(t, err)
		return state.RecoveryPoint
	}
	for range 3 {
		before := disk.Failed()
		disk.Fail(logtest.Calls{Kind: logtest.Sync, Name: "*.snapshot*", Nth: 1}, syscall.EIO)
		w.send(1)
		roll(t, l)
		eventually(t, func() bool { return disk.Failed() > before })
		require.Zero(t, point())
	}
	disk.Heal()
	w.send(1)
	roll(t, l)
	eventually(t, func() bool { return point() == 4 })
	list, err := producerstate.List(disk.FS(), "log")
	require.NoError(t, err)
	require.Equal(t, span(1, 4), list)
}

// 257: when all segments have expired it is the snapshot of the one begun in their place
// that knows their producers, and without it they stay.
func TestNothingIsRemovedBeforeItsProducersAreWrittenDown(t *testing.T) {
	for _, failing := range []bool{false, true} {
		disk := logtest.NewDisk(logtest.DiskOptions{})
		opts := small
		opts.FS, opts.RetentionTime = disk.FS(), time.Millisecond
		l := openLog(t, "log", opts)
		w := &writer{t: t, log: l, id: 7}
		old := func() {
			records := []seglog.Record{{Timestamp: time.Now().Add(-time.Hour).UnixMilli()}}
			_, err := l.Append(records, &seglog.AppendOptions{Producer: &seglog.Producer{ID: w.id, Sequence: w.seq}})
			require.NoError(t, err)
			w.seq++
		}
		for base := int64(1); base <= 2; base++ {
			old()
			roll(t, l)
			eventually(t, func() bool { _, err := disk.ReadFile(fmt.Sprintf("log/%020d.snapshot", base)); return err == nil })
		}
		old()
		if failing {
			disk.Fail(logtest.Calls{Kind: logtest.Write, Name: "*3.snapshot*"}, syscall.EIO)
			_, err := l.ApplyRetention(t.Context())
			require.ErrorIs(t, err, syscall.EIO)
			_, err = disk.ReadFile("log/00000000000000000000.log")
			require.NoError(t, err)
			disk.Heal()
		}
		res, err := l.ApplyRetention(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(3), res.Start)
		list, err := producerstate.List(disk.FS(), "log")
		require.NoError(t, err)
		require.Equal(t, []int64{3}, list)
		opts.FS = disk.Kill().FS()
		l = openLog(t, "log", opts)
		at, err := l.Append(recent(1), &seglog.AppendOptions{Producer: &seglog.Producer{ID: 7, Sequence: 2}})
		require.NoError(t, err)
		require.True(t, at.Duplicate)
	}
}
