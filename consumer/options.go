package consumer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// Coordinator is what a consumer needs of whoever coordinates groups and keeps their
// offsets. An *offsetslog.Store is one; its methods of these names say what they do.
type Coordinator interface {
	Commit(context.Context, offsetslog.CommitRequest) error
	Fetch(context.Context, offsetslog.FetchRequest) ([]offsetslog.Fetched, error)
	JoinGroup(context.Context, offsetslog.JoinRequest) (offsetslog.JoinResult, error)
	SyncGroup(context.Context, offsetslog.SyncRequest) ([]byte, error)
	Heartbeat(ctx context.Context, group string, m offsetslog.Member) error
	LeaveGroup(ctx context.Context, group string, m offsetslog.Member) error
}

// OffsetReset says where to begin when nothing is committed, and where to go on when the
// log does not hold the position. Kafka: auto.offset.reset.
type OffsetReset int8

const (
	// Latest goes to the end of the log: what was written before is not read.
	Latest OffsetReset = iota
	// Earliest goes to the start of the log.
	Earliest
	// None makes it an error.
	None
)

// ParseOffsetReset returns the OffsetReset that Kafka has under a name: "latest",
// "earliest" or "none", in any case. All else is a *seglog.OptionError.
func ParseOffsetReset(s string) (OffsetReset, error) {
	for r := Latest; r <= None; r++ {
		if strings.EqualFold(s, r.String()) {
			return r, nil
		}
	}
	return 0, &seglog.OptionError{Field: "auto.offset.reset", Value: s, Want: "latest, earliest or none"}
}

// String returns the value of Kafka's setting.
func (r OffsetReset) String() string {
	switch r {
	case Latest:
		return "latest"
	case Earliest:
		return "earliest"
	case None:
		return "none"
	default:
		return fmt.Sprintf("OffsetReset(%d)", int8(r))
	}
}

// Assignor is a way to assign partitions, under the name that members of a group agree on.
type Assignor struct {
	Name   string
	Assign offsetslog.Assignor
}

// Listener is told when partitions come and go. Its functions may be nil. They are called
// within Poll, or Close, by their caller; they may use the consumer, but for Poll,
// Records, Subscribe, Assign, Unsubscribe and Close. A member that takes longer than
// Options.MaxPollInterval is out of its group. (ConsumerRebalanceListener)
type Listener struct {
	// Assigned: the partitions are the consumer's from now on. A Seek in here decides
	// where it begins; else it is what is committed.
	Assigned func([]offsetslog.TopicPartition)
	// Revoked: the partitions go to another when this returns. It is the last chance to
	// commit what has been done.
	Revoked func([]offsetslog.TopicPartition)
	// Lost: the partitions may be another's already. Commits are refused.
	Lost func([]offsetslog.TopicPartition)
}

// Events are functions a consumer calls when something happens that its operator may
// want to know. Any may be nil. They must not use the consumer.
type Events struct {
	// Reset: the position of a partition was set by OffsetReset, or, after a truncation,
	// to where the log was cut. from is -1 if there was none. Records between the two are
	// read again, or never.
	Reset func(tp offsetslog.TopicPartition, from, to int64, cause error)
	// CommitFailed: a commit on the clock, or when partitions were revoked, has failed.
	CommitFailed func(error)
}

