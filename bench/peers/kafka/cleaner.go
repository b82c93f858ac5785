package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/seglog/seglog"
)

// cleanSegment is segment.bytes of the logs that are cleaned.
const cleanSegment = 64 << 20

var compacted = seglog.Options{Sync: seglog.SyncNever, SegmentBytes: cleanSegment, CleanupPolicy: seglog.CleanupCompact}

// CleanerOptions are those of RunCleaner.
type CleanerOptions struct {
	// Dir is where the log and its copies are.
	Dir string
	// Records of 100 bytes are over Keys; each key comes once if there are as many.
	Records, Keys int
	// Rounds are timed, behind one that is not.
	Rounds int
}

// CleanerReport is what came of RunCleaner. Rates are records per second of what there
// was to clean.
type CleanerReport struct {
	Keys    int   `json:"keys"`
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
	// Seglog and Kafka are the timed rounds, in their order.
	Seglog []float64 `json:"seglog_records_per_second"`
	Kafka  []float64 `json:"kafka_records_per_second"`
	// Cold is the first round of either. In Kafka's the JVM has compiled nothing yet.
	SeglogCold float64 `json:"seglog_cold_records_per_second"`
	KafkaCold  float64 `json:"kafka_cold_records_per_second"`
	// Survivors is what both have left, by both readers, of the last round.
	Survivors Survivors `json:"survivors"`
	// KafkaPeakRSS is that of the JVM.
	KafkaPeakRSS int64 `json:"kafka_peak_rss_bytes"`
}

// Ratio is how much faster seglog was, by the medians.
func (r CleanerReport) Ratio() float64 { return Median(r.Seglog) / Median(r.Kafka) }

// Survivors counts the records of a log and hashes, with SHA-256, each one's offset (8
// bytes), sizes of key and value (4 each), key and value.
type Survivors struct {
	Records int64  `json:"records"`
	Hash    string `json:"hash"`
}

// RunCleaner cleans copies of one log with seglog and with Kafka's cleaner by turns and
// compares what is left. Either is timed alone: logs are opened before, and what was
// copied has been synced. Both sync what they write.
//
// It fails if the two leave different records, or if one reader finds other records
// than the other.
func (c *Classes) RunCleaner(ctx context.Context, o CleanerOptions) (report CleanerReport, err error) {
	parent, err := os.MkdirTemp(o.Dir, "clean-")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(parent)
	source := filepath.Join(parent, "source")
	if err := makeDirty(source, o); err != nil {
		return report, err
	}
	d, err := c.Start(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()

	report.Keys = o.Keys
	ours, theirs := filepath.Join(parent, "seglog-0"), filepath.Join(parent, "kafka-0")
	for round := range o.Rounds + 1 {
		fast, slow, err := report.round(ctx, d, source, ours, theirs, round%2 == 0)
		if err != nil {
			return report, err
		}
		if round == 0 {
			report.SeglogCold, report.KafkaCold = fast, slow
			continue
		}
		report.Seglog, report.Kafka = append(report.Seglog, fast), append(report.Kafka, slow)
	}
	report.Survivors, err = sameSurvivors(ctx, d, ours, theirs)
	return report, err
}

// round has each clean a copy, seglog first if the flag says so, and returns the rates.
func (r *CleanerReport) round(ctx context.Context, d *Driver, source, ours, theirs string, first bool) (seglogs, kafkas float64, err error) {
	clean := []func() error{
		func() error {
			seglogs, err = r.cleanOurs(ctx, source, ours)
			return err
		},
		func() error {
			kafkas, err = r.cleanTheirs(d, source, theirs)
			return err
		},
	}
	if !first {
		clean[0], clean[1] = clean[1], clean[0]
	}
	return seglogs, kafkas, errors.Join(clean[0](), clean[1]())
}

func (r *CleanerReport) cleanOurs(ctx context.Context, source, dir string) (float64, error) {
	if err := copyLog(source, dir); err != nil {
		return 0, err
	}
	l, err := seglog.Open(dir, compacted)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	runtime.GC()
	began := time.Now()
	res, err := l.Compact(ctx, nil)
	took := time.Since(began)
	if err != nil || res.Passes != 1 {
		return 0, fmt.Errorf("compact: %d passes: %w", res.Passes, err)
	}
	r.Records, r.Bytes = res.Read.Records, res.Read.Bytes
	return float64(res.Read.Records) / took.Seconds(), l.Close()
}

func (r *CleanerReport) cleanTheirs(d *Driver, source, dir string) (float64, error) {
	if err := copyLog(source, dir); err != nil {
		return 0, err
	}
	res, err := d.Do(Request{Op: "clean", Dir: dir, SegmentBytes: cleanSegment})
	r.KafkaPeakRSS = max(r.KafkaPeakRSS, res.PeakRSSBytes)
	return res.RecordsPerSecond, err
}

// sameSurvivors has both read both.
func sameSurvivors(ctx context.Context, d *Driver, ours, theirs string) (Survivors, error) {
	var all [4]Survivors
	for i, dir := range []string{ours, theirs} {
		var err error
		if all[2*i], err = survivors(ctx, dir); err != nil {
			return Survivors{}, err
		}
		res, err := d.Do(Request{Op: "survivors", Dir: dir, SegmentBytes: cleanSegment})
		if err != nil {
			return Survivors{}, err
		}
		all[2*i+1] = Survivors{res.Records, res.Hash}
	}
	for _, s := range all {
		if s != all[0] {
			return s, fmt.Errorf("different records survive: %v (cleaned by seglog: read by seglog, by Kafka; cleaned by Kafka: the same)", all)
		}
	}
	return all[0], nil
}

func survivors(ctx context.Context, dir string) (Survivors, error) {
	l, err := seglog.Open(dir, seglog.Options{ReadOnly: true})
	if err != nil {
		return Survivors{}, err
	}
	defer l.Close()
	var s Survivors
	h := sha256.New()
	var header []byte
	for r, err := range l.Records(ctx, l.Offsets().Start, nil) {
		if err != nil {
			return Survivors{}, err
		}
		header = binary.BigEndian.AppendUint64(header[:0], uint64(r.Offset))
		header = binary.BigEndian.AppendUint32(header, uint32(len(r.Key)))
		header = binary.BigEndian.AppendUint32(header, uint32(len(r.Value)))
		h.Write(header)
		h.Write(r.Key)
		h.Write(r.Value)
		s.Records++
	}
	s.Hash = hex.EncodeToString(h.Sum(nil))
	return s, nil
}

// makeDirty makes the log of BenchmarkCompact in the bench package: records of 100
// bytes in batches of 100, and an active segment without any.
func makeDirty(dir string, o CleanerOptions) error {
	l, err := seglog.Open(dir, compacted)
	if err != nil {
		return err
	}
	defer l.Close()
	random := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 100)
	for i := range value {
		value[i] = byte('a' + random.IntN(26))
	}
	list := make([]seglog.Record, 100)
	for first := 0; first < o.Records; first += len(list) {
		for i := range list {
			key := random.IntN(o.Keys)
			if o.Keys == o.Records { // each once
				key = first + i
			}
			list[i] = seglog.Record{Timestamp: int64(first + i + 1), Key: fmt.Appendf(nil, "key-%08d", key), Value: value}
		}
		if _, err := l.Append(list, nil); err != nil {
			return err
		}
	}
	if _, err := l.Roll(); err != nil {
		return err
	}
	return l.Close()
}

// copyLog makes a fresh copy that is on the disk, so that nobody's work competes with
// its being written.
func copyLog(source, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := syncFile(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
