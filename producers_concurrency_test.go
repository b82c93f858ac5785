package seglog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/seglog/seglog"
	"github.com/stretchr/testify/require"
)

// Transactional writers, readers of committed records, rolls, retention and truncation,
// all at once. The value of a record says whether its transaction is going to be
// committed: no reader ever gets one of another.
func TestReadersOfCommittedRecordsGetNoOthersWhateverGoesOn(t *testing.T) {
	requireNoLeak(t)
	o := quick
	o.SegmentBytes, o.IndexIntervalBytes, o.MaxOpenSegments = 2000, 1, 4
	l := openLog(t, t.TempDir(), o)
	ctx, cancel := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	value := func(commit bool) []byte {
		if commit {
			return []byte("committed")
		}
		return []byte("aborted")
	}
	for id := range int64(3) {
		writers.Go(func() {
			for i := range 150 {
				// Each transaction has a producer of its own: one that a truncation has opened
				// again would be ended with the next.
				p := seglog.Producer{ID: id + 10*int64(i), Transactional: true}
				commit := p.ID%2 == 0
				_, err := l.Append([]seglog.Record{{Value: value(commit)}}, &seglog.AppendOptions{Producer: &p})
				if err != nil {
					continue
				}
				endByID(l, p.ID)
			}
		})
	}
	writers.Go(func() {
		for i := range 40 {
			end := l.Offsets().End
			var err error
			switch i % 4 {
			case 0:
				_, err = l.Roll()
			case 1:
				err = l.TruncateTo(max(l.Offsets().Start, end-3))
				open, _ := l.Transactions()
				for _, txn := range open {
					endByID(l, txn.ProducerID)
				}
			case 2:
				if start := l.Offsets().Start; end-start > 100 {
					err = l.DeleteBefore(start + 10)
				}
			case 3:
				_, err = l.ExpireProducers()
			}
			if err != nil && !errors.Is(err, seglog.ErrOffsetOutOfRange) {
				panic(err)
			}
		}
	})
	check := func(r seglog.Record) {
		if string(r.Value) != "committed" {
			panic("read " + string(r.Value))
		}
	}
	for range 2 {
		readers.Go(func() {
			from := int64(0)
			for ctx.Err() == nil {
				for r, err := range l.Records(ctx, from, &seglog.IterOptions{Isolation: seglog.ReadCommitted, Follow: true}) {
					if err != nil {
						from = l.Offsets().Start
						break
					}
					check(r)
				}
			}
		})
	}
	readers.Go(func() {
		for ctx.Err() == nil {
			res, err := l.Read(l.Offsets().Start, 1<<20, &seglog.ReadOptions{Isolation: seglog.ReadCommitted})
			if err == nil {
				require.LessOrEqual(t, res.NextOffset, res.End)
			}
		}
	})
	ro := o
	ro.ReadOnly = true
	readers.Go(func() {
		for ctx.Err() == nil {
			r, err := seglog.Open(l.Dir(), ro)
			if err != nil {
				continue // a file went while it was opened
			}
			for rec, err := range r.Records(ctx, r.Offsets().Start, &seglog.IterOptions{Isolation: seglog.ReadCommitted}) {
				if err != nil {
					break
				}
				_ = rec // beside truncations it may be of another history
			}
			r.Close()
		}
	})
	writers.Wait()
	cancel()
	readers.Wait()
	requireTransactions(t, l, "at the end")
}

// endByID ends a transaction as its producer wants it.
func endByID(l *seglog.Log, id int64) {
	result := seglog.Abort
	if id%2 == 0 {
		result = seglog.Commit
	}
	if _, err := l.EndTransaction(seglog.Producer{ID: id}, result, nil); err != nil {
		panic(err)
	}
}

// A leader's transactions, a follower that is sent them, and the high watermarks of
// both.
func TestAFollowerAndItsReadersKeepUpWithTransactions(t *testing.T) {
	o := quick
	o.Replicated, o.SegmentBytes = true, 3000
	leader, follower := openLog(t, t.TempDir(), o), openLog(t, t.TempDir(), o)
	var all sync.WaitGroup
	const rounds = 100
	all.Go(func() {
		for i := range int32(rounds) {
			p := seglog.Producer{ID: 1, Sequence: i, Transactional: true}
			v := binary.BigEndian.AppendUint32(nil, uint32(i%2))
			if _, err := leader.Append([]seglog.Record{{Value: v}}, &seglog.AppendOptions{Producer: &p}); err != nil {
				panic(err)
			}
			if _, err := leader.EndTransaction(p, seglog.TransactionResult(i%2), nil); err != nil {
				panic(err)
			}
		}
	})
	all.Go(func() {
		for next := int64(0); next < 2*rounds; {
			if err := leader.Wait(context.Background(), next); err != nil {
				panic(err)
			}
			res, err := leader.Read(next, 500, &seglog.ReadOptions{Isolation: seglog.ReadLogEnd})
			if err != nil {
				panic(err)
			}
			if len(res.Batches) == 0 {
				continue
			}
			if _, err = follower.AppendReplicated(res.Batches, nil); err != nil {
				panic(err)
			}
			next = res.NextOffset
			for _, l := range []*seglog.Log{leader, follower} {
				if _, err := l.SetHighWatermark(next); err != nil {
					panic(err)
				}
			}
		}
	})
	for _, l := range []*seglog.Log{leader, follower} {
		all.Go(func() {
			n := 0
			for r, err := range l.Records(context.Background(), 0, &seglog.IterOptions{Isolation: seglog.ReadCommitted, Follow: true}) {
				if err != nil {
					panic(err)
				}
				if binary.BigEndian.Uint32(r.Value) != uint32(seglog.Commit) {
					panic("an aborted record")
				}
				if n++; n == rounds/2 {
					return
				}
			}
		})
	}
	all.Wait()
}