// Options are the settings of a Consumer. The zero value is useful for a consumer without
// a group: every field left at zero means the default of the setting of Kafka's consumer
// that it is named after.
type Options struct {
	// Group is group.id, and Coordinator where its offsets are kept; both or none. A
	// consumer without a group cannot Subscribe, and commits nothing.
	Group       string
	Coordinator Coordinator
	// InstanceID is group.instance.id: a static member keeps its partitions when it comes
	// back within the session timeout, and does not leave the group when it is closed.
	InstanceID string
	// ClientID is client.id, for operators. "" means "consumer".
	ClientID string

	// OffsetReset is auto.offset.reset. The zero value is Latest, as in Kafka: a group that
	// is to read what is there says Earliest.
	OffsetReset OffsetReset
	// Isolation is isolation.level.
	Isolation seglog.Isolation

	// ManualCommit is enable.auto.commit=false. Otherwise everything that Poll has
	// returned counts as done at the next Poll, and at Close.
	ManualCommit bool
	// AutoCommitInterval is auto.commit.interval.ms. 0 means 5 seconds.
	AutoCommitInterval time.Duration
	// MaxInFlight, if above 0, has each partition track the records that it has delivered
	// and that are not finished, in a SafePosition: only what Batch.Complete, or
	// Record.Complete, has been called for is committed, in whatever order. Poll delivers
	// no more from a partition than it has room for.
	MaxInFlight int

	// MaxPollRecords is max.poll.records. 0 means 500.
	MaxPollRecords int
	// MaxPartitionBytes is max.partition.fetch.bytes: Poll takes no further record of a
	// partition when it has so many bytes of it. 0 means 1048576.
	MaxPartitionBytes int
	// MaxPollInterval is max.poll.interval.ms: a member that does not call Poll for so
	// long leaves its group, and has so long to join again in a rebalance. 0 means 5
	// minutes.
	MaxPollInterval time.Duration
	// SessionTimeout and HeartbeatInterval are session.timeout.ms and
	// heartbeat.interval.ms. 0 means 45 and 3 seconds.
	SessionTimeout, HeartbeatInterval time.Duration
	// RetryBackoff is retry.backoff.ms. 0 means 100 milliseconds.
	RetryBackoff time.Duration
	// APITimeout is default.api.timeout.ms: how long a commit is retried when its context
	// has no deadline. 0 means a minute.
	APITimeout time.Duration
	// TopicRefresh is metadata.max.age.ms: how often the leader of a group looks for new
	// partitions. 0 means 5 minutes.
	TopicRefresh time.Duration
	// Assignors is partition.assignment.strategy, the best first. nil means range and
	// round-robin.
	Assignors []Assignor

	Listener Listener
	Events   Events
}

func (o Options) complete() (Options, error) {
	refuse := func(field string, value any, want string) (Options, error) {
		return o, &seglog.OptionError{Field: field, Value: fmt.Sprint(value), Want: want}
	}
	switch {
	case (o.Group == "") != (o.Coordinator == nil):
		return refuse("Group", o.Group, "a group and a Coordinator, or neither")
	case o.Group == "" && o.InstanceID != "":
		return refuse("InstanceID", o.InstanceID, "a group")
	case o.OffsetReset < Latest || o.OffsetReset > None:
		return refuse("OffsetReset", o.OffsetReset, "Latest, Earliest or None")
	case o.Isolation != seglog.ReadUncommitted && o.Isolation != seglog.ReadCommitted:
		return refuse("Isolation", o.Isolation, "ReadUncommitted or ReadCommitted")
	case o.MaxPollRecords < 0 || o.MaxPartitionBytes < 0 || o.MaxInFlight < 0:
		return refuse("MaxPollRecords, MaxPartitionBytes, MaxInFlight", min(o.MaxPollRecords, o.MaxPartitionBytes, o.MaxInFlight), "0 or above")
	}
	for _, d := range []struct {
		field *time.Duration
		name  string
		value time.Duration
	}{
		{&o.AutoCommitInterval, "AutoCommitInterval", 5 * time.Second},
		{&o.MaxPollInterval, "MaxPollInterval", 5 * time.Minute},
		{&o.SessionTimeout, "SessionTimeout", 45 * time.Second},
		{&o.HeartbeatInterval, "HeartbeatInterval", 3 * time.Second},
		{&o.RetryBackoff, "RetryBackoff", 100 * time.Millisecond},
		{&o.APITimeout, "APITimeout", time.Minute},
		{&o.TopicRefresh, "TopicRefresh", 5 * time.Minute},
	} {
		switch {
		case *d.field < 0:
			return refuse(d.name, *d.field, "0 or above")
		case *d.field == 0:
			*d.field = d.value
		}
	}
	if o.HeartbeatInterval >= o.SessionTimeout {
		return refuse("HeartbeatInterval", o.HeartbeatInterval, "less than SessionTimeout")
	}
	if o.MaxPollRecords == 0 {
		o.MaxPollRecords = 500
	}
	if o.MaxPartitionBytes == 0 {
		o.MaxPartitionBytes = 1 << 20
	}
	if o.ClientID == "" {
		o.ClientID = "consumer"
	}
	if o.Assignors == nil {
		o.Assignors = []Assignor{
			{offsetslog.RangeProtocol, offsetslog.AssignRange},
			{offsetslog.RoundRobinProtocol, offsetslog.AssignRoundRobin},
		}
	}
	o.ManualCommit = o.ManualCommit || o.Group == ""
	return o, nil
}
