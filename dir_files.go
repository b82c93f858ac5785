package seglog

// boundOpen closes segments of logs that were not used for longest, if too many are
// open, and reports whether there are far too many. It passes by if another is at it,
// unless wait is set and there are far too many; then no segment is acquired, and no
// lock of a log held.
//
// What was used is known by a bit for each segment that reading sets and boundOpen
// clears, as a clock's hand does in a page cache: reading takes no lock for it.
func (d *Dir) boundOpen(wait bool) (tooMany bool) {
	limit := int64(d.opts.MaxOpenSegments)
	open := d.open.Load()
	if open <= limit {
		return false
	}
	if open > limit+limit/8 && wait {
		d.reclaiming.Lock()
	} else if !d.reclaiming.TryLock() {
		return open > limit+limit/8
	}
	defer d.reclaiming.Unlock()
	d.reclaimLocked(limit - limit/8)
	return d.open.Load() > limit+limit/8
}

// reclaimLocked closes until no more than target are open. The first round over the
// logs closes what was not used since the last time, the second what is not in use, the
// third syncs what is not synced to close that.
func (d *Dir) reclaimLocked(target int64) {
	all := d.all()
	for round := range 3 {
		for range all {
			if d.open.Load() <= target {
				return
			}
			d.hand = (d.hand + 1) % len(all)
			if l := all[d.hand].log.Load(); l != nil && l.opened.Load() > 0 {
				l.park(round == 2)
			}
		}
	}
}
