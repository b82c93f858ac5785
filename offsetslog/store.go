package offsetslog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seglog/seglog"
)

// Topic is the name of the topic.
const Topic = "__consumer_offsets"

// Options are the settings of a Store. The zero value is useful: every field left at
// zero means Kafka's default for the broker setting it is named after.
type Options struct {
	// Partitions is offsets.topic.num.partitions: how many a new topic gets. 0 means
	// 50, or for a topic that is there as many as it has; unless that cannot be told,
	// since some are missing. It can never change: a group is found by it.
	Partitions int32
	// Elsewhere: partitions of the topic that are missing are elsewhere, in another
	// directory of the broker or on another broker, and not merely unused. They are not
	// made then, and groups that belong there get ErrNotCoordinator. Partitions must be
	// given.
	Elsewhere bool
	// MembersGone is for OpenReadOnly: groups are shown without the members that were
	// written down, for who knows that the broker which wrote them has stopped. In a
	// Store that may write, RemoveMembers takes them out.
	MembersGone bool
	// TopicID is that of the topic, for partitions that are made. A broker in KRaft
	// mode wants one.
	TopicID [16]byte
	// Sync says what is on disk when a commit returns. The zero value is
	// seglog.SyncAlways. With seglog.SyncNever a power loss may take the last commits;
	// consumers then read again what they had committed.
	Sync seglog.SyncPolicy

	// MaxMetadata is offset.metadata.max.bytes, in UTF-16 code units as in Kafka. 0
	// means 4096.
	MaxMetadata int
	// Retention is offsets.retention.minutes: how long offsets are kept after the
	// group became empty, or, where it has no members ever, after the commit. 0 means
	// 7 days, a negative value for ever.
	Retention time.Duration
	// RetentionCheckInterval is offsets.retention.check.interval.ms: the time between
	// two rounds of Expire. 0 means 10 minutes, a negative value that only the caller
	// calls Expire.
	RetentionCheckInterval time.Duration

	// MinSessionTimeout and MaxSessionTimeout are group.min.session.timeout.ms and
	// group.max.session.timeout.ms. 0 means 6 seconds, and 30 minutes.
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// InitialRebalanceDelay is group.initial.rebalance.delay.ms: how long an empty
	// group waits for more members after the first. 0 means 3 seconds, a negative
	// value not at all.
	InitialRebalanceDelay time.Duration
	// MaxGroupSize is group.max.size. 0 means 2147483647.
	MaxGroupSize int

	// Authorize, if not nil, is asked first about everything that is done to a group,
	// and its error refuses it, as ErrGroupAuthorization. It may be called from several
	// goroutines at a time.
	Authorize func(op Operation, group string) error
	// ExpireFailed, if not nil, is told why a round of Expire on the clock has failed.
	// It is tried again at the next.
	ExpireFailed func(error)
}

// Operation is what somebody wants to do with a group, for Options.Authorize.
type Operation int8

// The operations, as Kafka's ACLs name them.
const (
	Read     Operation = iota // commit, or be a member
	Describe                  // fetch offsets, and look
	Delete                    // remove offsets, or the group
)

// maxPartitions is more than anybody has: each takes memory from the beginning.
const maxPartitions = 100_000

func (o Options) withDefaults() (Options, error) {
	refuse := func(field string, value any, want string) (Options, error) {
		return o, &seglog.OptionError{Field: field, Value: fmt.Sprint(value), Want: want}
	}
	switch {
	case o.Partitions < 0 || o.Partitions > maxPartitions || o.Elsewhere && o.Partitions == 0:
		return refuse("Partitions", o.Partitions, fmt.Sprintf("0 to %d, and above 0 with Elsewhere", maxPartitions))
	case o.Sync < seglog.SyncAlways || o.Sync > seglog.SyncNever:
		return refuse("Sync", o.Sync, "SyncAlways or SyncNever")
	case o.MaxMetadata < 0 || o.MaxMetadata > maxString:
		return refuse("MaxMetadata", o.MaxMetadata, fmt.Sprintf("0 to %d", maxString))
	case o.MaxGroupSize < 0:
		return refuse("MaxGroupSize", o.MaxGroupSize, "0 or above")
	case o.MinSessionTimeout < 0 || o.MinSessionTimeout > maxTimeout:
		return refuse("MinSessionTimeout", o.MinSessionTimeout, fmt.Sprintf("0 to %v", maxTimeout))
	case o.MaxSessionTimeout < 0 || o.MaxSessionTimeout > maxTimeout:
		return refuse("MaxSessionTimeout", o.MaxSessionTimeout, fmt.Sprintf("0 to %v", maxTimeout))
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Retention, 7*24*time.Hour)
	def(&o.RetentionCheckInterval, 10*time.Minute)
	def(&o.MinSessionTimeout, 6*time.Second)
	def(&o.MaxSessionTimeout, 30*time.Minute)
	def(&o.InitialRebalanceDelay, 3*time.Second)
	if o.MinSessionTimeout > o.MaxSessionTimeout {
		return refuse("MinSessionTimeout", o.MinSessionTimeout, fmt.Sprintf("no more than MaxSessionTimeout, %v", o.MaxSessionTimeout))
	}
	if o.MaxMetadata == 0 {
		o.MaxMetadata = 4096
	}
	if o.MaxGroupSize == 0 {
		o.MaxGroupSize = 1<<31 - 1
	}
	return o, nil
}

