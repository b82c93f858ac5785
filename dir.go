package seglog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seglog/seglog/internal/checkpoint"
	"github.com/seglog/seglog/internal/layout"
	"github.com/seglog/seglog/internal/vfs"
	"github.com/seglog/seglog/segment"
)

// Dir is a log directory: the partitions of many topics under one roof, in the
// layout of a Kafka broker's. Its methods may be called from any goroutine.
//
// A Dir owns its logs: it opens them when they are first asked for, keeps the number
// of open files in bounds, maintains them, and closes them when it is closed.
//
// Lock order: maintenance.turn, topics, partition.mu, a log's own locks, checkpoints,
// mu. The cleaner's turn comes before a log's locks, too; it and the others of before are
// never held by one. Who holds reclaiming waits for no lock of a log, and who waits for
// it holds no segment.
type Dir struct {
	path string
	opts DirOptions // resolved

	mu struct {
		sync.RWMutex
		partitions map[topicPartition]*partition
		sorted     []*partition // of partitions; nil after a change
		others     []PartitionInfo
		closed     bool
		// doubtful: a partition was deleted, and it is not known that this is on disk.
		doubtful bool
	}
	// ending is of Close; err is what it has returned.
	ending struct {
		sync.Once
		err error
	}

	checkpoints checkpoints
	maintenance maintenance
	cleaner     *Cleaner
	topics      topics

	places     *segment.Places
	open       atomic.Int64 // segments whose files are open, of all logs
	reclaiming sync.Mutex   // held by the one who closes idle segments
	hand       int          // where that one goes on, guarded by reclaiming

	lock        io.Closer
	wasClean    bool  // the marker of a clean shutdown was there
	brokerEpoch int64 // that the marker names, -1 if it does not
	findings    []error

	stop       context.CancelCauseFunc
	running    context.Context // ends with Close
	background sync.WaitGroup
	working    sync.WaitGroup // calls that Close waits for; see begin
}

type topicPartition struct {
	topic     string
	partition int32
}

func (tp topicPartition) compare(other topicPartition) int {
	if c := strings.Compare(tp.topic, other.topic); c != 0 {
		return c
	}
	return int(int64(tp.partition) - int64(other.partition))
}

func (tp topicPartition) String() string { return fmt.Sprintf("%s-%d", tp.topic, tp.partition) }

// partition is a live partition of a Dir, opened or not.
type partition struct {
	topicPartition
	dir  *Dir
	path string

	mu   sync.Mutex          // held while the log is opened, closed or deleted
	log  atomic.Pointer[Log] // the last one opened; written under mu
	gone bool                // deleted, or never came to be; guarded by mu

	// setAside is why the log cannot be opened; written under mu.
	setAside atomic.Pointer[setAside]

	// What the checkpoints said when the Dir was opened. Once the log was opened it
	// knows better, and these are no longer looked at.
	given         checkpoint.State
	highWatermark int64 // -1 if there is none
	brokerClosed  bool  // whoever wrote last has closed everything properly; guarded by mu

	lastFlush time.Time // guarded by maintenance
	survey    *survey   // of the log while it is not open; guarded by mu
}

type setAside struct{ err error }

// OpenDir opens a log directory, which is created if need be. It must not be open
// elsewhere, in a Kafka broker or another Dir, nor may any log in it be: ErrLocked;
// see DirOptions.ReadOnly for one that is.
// A broker that is not running leaves a directory that can be opened in place, and
// finds it in order again after Close.
//
// Partitions are listed, and not opened yet; so this takes no longer for large logs.
// If the directory was not closed properly the logs are recovered in the background,
// and when they are asked for. One that cannot be opened is set aside with its error
// and costs no other.
func OpenDir(path string, opts DirOptions) (*Dir, error) {
	d, err := openDir(path, opts)
	if err != nil {
		return nil, fmt.Errorf("open log directory %s: %w", path, named(err))
	}
	return d, nil
}

