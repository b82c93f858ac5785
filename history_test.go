package seglog_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/logtest"
	"github.com/seglog/seglog/record"
)

var (
	histories    = flag.Int("histories", 100, "random histories of failures and crashes to try")
	historySeeds = flag.Uint64("histories.from", 1, "seed of the first")
)

// troubled is what happens to a log on a disk that fails, fills up and loses power, also
// while the log is being opened after it did.
type troubled struct {
	t      *testing.T
	random *rand.Rand
	disk   *logtest.Disk
	log    *seglog.Log
	model  *logtest.Model
	opts   seglog.Options
	next   int
	faulty bool // something was made to fail since the disk was last healed
	said   []string
}

// A log does what it promises through any history: what was durable is there, nothing
// else appears, calls may fail but tell why, and once the disk is sound again the log
// opens. Nothing stays open.
func TestRandomHistoriesOfFailuresAndCrashes(t *testing.T) {
	for seed := *historySeeds; seed < *historySeeds+uint64(*histories); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := &troubled{t: t, random: rand.New(rand.NewPCG(seed, 77)), model: &logtest.Model{}}
			h.disk = logtest.NewDisk(logtest.DiskOptions{WindowsLike: h.oneIn(4)})
			h.opts = seglog.Options{
				RetentionTime: -1, RetentionBytes: 3000 + h.random.Int64N(5000),
				FlushMessages: h.random.Int64N(3) * h.random.Int64N(5), MaxOpenSegments: h.random.IntN(3) * h.random.IntN(3),
			}
			h.mustOpen()
			for range 60 {
				h.step()
				if h.oneIn(12) {
					h.crash()
				}
			}
			h.heal()
			h.close()
		})
	}
}

func (h *troubled) oneIn(n int) bool { return h.random.IntN(n) == 0 }

func (h *troubled) say(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

// require fails with what happened last.
func (h *troubled) require(ok bool, what string, args ...any) {
	h.t.Helper()
	if !ok {
		h.t.Fatalf("%s, after\n%s", fmt.Sprintf(what, args...), strings.Join(h.said[max(0, len(h.said)-60):], "\n"))
	}
}

func (h *troubled) record() seglog.Record {
	h.next++
	r := seglog.Record{Key: fmt.Appendf(nil, "k%d", h.next), Value: fmt.Appendf(nil, "value %d %0*d", h.next, h.next*37%300, 0), Timestamp: int64(1000 + h.next)}
	if h.next%11 == 0 {
		r.Timestamp = record.NoTimestamp
	}
	return r
}

// fail has some call fail, soon.
func (h *troubled) fail() {
	kinds := []logtest.Kind{"", logtest.OpenFile, logtest.Create, logtest.Read, logtest.Write, logtest.Truncate, logtest.Preallocate, logtest.Sync,
		logtest.Close, logtest.Map, logtest.Flush, logtest.Stat, logtest.ReadDir, logtest.Rename, logtest.Remove, logtest.SyncDir}
	errs := []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EINTR}
	calls := logtest.Calls{Kind: kinds[h.random.IntN(len(kinds))], Nth: 1 + h.random.IntN(4), Onwards: h.oneIn(4)}
	err := errs[h.random.IntN(len(errs))]
	h.faulty = true
	h.say("from here on %+v fails: %v", calls, err)
	switch {
	case (calls.Kind == logtest.Write || calls.Kind == logtest.Read) && h.oneIn(2):
		h.disk.FailAfter(calls, h.random.IntN(200), err)
	case (calls.Kind == logtest.Sync || calls.Kind == logtest.Flush) && h.oneIn(2):
		h.disk.FailAndForget(calls, err)
	case calls.Kind == logtest.Write && h.oneIn(2):
		h.disk.Shorten(calls, h.random.IntN(100))
	default:
		h.disk.Fail(calls, err)
	}
}

func (h *troubled) heal() {
	h.disk.Heal()
	h.disk.SetCapacity(1 << 30)
	h.faulty = false
}

// open opens the log, with other settings now and then.
func (h *troubled) open() bool {
	if h.oneIn(3) || h.opts.SegmentBytes == 0 {
		h.opts.SegmentBytes = 600 + h.random.Int64N(3000)
		h.opts.SegmentIndexBytes, h.opts.IndexIntervalBytes = 24+h.random.IntN(400), 1+h.random.IntN(400)
		h.opts.LookupBytes = int64(h.random.IntN(3)) - 1
		h.opts.AheadBytes = []int64{-1, 256, 4096}[h.random.IntN(3)]
	}
	h.opts.FS = h.disk.FS()
	l, err := seglog.Open("log", h.opts)
	h.log = l
	if err != nil {
		h.say("open: %v", err)
		h.requireClosed()
		return false
	}
	h.say("opened %+v", l.Offsets())
	return true
}

// mustOpen opens the log, healing the disk if it is for that that it cannot.
func (h *troubled) mustOpen() {
	for !h.open() {
		h.require(h.faulty, "the log does not open")
		h.heal()
	}
}

func (h *troubled) requireClosed() {
	h.require(h.disk.Open()+h.disk.Mapped()+h.disk.Locked() == 0, "%d files, %d mappings and %d locks are left", h.disk.Open(), h.disk.Mapped(), h.disk.Locked())
}

func (h *troubled) close() error {
	err := h.log.Close()
	h.say("close: %v", err)
	h.requireClosed()
	return err
}