// Configure returns opts with the settings that the topic has on a broker, unless there
// are some for it already: those of opts.Log, compacted, with segments of 100 MiB
// (offsets.topic.segment.bytes) and no compression. A Dir that is to hold a Store is
// opened with them.
func Configure(opts seglog.DirOptions) seglog.DirOptions {
	if _, ok := opts.Topics[Topic]; ok {
		return opts
	}
	topic := opts.Log
	topic.CleanupPolicy = seglog.CleanupCompact
	topic.SegmentBytes = 100 << 20
	topic.Compression = 0
	topics := make(map[string]seglog.Options, len(opts.Topics)+1)
	for name, o := range opts.Topics {
		topics[name] = o
	}
	topics[Topic] = topic
	opts.Topics = topics
	return opts
}

// Store keeps the offsets of consumer groups in a Dir, and coordinates groups of the
// classic protocol. Its methods may be called from any goroutine.
//
// There must be one Store for a Dir.
type Store struct {
	logs       Logs
	dir        *seglog.Dir // the same; nil if nothing may be changed
	opts       Options
	partitions []*partition

	closed atomic.Bool
	// ending is of Close; err is what it has returned.
	ending struct {
		sync.Once
		err error
	}
	stop context.CancelFunc
	done sync.WaitGroup
}

// Open opens the store of a Dir, which must have been opened with the settings of
// Configure, or others that compact the topic: with retention offsets would be lost.
// The topic is made if there is none. Partitions are loaded when they are first used:
// see Load.
//
// The Dir is not closed by the Store, and must be closed after it.
func Open(dir *seglog.Dir, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open offsets: %w", err)
	}
	s := &Store{logs: dir, dir: dir, opts: opts}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open offsets: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if opts.RetentionCheckInterval > 0 {
		s.done.Add(1)
		go s.expireOnTheClock(ctx)
	}
	return s, nil
}

// defaultPartitions is offsets.topic.num.partitions.
const defaultPartitions = 50

// open finds out how many partitions there are. The last one is made first and at
// once, so that it always tells how many; the others when they are first written to.
func (s *Store) open() error {
	topic := s.dir.TopicOptions(Topic)
	if topic.ReadOnly {
		return fmt.Errorf("%w: see OpenReadOnly", seglog.ErrReadOnly)
	}
	if p := topic.CleanupPolicy; !p.Compacts() || p.Deletes() {
		return &seglog.OptionError{Field: "CleanupPolicy of " + Topic, Value: p.String(), Want: seglog.CleanupCompact.String()}
	}
	exists := map[int32]bool{}
	last := int32(-1)
	for _, p := range s.dir.Partitions() {
		if p.Topic == Topic {
			exists[p.Partition] = true
			last = max(last, p.Partition)
		}
	}
	n, err := s.opts.count(int32(len(exists)), last)
	if err != nil {
		return err
	}
	if !exists[n-1] && !s.opts.Elsewhere {
		if _, err := s.dir.CreatePartition(Topic, n-1, &seglog.CreateOptions{TopicID: s.opts.TopicID}); err != nil {
			return err
		}
	}
	for i := range n {
		s.partitions = append(s.partitions, newPartition(s, i, exists[i]))
	}
	return nil
}

// count is how many partitions the topic has of which there are so many, the last of
// them as given. A directory of a broker need not have the last one of all, and then
// every group would be looked for in the wrong place; so nothing is guessed from a few
// but what is the default. (What is loaded is checked as well: see MisplacedError.)
func (o Options) count(are, last int32) (int32, error) {
	n := last + 1
	unfit := func(want string) (int32, error) {
		return 0, &seglog.OptionError{Field: "Partitions", Value: fmt.Sprint(o.Partitions), Want: want}
	}
	switch {
	case last >= maxPartitions:
		return unfit(fmt.Sprintf("at most %d: there is %s-%d", maxPartitions, Topic, last))
	case o.Partitions > 0 && n > o.Partitions:
		return unfit(fmt.Sprintf("%d or above: there is %s-%d", n, Topic, last))
	case o.Partitions > 0 && n > 0 && n < o.Partitions && !o.Elsewhere:
		return unfit(fmt.Sprintf("%d, as many as there are, or Elsewhere", n))
	case o.Partitions > 0:
		return o.Partitions, nil
	case n == 0:
		return defaultPartitions, nil
	case are < n && n != defaultPartitions:
		return unfit(fmt.Sprintf("how many there are: the last one here is %s-%d, and some are missing", Topic, last))
	default:
		return n, nil
	}
}

