package work

import "fmt"

// Work is a workload.
type Work struct {
	ID    string
	Title string
	// Log is the log that it is done on, by name: a store has it from the workload that
	// Makes it to the last one that names it. "" is an empty directory of its own.
	Log   string
	Makes bool
	// Params are those of a run at full scale.
	Params
	// Segments: only for stores that have segments.
	Segments bool
	// Growth: part of the runs that need much disk and time.
	Growth bool

	run func(*task) error
}

const (
	smallValue = 128
	largeValue = 1 << 10
	// segmented is the size of segments in logs that are cut in half: there have to be
	// some.
	segmented = 64 << 20
)

// Works are all workloads, in the order in which a store goes through them.
func Works() []Work {
	var all []Work
	add := func(log string, p Params, run func(*task) error, id, title string) {
		all = append(all, Work{ID: id, Title: title, Log: log, Makes: log != "" && (id == "fill-"+log), Params: p, run: run})
	}
	for _, size := range []struct {
		suffix, words string
		value         int
	}{{"", "", smallValue}, {"-1k", " of 1 KiB", largeValue}} {
		for _, batch := range []int{1, 100} {
			add("", Params{Batch: batch, Value: size.value, Goroutines: 1}, appends,
				fmt.Sprintf("append-%d%s", batch, size.suffix), fmt.Sprintf("append %d%s, no sync", batch, size.words))
		}
	}
	for _, n := range []int{1, 16} {
		add("", Params{Batch: 1, Value: smallValue, Goroutines: n, Sync: true}, appends,
			fmt.Sprintf("sync-%d", n), fmt.Sprintf("append 1 and sync, %d at once", n))
	}
	add("", Params{Batch: 1, Value: smallValue}, latency, "latency", "latency of append 1, no sync")
	add("", Params{Batch: 1, Value: smallValue, Records: 500_000, Keys: 100_000}, latencyBesideCleaner,
		"latency-cleaner", "latency of append 1 while a cleaner runs")
	add("", Params{Batch: 1, Value: smallValue}, follow, "follow", "follow: append to delivery")

	for _, log := range []struct {
		batch   int
		records int64
	}{{1, 500_000}, {100, 2_000_000}} {
		name := fmt.Sprint(log.batch)
		p := Params{Batch: log.batch, Value: smallValue, Records: log.records, SegmentBytes: segmented}
		words := fmt.Sprintf(", log of batches of %d", log.batch)
		add(name, p, fill, "fill-"+name, "make the log"+words)
		for _, n := range []int{1, 2} {
			q := p
			q.Goroutines = n
			add(name, q, gets, fmt.Sprintf("get-%s-%d", name, n), fmt.Sprintf("get by offset, %d at once%s", n, words))
		}
		add(name, p, times, "time-"+name, "look-up by time"+words)
		add(name, p, scan, "scan-"+name, "scan"+words)
		if log.batch == 100 {
			add(name, p, openClean, "open-clean", "open after a clean close")
			add(name, p, drop, "drop", "drop the first half")
		}
	}
	add("", Params{Batch: 100, Value: smallValue, TailBytes: 64 << 20}, openKilled, "open-killed", "open after SIGKILL, 64 MiB tail")

	for _, k := range []struct {
		name string
		keys int64
	}{{"100k", 100_000}, {"2m", 2_000_000}} {
		p := Params{Batch: 100, Value: smallValue, Records: 2_000_000, Keys: k.keys}
		words := ", 2 M records over " + k.name + " keys"
		add("keys-"+k.name, p, fillKeys, "fill-keys-"+k.name, "put"+words)
		add("keys-"+k.name, p, compact, "compact-"+k.name, "compact"+words)
	}
	for _, n := range []int{1, 16} {
		add("", Params{Goroutines: n}, commits, fmt.Sprintf("commit-%d", n), fmt.Sprintf("commit offsets, %d at once", n))
	}
	return append(all, growth()...)
}

// growth are the same look-ups, scan and open on logs of other sizes, and with other
// numbers of segments.
func growth() []Work {
	var all []Work
	const bytesPerRecord = 154
	add := func(name, words string, bytes, segmentBytes int64, segments bool) {
		p := Params{Batch: 100, Value: smallValue, Records: bytes / bytesPerRecord, SegmentBytes: segmentBytes, Exactly: true, Goroutines: 1}
		for _, w := range []Work{
			{ID: "fill-" + name, Title: "make the log, " + words, Makes: true, run: fill},
			{ID: "get-" + name, Title: "get by offset, " + words, run: gets},
			{ID: "scan-" + name, Title: "scan, " + words, run: scan},
			{ID: "open-" + name, Title: "open after a clean close, " + words, run: openClean},
		} {
			w.Log, w.Params, w.Segments, w.Growth = name, p, segments, true
			all = append(all, w)
		}
	}
	for _, gib := range []int64{1, 4, 16} {
		add(fmt.Sprintf("%dgib", gib), fmt.Sprintf("%d GiB", gib), gib<<30, 0, false)
	}
	for _, n := range []int64{10, 100, 5000} {
		add(fmt.Sprintf("%dsegments", n), fmt.Sprintf("1 GiB in %d segments", n), 1<<30, 1<<30/n, true)
	}
	return all
}

func workOf(id string) (Work, error) {
	if id == KilledWriter {
		return Work{ID: id, run: killedWriter}, nil
	}
	for _, w := range Works() {
		if w.ID == id {
			return w, nil
		}
	}
	return Work{}, fmt.Errorf("no workload %q", id)
}

// Scaled are the parameters of a run at a part of full scale.
func (p Params) Scaled(scale float64) Params {
	times := func(n, unit int64) int64 {
		if n == 0 {
			return 0
		}
		return max(ring, int64(float64(n)*scale)/unit*unit)
	}
	p.Records, p.Keys = times(p.Records, ring), times(p.Keys, 1)
	p.TailBytes = times(p.TailBytes, 1)
	if scale < 1 && p.SegmentBytes > 0 {
		p.SegmentBytes = max(64<<10, int64(float64(p.SegmentBytes)*scale))
	}
	return p
}