func openDir(path string, opts DirOptions) (*Dir, error) {
	opts, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	if path, err = vfs.Abs(opts.FS, filepath.Clean(path)); err != nil {
		return nil, err
	}
	d := &Dir{path: path, opts: opts, places: segment.NewPlaces(opts.LookupBytes), brokerEpoch: -1}
	d.mu.partitions = map[topicPartition]*partition{}
	if d.cleaner, err = d.newCleaner(); err != nil {
		return nil, err
	}
	d.running, d.stop = context.WithCancelCause(context.Background())
	if opts.ReadOnly {
		return d, d.startReadOnly()
	}
	if err := makeDirectory(opts.FS, d.path); err != nil {
		return nil, err
	}
	if err := d.checkDirectory(); err != nil {
		return nil, err
	}
	if d.lock, err = opts.FS.Lock(d.file(layout.LockFileName), vfs.Exclusive); err != nil {
		return nil, err
	}
	if err := d.start(); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

// checkDirectory refuses the directory of a partition.
func (d *Dir) checkDirectory() error {
	entries, err := d.opts.FS.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if f, ok := layout.ParseFile(e.Name()); ok && f.Kind == layout.Log && !e.IsDir() {
			return fmt.Errorf("%w: it holds the segment %q, and is that of one partition", ErrNotALog, e.Name())
		}
	}
	return nil
}

// start reads what is there. The marker of a clean shutdown goes off the disk before
// any log is touched: a crash from here on must not find it (KAFKA-10471).
func (d *Dir) start() error {
	if err := d.identify(); err != nil {
		return err
	}
	if err := d.readCleanMarker(); err != nil {
		return err
	}
	if err := removeCleanMarker(d.opts.FS, d.path); err != nil {
		return err
	}
	if err := d.readCheckpoints(); err != nil {
		return err
	}
	if err := d.list(); err != nil {
		return err
	}
	d.startMaintenance()
	d.logger().Info("opened", "clean", d.wasClean, "partitions", len(d.mu.partitions))
	return nil
}

