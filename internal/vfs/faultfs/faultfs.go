// Package faultfs makes a file system fail where a test wants it to.
//
// It wraps any vfs.FS and passes every call through, unless a rule says
// otherwise. A rule is a match, which calls it is about, and what becomes of
// them:
//
//	disk := faultfs.New(inner)
//	disk.Fail(faultfs.Op(faultfs.Sync).Name("*.index").Nth(3), syscall.EIO)
//	disk.Shorten(faultfs.Op(faultfs.Read), 7)
//
// To have every call of a workload fail once, in every way it can, record the
// calls of a good run and go through them:
//
//	calls := faultfs.Record(newDisk(), workload)
//	for fault := range faultfs.Faults(calls) {
//		t.Run(fault.String(), func(t *testing.T) {
//			disk := faultfs.New(newDisk())
//			fault.Arm(disk)
//			workload(disk)
//			disk.Clear()
//			requireNothingLost(t, disk)
//		})
//	}
//
// That needs a workload that makes the same calls in the same order each time,
// until something fails.
//
// It also counts what is open and mapped, so that a test can see what a failure
// leaves behind.
package faultfs

import (
	"slices"
	"sync"

	"github.com/seglog/seglog/internal/vfs"
)

// FS is a file system that fails by rules. It is safe for concurrent use if the
// one it wraps is.
type FS struct {
	inner vfs.FS

	mu struct {
		sync.Mutex
		rules  []*rule
		calls  int
		fired  int
		record bool
		trace  []Call
		open   int
		mapped int
		locked int
	}
}

var _ vfs.FS = (*FS)(nil)

// New wraps inner. Without rules it changes nothing.
func New(inner vfs.FS) *FS { return &FS{inner: inner} }

// Fail has the matching calls fail with err, without being carried out. Close,
// Unmap and Unlock are carried out all the same, as they are by a kernel that
// reports an error.
//
// The error is wrapped as package os wraps it: errors.Is(got, err) holds.
func (f *FS) Fail(m Match, err error) *FS {
	return f.add(m, func(Call) outcome { return outcome{err: err} })
}

// FailAfter has the matching reads and writes fail with err after n bytes were
// transferred. If n is all there is, they are done, and fail. Other calls fail
// as with Fail.
func (f *FS) FailAfter(m Match, n int, err error) *FS {
	return f.add(m, func(Call) outcome { return outcome{limited: true, limit: n, err: err} })
}

// Shorten has the matching reads and writes transfer at most n bytes, without an
// error. io.ReaderAt and io.WriterAt forbid that; network file systems and old
// kernels do it.
func (f *FS) Shorten(m Match, n int) *FS {
	return f.add(m, func(c Call) outcome {
		if !c.Kind.transfers() || c.Size <= int64(n) {
			return outcome{}
		}
		return outcome{limited: true, limit: n}
	})
}

// FailAndForget has the matching syncs and flushes fail with err, and whatever
// they would have made durable dropped for good: reads go on to see it, later
// syncs succeed, and a power loss shows that it is gone. That is what kernels do
// with dirty pages they could not write. Over a file system that cannot forget
// (crashfs can) and for other calls it is Fail.
func (f *FS) FailAndForget(m Match, err error) *FS {
	return f.add(m, func(Call) outcome { return outcome{err: err, forget: true} })
}

// Do runs call before the matching calls. If it returns an error, they fail with
// that. It may wait, and so hold up the caller at a certain point; it may use f
// too.
func (f *FS) Do(m Match, call func(Call) error) *FS {
	return f.add(m, func(c Call) outcome { return outcome{before: call} })
}

// Clear removes all rules.
func (f *FS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = nil
}

// Calls returns how many there have been, of all kinds.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.calls
}

// Fired returns how many calls a rule had an effect on.
func (f *FS) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.fired
}

// Open returns how many files are open.
func (f *FS) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.open
}

// Mapped returns how many mappings there are, without empty ones.
func (f *FS) Mapped() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.mapped
}

// Locked returns how many locks are held.
func (f *FS) Locked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.locked
}

// rule is a match, how often it matched, and what it does.
type rule struct {
	match   Match
	matched int
	effect  func(Call) outcome
}

func (f *FS) add(m Match, effect func(Call) outcome) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = append(f.mu.rules, &rule{match: m, effect: effect})
	return f
}

// outcome is what becomes of a call. The zero value is: nothing special.
type outcome struct {
	err     error
	limited bool // read or write only limit bytes, before err
	limit   int
	forget  bool
	before  func(Call) error
}

func (o outcome) isNothing() bool { return o.err == nil && !o.limited && o.before == nil }

// call numbers a call and asks the rules, oldest first. The first with an effect
// decides; all of them count.
func (f *FS) call(c Call) outcome {
	c, o := f.judge(c)
	if o.before != nil {
		o.err = o.before(c)
	}
	return o
}

func (f *FS) judge(c Call) (Call, outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.calls++
	c.N = f.mu.calls
	if f.mu.record {
		f.mu.trace = append(f.mu.trace, c)
	}
	var decided outcome
	for _, r := range f.mu.rules {
		if !r.match.about(c) {
			continue
		}
		r.matched++
		if r.match.selects(r.matched) && decided.isNothing() {
			decided = r.effect(c)
		}
	}
	if !decided.isNothing() {
		f.mu.fired++
	}
	return c, decided
}

// count adds to one of the counters in f.mu.
func (f *FS) count(counter *int, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*counter += n
}

// Record returns the calls a workload makes.
func Record(inner vfs.FS, workload func(*FS)) []Call {
	f := New(inner)
	f.mu.record = true
	workload(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.trace)
}
