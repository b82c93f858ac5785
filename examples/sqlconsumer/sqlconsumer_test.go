package sqlconsumer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/consumer"
	"github.com/seglog/seglog/offsetslog"
)

var orders = offsetslog.TopicPartition{Topic: "orders"}

type house struct {
	t     *testing.T
	dir   *seglog.Dir
	store *offsetslog.Store
	db    *sql.DB
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t}
	var err error
	h.dir, err = seglog.OpenDir(t.TempDir(), offsetslog.Configure(seglog.DirOptions{ManualMaintenance: true}))
	require.NoError(t, err)
	h.store, err = offsetslog.Open(h.dir, offsetslog.Options{Partitions: 1, RetentionCheckInterval: -1, InitialRebalanceDelay: -1})
	require.NoError(t, err)
	h.db, err = sql.Open("sqlite", filepath.Join(t.TempDir(), "results.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	require.NoError(t, err)
	for _, table := range []string{Schema, `CREATE TABLE balances (account TEXT PRIMARY KEY, balance INTEGER NOT NULL)`} {
		_, err = h.db.Exec(table)
		require.NoError(t, err)
	}
	_, err = h.dir.CreatePartition(orders.Topic, orders.Partition, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, h.db.Close())
		require.NoError(t, h.store.Close())
		require.NoError(t, h.dir.Close())
	})
	return h
}

func (h *house) write(accounts ...string) {
	h.t.Helper()
	log, err := h.dir.Partition(orders.Topic, orders.Partition)
	require.NoError(h.t, err)
	var records []seglog.Record
	for _, a := range accounts {
		records = append(records, seglog.Record{Key: []byte(a)})
	}
	_, err = log.Append(records, nil)
	require.NoError(h.t, err)
}

// deposit adds one to the account that a record names: not idempotent at all.
func deposit(ctx context.Context, tx *sql.Tx, r seglog.Record) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO balances VALUES (?, 1)
		ON CONFLICT (account) DO UPDATE SET balance = balance + 1`, string(r.Key))
	return err
}

func (h *house) balances() map[string]int {
	h.t.Helper()
	rows, err := h.db.Query(`SELECT account, balance FROM balances`)
	require.NoError(h.t, err)
	defer rows.Close()
	all := map[string]int{}
	for rows.Next() {
		var account string
		var balance int
		require.NoError(h.t, rows.Scan(&account, &balance))
		all[account] = balance
	}
	require.NoError(h.t, rows.Err())
	return all
}

func (h *house) options() consumer.Options {
	return consumer.Options{Group: "g", Coordinator: h.store, OffsetReset: consumer.None, MaxPollRecords: 7}
}

// runUntil runs a sink until it fails or the balances add up to n.
func (h *house) runUntil(s *Sink, n int) error {
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	work := s.Apply
	watched := &Sink{DB: s.DB, Apply: func(ctx context.Context, tx *sql.Tx, r seglog.Record) error {
		if err := work(ctx, tx, r); err != nil {
			return err
		}
		var sum int
		if err := tx.QueryRowContext(ctx, `SELECT SUM(balance) FROM balances`).Scan(&sum); err != nil {
			return err
		}
		if sum == n {
			go cancel() // once this is committed, or not: then it is run again
		}
		return nil
	}}
	err := watched.Run(ctx, h.dir, h.options(), orders.Topic)
	if ctx.Err() != nil {
		return ctx.Err() // wherever that has met it
	}
	return err
}

var errCrash = errors.New("crash")

// The process ends at each place there is, and begins again.
func TestEachRecordTakesEffectOnce(t *testing.T) {
	h := newHouse(t)
	want := map[string]int{}
	for i := range 100 {
		account := fmt.Sprint(i % 9)
		want[account]++
		h.write(account)
	}
	calls := 0
	s := &Sink{DB: h.db, Apply: func(ctx context.Context, tx *sql.Tx, r seglog.Record) error {
		calls++
		if calls%13 == 0 {
			return errCrash // before the work
		}
		err := deposit(ctx, tx, r)
		if calls%17 == 0 {
			return errors.Join(err, errCrash) // after it, and before the commit
		}
		return err
	}}
	crashes := 0
	for total(h.balances()) < 100 {
		if err := h.runUntil(s, 100); errors.Is(err, errCrash) {
			crashes++
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.Positive(t, crashes)
	require.Equal(t, want, h.balances())
}

func total(balances map[string]int) (n int) {
	for _, b := range balances {
		n += b
	}
	return n
}

// An owner that has lost the partition while it was at work is refused, and what it did is
// rolled back.
func TestStaleOwnerIsRefused(t *testing.T) {
	h := newHouse(t)
	h.write("a", "b", "c")
	s := &Sink{DB: h.db, Apply: deposit}
	c, err := consumer.New(h.dir, consumer.Options{OffsetReset: consumer.Earliest})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.Assign(t.Context(), orders))
	batches, err := c.Poll(t.Context())
	require.NoError(t, err)

	next, _, err := s.Claim(t.Context(), orders, 1)
	require.NoError(t, err)
	require.EqualValues(t, -1, next)
	_, _, err = s.Claim(t.Context(), orders, 2)
	require.NoError(t, err)
	require.ErrorIs(t, s.Put(t.Context(), &batches[0], 1), ErrStaleOwner)
	require.Empty(t, h.balances())
	_, _, err = s.Claim(t.Context(), orders, 1)
	require.ErrorIs(t, err, ErrStaleOwner, "nor can it come back")

	require.NoError(t, s.Put(t.Context(), &batches[0], 2))
	require.ErrorIs(t, s.Put(t.Context(), &batches[0], 2), ErrStaleOwner, "delivered twice")
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, h.balances())
	next, epoch, err := s.Claim(t.Context(), orders, 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, next)
	require.Zero(t, epoch)
}

// Members come and go while records are written, and end at any moment.
func TestMembersThatComeAndGo(t *testing.T) {
	h := newHouse(t)
	const records = 200
	s := &Sink{DB: h.db, Apply: deposit}
	var all sync.WaitGroup
	all.Go(func() {
		for range records {
			h.write("x")
		}
	})
	for member := range 3 {
		all.Go(func() {
			for life := 1; total(h.balances()) < records; life++ {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20*(member+1)*life)*time.Millisecond)
				err := s.Run(ctx, h.dir, h.options(), orders.Topic)
				ended := ctx.Err() != nil
				cancel()
				if !ended && !errors.Is(err, ErrStaleOwner) {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, map[string]int{"x": records}, h.balances())
}