func (d *Dir) readCleanMarker() error {
	epoch, known, err := checkpoint.ReadCleanShutdown(d.opts.FS, d.file(layout.CleanShutdownName))
	switch {
	case err == nil:
		d.wasClean = true
		if known {
			d.brokerEpoch = epoch
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// identify compares meta.properties with what it must say, or writes it. What it says
// matters to nobody else here.
func (d *Dir) identify() error {
	path := d.file(layout.MetaPropertiesName)
	found, err := checkpoint.ReadMetaProperties(d.opts.FS, path)
	want := d.opts.Identity
	switch {
	case want == nil && (err == nil || errors.Is(err, fs.ErrNotExist)):
		return nil
	case want == nil && errors.Is(err, checkpoint.ErrCorrupt):
		d.findings = append(d.findings, err)
		return nil
	case errors.Is(err, fs.ErrNotExist) && d.opts.ReadOnly:
		return fmt.Errorf("%w: there is no meta.properties", ErrIdentity)
	case errors.Is(err, fs.ErrNotExist):
		return checkpoint.WriteMetaProperties(d.opts.FS, path, want.properties(), time.Now().UTC())
	case err != nil:
		return err
	}
	expected := want.properties()
	if expected.DirectoryID.IsZero() {
		expected.DirectoryID = found.DirectoryID
	}
	// Version 0, of brokers of old, need not say either (MetaPropertiesEnsemble.verify).
	if reserved(found.DirectoryID) || found.ClusterID != "" && found.ClusterID != expected.ClusterID ||
		found.NodeID != checkpoint.NoNodeID && found.NodeID != expected.NodeID || found.DirectoryID != expected.DirectoryID {
		return fmt.Errorf("%w: meta.properties says cluster %q, node %d, directory %s", ErrIdentity, found.ClusterID, found.NodeID, found.DirectoryID)
	}
	return nil
}

// reserved reports whether an id is one of the hundred that Kafka gives no directory
// (DirectoryId.reserved). The first of them means that there is none.
func reserved(id checkpoint.UUID) bool {
	last := len(id) - 1
	return !id.IsZero() && id[last] < 100 && checkpoint.UUID(append(make([]byte, last, len(id)), id[last])) == id
}

// list finds the partitions. What is not one is left alone, whatever it is.
func (d *Dir) list() error {
	entries, err := d.opts.FS.ReadDir(d.path)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range entries {
		d.takeLocked(e)
	}
	return nil
}

func (d *Dir) takeLocked(e fs.DirEntry) {
	if !e.IsDir() || layout.ReservedDir(e.Name()) {
		return
	}
	name, err := layout.ParseDir(e.Name())
	info := PartitionInfo{Topic: name.Topic, Partition: name.Partition, Name: e.Name(), Err: err}
	switch {
	case err != nil:
		info.State = PartitionUnknown
	case name.State == layout.Live:
		p := d.newPartition(topicPartition{name.Topic, name.Partition})
		d.checkpoints.tell(p)
		p.brokerClosed = d.wasClean
		d.mu.partitions[p.topicPartition] = p
		return
	case name.State == layout.Deleted:
		info.State = PartitionDeleted
		if !d.opts.ReadOnly {
			d.removeDirLater(0, d.file(e.Name()))
		}
	case name.State == layout.Future:
		info.State = PartitionFuture
	default:
		info.State = PartitionStray
	}
	d.mu.others = append(d.mu.others, info)
}

func (d *Dir) newPartition(tp topicPartition) *partition {
	return &partition{
		topicPartition: tp, dir: d, path: d.file(tp.String()),
		given: checkpoint.State{RecoveryPoint: math.MaxInt64}, highWatermark: -1,
	}
}

// Path is the path of the directory, an absolute one.
func (d *Dir) Path() string { return d.path }

// Partition returns the log of a partition. The first call opens it, and recovers it
// if need be; later ones return the same log. It stays usable when its files were
// closed because it was idle. ErrNoPartition says that there is none.
//
// A partition whose log is damaged is set aside: its error is returned, by this call
// and all others, until the Dir was opened again. Other errors are those of a try,
// and the next call tries again. A log in the failed state is returned as it is; once
// it was closed, which its user may do, the next call opens and recovers it.
func (d *Dir) Partition(topic string, n int32) (*Log, error) {
	p, err := d.partition(topicPartition{topic, n})
	if err == nil {
		var l *Log
		if l, err = p.open(); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("partition %s-%d: %w", topic, n, named(err))
}

func (d *Dir) partition(tp topicPartition) (*partition, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.mu.closed {
		return nil, ErrClosed
	}
	if p := d.mu.partitions[tp]; p != nil {
		return p, nil
	}
	return nil, ErrNoPartition
}

// open returns the log, opened if it is not.
func (p *partition) open() (*Log, error) {
	if l := p.log.Load(); l != nil && !l.closed.Load() {
		return l, nil
	}
	if err := p.dir.begin(); err != nil {
		return nil, err
	}
	defer p.dir.working.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return nil, ErrNoPartition
	}
	return p.openLocked(p.dir.TopicOptions(p.topic))
}

// begin refuses a call after Close, and has Close wait until it calls working.Done.
func (d *Dir) begin() error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.mu.closed {
		return ErrClosed
	}
	d.working.Add(1)
	return nil
}

func (p *partition) openLocked(opts Options) (*Log, error) {
	if l := p.log.Load(); l != nil && !l.closed.Load() {
		return l, nil
	}
	if aside := p.setAside.Load(); aside != nil && isDamage(aside.err) && !opts.ReadOnly {
		return nil, aside.err
	}
	p.survey = nil
	l, err := openOwned(p.path, opts, p)
	p.brokerClosed = false // from now on its own state file tells
	if err != nil {
		p.put(err)
		return nil, err
	}
	if before, known := highWatermark(p); known && opts.Replicated && !opts.ReadOnly {
		l.SetHighWatermark(min(before, l.end.Load())) // as a broker finds it in its checkpoint
	}
	p.setAside.Store(nil)
	p.log.Store(l)
	p.dir.boundOpen(true)
	p.dir.maintenance.flushMayBeDue(l.settings().FlushInterval)
	return l, nil
}

// put sets the partition aside.
func (p *partition) put(cause error) {
	before := p.setAside.Swap(&setAside{cause})
	if before != nil && before.err.Error() == cause.Error() {
		return // told already
	}
	p.dir.logger().Error("partition set aside", "topic", p.topic, "partition", p.partition, "cause", cause)
	if f := p.dir.opts.Events.SetAside; f != nil {
		f(p.topic, p.partition, cause)
	}
}

// isDamage reports whether an open that failed would fail again.
func isDamage(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotALog)
}

// checkAlone looks whether a log that was opened alone, before its directory became
// one of a Dir, has the partition.
func (p *partition) checkAlone() error {
	name := filepath.Join(p.path, layout.LockFileName)
	held, err := vfs.LockHeld(p.dir.opts.FS, name)
	if held {
		return &vfs.LockError{Name: name}
	}
	return err
}

// closeLog is Close of a log by its user. The next Partition opens it again.
func (p *partition) closeLog(l *Log) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.close()
}

