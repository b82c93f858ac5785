package offsetslog

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

// Numbers and names of Errors.java.
func TestErrorsAreKafkas(t *testing.T) {
	for err, name := range map[Error]string{
		-1: "UNKNOWN_SERVER_ERROR", 1: "OFFSET_OUT_OF_RANGE", 3: "UNKNOWN_TOPIC_OR_PARTITION",
		12: "OFFSET_METADATA_TOO_LARGE", 14: "COORDINATOR_LOAD_IN_PROGRESS", 15: "COORDINATOR_NOT_AVAILABLE",
		16: "NOT_COORDINATOR", 17: "INVALID_TOPIC_EXCEPTION", 22: "ILLEGAL_GENERATION",
		23: "INCONSISTENT_GROUP_PROTOCOL", 24: "INVALID_GROUP_ID", 25: "UNKNOWN_MEMBER_ID",
		26: "INVALID_SESSION_TIMEOUT", 27: "REBALANCE_IN_PROGRESS", 30: "GROUP_AUTHORIZATION_FAILED",
		42: "INVALID_REQUEST", 68: "NON_EMPTY_GROUP", 69: "GROUP_ID_NOT_FOUND", 81: "GROUP_MAX_SIZE_REACHED",
		82: "FENCED_INSTANCE_ID", 86: "GROUP_SUBSCRIBED_TO_TOPIC", 88: "UNSTABLE_OFFSET_COMMIT", 113: "STALE_MEMBER_EPOCH",
	} {
		k := KafkaErrorOf(fmt.Errorf("commit: %w", err))
		require.Equal(t, name, k.Name)
		require.EqualValues(t, err, k.Code)
		require.Equal(t, strings.ReplaceAll(strings.ToLower(name), "_", " "), err.Error())
	}
	require.Equal(t, "NONE", KafkaErrorOf(nil).Name)
	require.Equal(t, "INVALID_PRODUCER_EPOCH", KafkaErrorOf(seglog.ErrInvalidProducerEpoch).Name)
	require.Equal(t, "UNKNOWN_SERVER_ERROR", KafkaErrorOf(errors.New("?")).Name)
	require.Equal(t, "kafka error 7", Error(7).Error())
	require.True(t, ErrUnstable.Retriable())
	require.False(t, ErrRebalancing.Retriable())
}

// The mapping of CoordinatorOperationExceptionHelper.
func TestFailuresOfTheLogInKafkasWords(t *testing.T) {
	for cause, want := range map[error]Error{
		seglog.ErrMessageTooLarge: ErrUnknownServer, seglog.ErrSetTooLarge: ErrUnknownServer,
		seglog.ErrClosed: ErrNotAvailable, seglog.ErrFailed: ErrNotCoordinator, seglog.ErrNoSpace: ErrNotCoordinator,
	} {
		err := coordinatorError(cause)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, err, cause)
	}
	require.Equal(t, seglog.ErrOutOfOrderSequence, coordinatorError(seglog.ErrOutOfOrderSequence))
}

func TestCommitThatIsTooLargeIsNotWritten(t *testing.T) {
	h := newHouse(t, quiet)
	var r CommitRequest
	r.Group = "g"
	for i := range int32(600) {
		r.Offsets = append(r.Offsets, Commit{TopicPartition: TopicPartition{"t", i}, Offset: 1, Metadata: strings.Repeat("m", 4096)})
	}
	err := h.Commit(ctx, r)
	require.ErrorIs(t, err, ErrUnknownServer)
	require.ErrorIs(t, err, seglog.ErrMessageTooLarge)
	require.EqualValues(t, -1, h.at("g", TopicPartition{"t", 0}))
	h.commit("g", orders, 1)
}

func TestRefusalsInWords(t *testing.T) {
	var r refusals
	require.NoError(t, r.err())
	for i := range int32(5) {
		r.add(TopicPartition{"t", i}, ErrInvalidRequest)
	}
	require.EqualError(t, r.err(), "t-0: invalid request; t-1: invalid request; t-2: invalid request; and 2 more")
}

func TestPartitionThatCannotBeReadCostsNoOther(t *testing.T) {
	opts := quiet
	opts.Partitions = 2
	h := newHouseOnDisk(t, opts)
	var bad, good string
	for _, g := range []string{"a", "b", "c"} {
		if PartitionFor(g, 2) == 0 {
			bad = g
		} else {
			good = g
		}
		h.commit(g, orders, 1)
	}
	h.close()
	damageRecovered(t, h.path)
	h.open()
	require.ErrorIs(t, h.Commit(ctx, simple(bad, orders, 2)), ErrNotCoordinator)
	require.EqualValues(t, 1, h.at(good, orders))
	require.ErrorIs(t, h.Load(ctx), ErrNotCoordinator)
	_, err := h.Expire(ctx)
	require.ErrorIs(t, err, ErrNotCoordinator)
	groups, err := h.Groups(ctx)
	require.ErrorIs(t, err, ErrNotCoordinator)
	require.NotEmpty(t, groups)
	require.ErrorIs(t, h.PartitionsDeleted(ctx, []TopicPartition{orders}), ErrNotCoordinator)
	require.EqualValues(t, -1, h.at(good, orders))
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, opts := range map[string]Options{
		"negative partitions":            {Partitions: -1},
		"more partitions than there are": {Partitions: maxPartitions + 1},
		"elsewhere, of how many":         {Elsewhere: true},
		"sync policy":                    {Sync: 9},
		"negative metadata":              {MaxMetadata: -1},
		"metadata that cannot be stored": {MaxMetadata: maxString + 1},
		"negative group size":            {MaxGroupSize: -1},
		"negative session":               {MinSessionTimeout: -1},
		"session that cannot be stored":  {MaxSessionTimeout: maxTimeout + 1},
		"no session at all":              {MinSessionTimeout: time.Hour, MaxSessionTimeout: time.Minute},
	} {
		dir, err := seglog.OpenDir("data", Configure(inMemory()))
		require.NoError(t, err)
		_, err = Open(dir, opts)
		require.ErrorIs(t, err, seglog.ErrOption, name)
		_, err = OpenReadOnly(dir, 1, opts)
		require.ErrorIs(t, err, seglog.ErrOption, name)
		require.NoError(t, dir.Close())
	}
}

// A directory may have any name. It takes no memory.
func TestPartitionThatNoTopicHasIsRefused(t *testing.T) {
	for _, n := range []int32{maxPartitions, math.MaxInt32 - 1, math.MaxInt32} {
		dir, err := seglog.OpenDir("data", Configure(inMemory()))
		require.NoError(t, err)
		_, err = dir.CreatePartition(Topic, n, nil)
		require.NoError(t, err)
		for _, opts := range []Options{{}, {Partitions: 50}, {Partitions: 50, Elsewhere: true}} {
			_, err = Open(dir, opts)
			require.ErrorIs(t, err, seglog.ErrOption)
		}
		_, err = OpenReadOnly(dir, n, Options{})
		if n > maxPartitions {
			require.ErrorIs(t, err, seglog.ErrOption)
		}
		require.NoError(t, dir.Close())
	}
}
