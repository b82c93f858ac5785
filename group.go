package seglog

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// syncers are those who wait until their records are on disk. One of them leads: it
// syncs for all that were appended by then, while the others sleep, to be woken all at
// once. Who is not served by then is the next to lead, so nobody waits for a timer, and
// a lone writer for nobody.
type syncers struct {
	sync.Mutex
	served  sync.Cond // of the mutex
	leading bool
	waiting int // for the one who leads
	company int // how many others waited for the last sync
}

// lead returns true once the caller is the one to sync, and has to call follow then; or
// false once it needs not be. company is how many may be about to append again.
func (s *syncers) lead(durable *atomic.Int64, offset int64) (company int, lead bool) {
	s.Lock()
	defer s.Unlock()
	s.served.L = s
	for s.leading {
		s.waiting++
		s.served.Wait()
		s.waiting--
		if durable.Load() >= offset {
			return 0, false
		}
	}
	s.leading = true
	return s.company, true
}

// follow ends what lead began.
func (s *syncers) follow() {
	s.Lock()
	defer s.Unlock()
	s.leading, s.company = false, s.waiting
	s.served.Broadcast()
}

// gather lets those append first who were served by the last sync, and are about to
// run: without it every other sync would be for the one record of who runs first.
// It is not waiting for them, only being the last in the queue for a processor.
func (l *Log) gather(company int) {
	end, idle := l.end.Load(), 0
	for ; company > 0 && idle < 3; company-- {
		runtime.Gosched()
		if now := l.end.Load(); now == end {
			idle++
		} else {
			end, idle = now, 0
		}
	}
}