// CreateOptions are choices for CreatePartition. nil means none.
type CreateOptions struct {
	// TopicID is written to partition.metadata, if it is not zero. A broker in KRaft
	// mode wants one, the same in all partitions of a topic.
	TopicID [16]byte
}

// CreatePartition makes a new, empty partition and opens it. ErrPartitionExists says
// that there is one. When it returns the partition is on disk.
func (d *Dir) CreatePartition(topic string, n int32, opts *CreateOptions) (*Log, error) {
	l, err := d.create(topicPartition{topic, n}, opts)
	if err != nil {
		return nil, fmt.Errorf("create partition %s-%d: %w", topic, n, named(err))
	}
	return l, nil
}

func (d *Dir) create(tp topicPartition, opts *CreateOptions) (*Log, error) {
	if _, err := (layout.Dir{Topic: tp.topic, Partition: tp.partition}).Name(); err != nil {
		return nil, err
	}
	if d.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	if layout.ReservedDir(tp.String()) {
		return nil, fmt.Errorf("%w: the name is Kafka's own", ErrPartitionExists)
	}
	if err := d.begin(); err != nil {
		return nil, err
	}
	defer d.working.Done()
	p := d.newPartition(tp)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := d.add(p); err != nil {
		return nil, err
	}
	l, err := p.createLocked(opts)
	if err == nil {
		return l, nil
	}
	if _, serr := d.opts.FS.Stat(p.path); errors.Is(serr, fs.ErrNotExist) || errors.Is(err, ErrPartitionExists) {
		p.gone = true
		d.drop(p)
	} else {
		p.put(err) // a part of it is there: Partition may still make it whole
	}
	return nil, err
}

// add makes p known, so that nobody else creates it.
func (d *Dir) add(p *partition) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.partitions[p.topicPartition] != nil {
		return ErrPartitionExists
	}
	d.mu.partitions[p.topicPartition] = p
	d.mu.sorted = nil
	return nil
}

func (d *Dir) drop(p *partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.partitions, p.topicPartition)
	d.mu.sorted = nil
}