func (h *troubled) step() {
	l, at := h.log, h.log.Offsets()
	if h.oneIn(8) {
		h.fail()
	}
	within := at.Start + h.random.Int64N(at.End-at.Start+1)
	switch h.random.IntN(22) {
	case 0:
		done := h.model.Truncating(within)
		err := l.TruncateTo(within)
		done(err)
		h.say("truncate to %d: %v", within, err)
	case 1, 2:
		h.remove("delete", within, func() error { return l.DeleteBefore(within) })
	case 3:
		h.remove("retain", at.End, func() error { _, err := l.ApplyRetention(h.t.Context()); return err })
	case 4:
		err := l.Sync()
		if err == nil {
			h.model.Synced()
		}
		h.say("sync: %v", err)
	case 5:
		_, err := l.Roll()
		h.say("roll: %v", err)
	case 6:
		if to := max(0, within-5+h.random.Int64N(15)); h.oneIn(4) {
			done := h.model.Truncating(0)
			err := l.TruncateFullyAndStartAt(to)
			done(err)
			h.say("begin anew at %d: %v", to, err)
		}
	case 7, 8:
		h.replicate(at.End + h.random.Int64N(6))
	case 9:
		err := h.close()
		if err == nil {
			h.model.Durable(at.End)
			h.model.Synced()
		} else {
			h.heal()
		}
		h.mustOpen()
	case 10:
		h.disk.SetCapacity(h.random.Int64N(30_000))
		h.faulty = true
		h.say("the disk is full")
	default:
		h.append()
	}
	h.look()
}

func (h *troubled) remove(what string, to int64, remove func() error) {
	done := h.model.Deleting(to)
	err := remove()
	if err == nil { // else it may still be done, by the next open
		done(h.log.Offsets().Start)
	}
	h.say("%s below %d: %v", what, to, err)
}

func (h *troubled) append() {
	records := make([]seglog.Record, 1+h.random.IntN(4))
	for i := range records {
		records[i] = h.record()
	}
	policy := seglog.SyncPolicy(h.random.IntN(2))
	for range 1 + h.random.IntN(2) { // the same again, if it failed
		at, err := h.model.Append(h.log, records, &seglog.AppendOptions{Sync: &policy})
		h.say("append %d, sync %v: at %d, %v", len(records), policy, at.BaseOffset, err)
		if err == nil || errors.Is(err, seglog.ErrFailed) {
			return
		}
	}
}

func (h *troubled) replicate(offset int64) {
	r := h.record()
	r.Offset = offset
	policy := seglog.SyncPolicy(h.random.IntN(2))
	attempt := h.model.Attempt(offset, r)
	_, err := h.log.AppendReplicated(batchAt(h.t, record.BuilderOptions{BaseOffset: offset}, r), &seglog.AppendOptions{Sync: &policy})
	if err == nil {
		attempt.Appended(offset)
	} else {
		attempt.Failed(err)
	}
	h.say("replicate %d, sync %v: %v", offset, policy, err)
}

// look compares the log with the model, and opens it again if it failed.
func (h *troubled) look() {
	h.model.Durable(h.log.Offsets().Durable)
	if h.faulty && h.oneIn(3) {
		h.heal()
		h.say("the disk is sound again")
	}
	st, err := h.log.Stats()
	switch {
	case err != nil:
		h.require(h.faulty, "stats: %v", err)
	case st.Failed != nil && h.oneIn(2):
		h.crash()
	case st.Failed != nil:
		_ = h.close()
		h.heal()
		h.mustOpen()
		h.survived(h.model.Claims(), true)
	case !h.faulty && h.oneIn(4):
		err := h.model.Check(h.t.Context(), h.log)
		h.require(err == nil, "%v", err)
	}
}

// survived compares the log with what was claimed of it before the process was killed,
// or the power lost.
func (h *troubled) survived(claims logtest.Claims, killed bool) {
	check := claims.AfterPowerLoss
	if killed {
		check = claims.AfterKill
	}
	err := check(h.t.Context(), h.log)
	h.require(err == nil, "killed %v: %v", killed, err)
	require.NoError(h.t, h.model.Restart(h.t.Context(), h.log))
}

// left is a disk as a crash may leave it.
func (h *troubled) left() (disk *logtest.Disk, killed bool) {
	if h.oneIn(3) {
		return h.disk.Kill(), true
	}
	n := h.random.IntN(8)
	for state := range h.disk.States(n+1, h.random.Uint64()) {
		if disk = state; n == 0 {
			break
		}
		n--
	}
	return disk, false
}

// crash ends the process, and perhaps once more the ones that open the log then.
func (h *troubled) crash() {
	claims := h.model.Claims()
	disk, killed := h.left()
	h.disk = disk
	h.heal()
	h.say("crash, killed %v", killed)
	for h.oneIn(2) {
		disk, again := h.crashWhileOpening()
		killed = killed && again
		h.disk = disk
		h.heal()
	}
	h.mustOpen()
	h.survived(claims, killed)
}

func (h *troubled) crashWhileOpening() (disk *logtest.Disk, killed bool) {
	operations := 1 + h.random.IntN(25)
	h.disk.OnOp(func(op logtest.Op) {
		if operations--; operations == 0 {
			disk, killed = h.left()
			h.say("crash at %v, killed %v", op, killed)
		}
	})
	defer h.disk.OnOp(nil)
	if h.oneIn(4) {
		h.fail()
	}
	if opened := h.open(); !opened {
		h.require(h.faulty, "the log does not open")
	} else if disk == nil && h.oneIn(2) {
		_ = h.close()
	}
	if disk == nil {
		disk, killed = h.disk.Kill(), true
	}
	return disk, killed
}