// Logs is where a Store finds logs: those of its own topic, and those that offsets are
// about. Of a partition that there is not it returns seglog.ErrNoPartition. A
// *seglog.Dir is one.
type Logs interface {
	Partition(topic string, n int32) (*seglog.Log, error)
}

// OpenReadOnly opens a store that shows what is in logs, and changes nothing: for a look
// beside a running broker, or another process, at logs that were opened with
// seglog.Options.ReadOnly. What would change something is refused with an error that
// matches ErrNotCoordinator and seglog.ErrReadOnly. Members are shown as they were
// written down, whether they are there or not, unless Options.MembersGone says that they
// are not.
//
// Each partition is as it was when it was loaded. There are as many as are told, since
// some may be elsewhere. The logs are not closed by the Store.
func OpenReadOnly(logs Logs, partitions int32, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err == nil && (partitions < 1 || partitions > maxPartitions) {
		err = &seglog.OptionError{Field: "partitions", Value: fmt.Sprint(partitions), Want: fmt.Sprintf("1 to %d", maxPartitions)}
	}
	if err != nil {
		return nil, fmt.Errorf("open offsets: %w", err)
	}
	s := &Store{logs: logs, opts: opts, stop: func() {}}
	for i := range partitions {
		s.partitions = append(s.partitions, newPartition(s, i, true))
	}
	return s, nil
}

var errReadOnly = fmt.Errorf("%w: %w", ErrNotCoordinator, seglog.ErrReadOnly)

// Close ends what the Store does on its own. Who waits in JoinGroup or SyncGroup gets
// ErrNotAvailable, and so do later calls. Nothing needs to be written for a quick start,
// but what Options.Sync has left unsynced is synced. Close again waits for the first one
// and returns what that has returned.
func (s *Store) Close() error {
	s.ending.Do(func() { s.ending.err = s.closeOnce() })
	return s.ending.err
}

func (s *Store) closeOnce() error {
	s.closed.Store(true)
	s.stop()
	s.done.Wait()
	var errs []error
	for _, p := range s.partitions {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// Partitions is how many partitions the topic has.
func (s *Store) Partitions() int32 { return int32(len(s.partitions)) }

// Load loads all partitions. There is no need to: each is loaded when it is first used,
// by the call that does so, while others get ErrLoading meanwhile. The cost is that of
// reading all of the log, and memory for what is live in it. It goes on when one fails,
// and ends with ctx; the errors are joined.
func (s *Store) Load(ctx context.Context) error {
	var errs []error
	for _, p := range s.partitions {
		if err := p.ready(ctx, true); err != nil && !errors.Is(err, errElsewhere) {
			errs = append(errs, fmt.Errorf("%s-%d: %w", Topic, p.n, err))
			if ctx.Err() != nil {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// Stats are figures of a Store at one moment, about the partitions that were loaded.
type Stats struct {
	Loaded int // partitions
	Groups int
	// Offsets counts the committed ones, Pending those of open transactions.
	Offsets, Pending int
	// Skipped counts the records of kinds that are not interpreted that were loaded.
	Skipped map[KeyType]int64
	// Undecodable counts the records that could not be decoded, and Damaged the
	// stretches of the log that could not be read; both were passed over.
	// Problems are the first few of them.
	Undecodable, Damaged int
	Problems             []error
}

// Stats returns figures of the store.
func (s *Store) Stats() Stats {
	st := Stats{Skipped: map[KeyType]int64{}}
	for _, p := range s.partitions {
		p.addTo(&st)
	}
	return st
}

// group checks what has to be checked of every request, and returns the partition of
// the group, loaded.
func (s *Store) group(ctx context.Context, op Operation, group string) (*partition, error) {
	if len(group) > maxString {
		return nil, ErrInvalidGroupID
	}
	if s.dir == nil && op != Describe {
		return nil, errReadOnly
	}
	if s.opts.Authorize != nil {
		if err := s.opts.Authorize(op, group); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrGroupAuthorization, err)
		}
	}
	p := s.partitions[PartitionFor(group, int32(len(s.partitions)))]
	if err := p.ready(ctx, false); err != nil {
		return nil, err
	}
	return p, nil
}