func (p *partition) createLocked(opts *CreateOptions) (*Log, error) {
	fsys := p.dir.opts.FS
	if _, err := fsys.Stat(p.path); err == nil {
		return nil, fmt.Errorf("%w: directory %s", ErrPartitionExists, p.path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// What a checkpoint still says of an earlier partition of that name would be
	// taken for this one's, after a crash.
	if err := p.dir.forget(p.topicPartition); err != nil {
		return nil, err
	}
	err := makeDirectory(fsys, p.path)
	if err == nil && opts != nil && opts.TopicID != [16]byte{} {
		m := checkpoint.PartitionMetadata{TopicID: opts.TopicID}
		err = checkpoint.WritePartitionMetadata(fsys, filepath.Join(p.path, layout.PartitionMetadataName), m)
	}
	var l *Log
	if err == nil {
		l, err = openOwned(p.path, p.dir.TopicOptions(p.topic), p)
	}
	if err != nil {
		return nil, errors.Join(err, removeTree(fsys, p.path))
	}
	p.log.Store(l)
	p.dir.boundOpen(true)
	p.dir.maintenance.flushMayBeDue(l.settings().FlushInterval)
	return l, nil
}

// DeletePartition deletes a partition, as Kafka does: its log is closed and its
// directory renamed, and maintenance removes it after the file.delete.delay.ms of the
// directory's default settings. A partition that was set aside can be deleted too.
func (d *Dir) DeletePartition(topic string, n int32) error {
	p, err := d.partition(topicPartition{topic, n})
	if err == nil {
		err = p.delete()
	}
	if err != nil {
		return fmt.Errorf("delete partition %s-%d: %w", topic, n, named(err))
	}
	return nil
}

func (p *partition) delete() error {
	d := p.dir
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := d.begin(); err != nil {
		return err
	}
	defer d.working.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return ErrNoPartition
	}
	if l := p.log.Load(); l != nil {
		l.close() // what it could not write is about to go
	}
	var id [16]byte
	rand.Read(id[:])
	name, err := layout.Dir{Topic: p.topic, Partition: p.partition, State: layout.Deleted, ID: hex.EncodeToString(id[:])}.Name()
	if err != nil {
		return err
	}
	if err := d.opts.FS.Rename(p.path, d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.gone = true
	err = d.opts.FS.SyncDir(d.path)
	d.drop(p)
	d.mu.Lock()
	d.mu.doubtful = d.mu.doubtful || err != nil
	d.mu.others = append(d.mu.others, PartitionInfo{Topic: p.topic, Partition: p.partition, Name: name, State: PartitionDeleted})
	d.mu.Unlock()
	d.removeDirLater(d.opts.Log.FileDeleteDelay, d.file(name))
	// Kafka rewrites the checkpoints now too.
	return errors.Join(err, d.forget(p.topicPartition))
}

// all are the live partitions, by topic and number. The slice is not to be changed.
func (d *Dir) all() []*partition {
	d.mu.RLock()
	sorted := d.mu.sorted
	d.mu.RUnlock()
	if sorted != nil {
		return sorted
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.sorted == nil {
		d.mu.sorted = make([]*partition, 0, len(d.mu.partitions))
		for _, p := range d.mu.partitions {
			d.mu.sorted = append(d.mu.sorted, p)
		}
		slices.SortFunc(d.mu.sorted, func(a, b *partition) int { return a.compare(b.topicPartition) })
	}
	return d.mu.sorted
}

// Close ends maintenance, closes all logs, writes the checkpoints and gives the
// directory free. If everything went well, and every log is known to be sound, it is
// marked as cleanly shut down, and neither a broker nor a Dir looks for damage when it
// opens it. Close again waits for the first one and returns what that has returned.
func (d *Dir) Close() error {
	d.ending.Do(func() { d.ending.err = d.closeOnce() })
	return d.ending.err
}

func (d *Dir) closeOnce() error {
	d.mu.Lock()
	d.mu.closed = true
	d.mu.Unlock()
	d.stop(ErrClosed)
	d.background.Wait()
	d.working.Wait()
	errs := d.closeLogs()
	if d.opts.ReadOnly {
		return d.closed(errs)
	}
	errs = append(errs, d.writeCheckpoints())
	if errors.Join(errs...) == nil && d.isSound() {
		errs = append(errs, checkpoint.WriteCleanShutdown(d.opts.FS, d.file(layout.CleanShutdownName), d.brokerEpoch))
	}
	return d.closed(append(errs, d.lock.Close()))
}

func (d *Dir) closed(errs []error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close log directory %s: %w", d.path, named(err))
	}
	return nil
}

func (d *Dir) closeLogs() []error {
	all := d.all()
	errs := make([]error, len(all))
	inParallel(d.opts.RecoveryThreads, len(all), func(i int) {
		p := all[i]
		p.mu.Lock()
		defer p.mu.Unlock()
		if l := p.log.Load(); l != nil {
			errs[i] = l.close()
		}
	})
	return errs
}

// isSound reports whether every log is closed and in order. One that was not opened is
// if the directory was when the Dir was opened: nobody has touched it since.
func (d *Dir) isSound() bool {
	d.mu.RLock()
	doubtful := d.mu.doubtful
	d.mu.RUnlock()
	if doubtful {
		return false
	}
	for _, p := range d.all() {
		l := p.log.Load()
		if p.setAside.Load() != nil || l == nil && !d.wasClean || l != nil && !l.closedWell() {
			return false
		}
	}
	return true
}

// closedWell reports whether the log was closed and has its mark, and a broker would find
// its producers.
func (l *Log) closedWell() bool {
	l.state.Lock()
	defer l.state.Unlock()
	return l.closed.Load() && l.state.Clean != nil && !l.undescribed
}

// inParallel calls do for 0 to n-1, a few at a time, and returns when all have
// returned.
func inParallel(limit, n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(limit, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// removeTree removes a directory and what is in it.
func removeTree(fsys vfs.FS, path string) error {
	entries, err := fsys.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		inner := filepath.Join(path, e.Name())
		if e.IsDir() {
			err = removeTree(fsys, inner)
		} else {
			err = fsys.Remove(inner)
		}
		if err != nil {
			return err
		}
	}
	if err := fsys.Remove(path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}
