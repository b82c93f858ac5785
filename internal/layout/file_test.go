package layout

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesArePaddedToTwentyDigits(t *testing.T) {
	require.Equal(t, "00000000000000000000.log", LogName(0))
	require.Equal(t, "00000000000000000042.index", OffsetIndexName(42))
	require.Equal(t, "00000000000000000042.timeindex", TimeIndexName(42))
	require.Equal(t, "00000000000000000042.txnindex", TxnIndexName(42))
	require.Equal(t, "00000000000000000042.snapshot", SnapshotName(42))
	require.Equal(t, "09223372036854775807.log", LogName(math.MaxInt64))
	require.Equal(t, "00000000000000000042.log.deleted", SegmentFileName(Log, 42, Deleted))
	require.Equal(t, "00000000000000000042.timeindex.cleaned", SegmentFileName(TimeIndex, 42, Cleaned))
	require.Equal(t, "00000000000000000042.txnindex.swap", SegmentFileName(TxnIndex, 42, Swap))
	require.Equal(t, "00000000000000000042-0000000007.checkpoint", KRaftCheckpointName(42, 7))
}

func TestNamesSortByOffset(t *testing.T) {
	var names []string
	for _, base := range []int64{0, 9, 10, 999_999_999_999, math.MaxInt64} {
		names = append(names, LogName(base))
	}
	require.True(t, slices.IsSorted(names))
}

func TestParseFileKnowsEveryFileOfALogDirectory(t *testing.T) {
	tests := []struct {
		name string
		want File
	}{
		{"00000000000000000000.log", File{Kind: Log}},
		{"00000000000000000042.index", File{Kind: OffsetIndex, Base: 42}},
		{"00000000000000000042.timeindex", File{Kind: TimeIndex, Base: 42}},
		{"00000000000000000042.txnindex", File{Kind: TxnIndex, Base: 42}},
		{"00000000000000000042.snapshot", File{Kind: Snapshot, Base: 42}},
		{"09223372036854775807.log", File{Kind: Log, Base: math.MaxInt64}},

		{"00000000000000000042.log.deleted", File{Kind: Log, State: Deleted, Base: 42}},
		{"00000000000000000042.snapshot.deleted", File{Kind: Snapshot, State: Deleted, Base: 42}},
		{"00000000000000000042.log.cleaned", File{Kind: Log, State: Cleaned, Base: 42}},
		{"00000000000000000042.index.swap", File{Kind: OffsetIndex, State: Swap, Base: 42}},
		{"00000000000000000042.timeindex.tmp", File{Kind: TimeIndex, State: Temp, Base: 42}},
		{"00000000000000000042.snapshot.tmp", File{Kind: Snapshot, State: Temp, Base: 42}},

		{"leader-epoch-checkpoint", File{Kind: LeaderEpochCheckpoint}},
		{"leader-epoch-checkpoint.tmp", File{Kind: LeaderEpochCheckpoint, State: Temp}},
		{"partition.metadata", File{Kind: PartitionMetadata}},
		{"recovery-point-offset-checkpoint", File{Kind: RecoveryPoint}},
		{"log-start-offset-checkpoint", File{Kind: LogStart}},
		{"replication-offset-checkpoint", File{Kind: HighWatermark}},
		{"cleaner-offset-checkpoint", File{Kind: CleanerOffset}},
		{"meta.properties", File{Kind: MetaProperties}},
		{"meta.properties.tmp", File{Kind: MetaProperties, State: Temp}},
		{".lock", File{Kind: LockFile}},
		{".kafka_cleanshutdown", File{Kind: CleanShutdown}},
		{"seglog.state", File{Kind: SeglogState}},
		{"seglog.untouched.deleted", File{Kind: Untouched}},
		{"seglog.state.tmp", File{Kind: SeglogState, State: Temp}},
		{"seglog.state.copy", File{Kind: SeglogState}},
		{"seglog.state.copy.tmp", File{Kind: SeglogState, State: Temp}},

		{"bootstrap.checkpoint", File{Kind: KRaftBootstrap}},
		{"quorum-state", File{Kind: QuorumState}},
		{"00000000000000000042-0000000007.checkpoint", File{Kind: KRaftCheckpoint, Base: 42, Epoch: 7}},
		{"00000000000000000042-0000000007.checkpoint.deleted", File{Kind: KRaftCheckpoint, State: Deleted, Base: 42, Epoch: 7}},
		{"00000000000000000042-0000000007-8125.checkpoint.part", File{Kind: KRaftCheckpoint, State: Temp, Base: 42, Epoch: 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Name = tt.name
			got, ok := ParseFile(tt.name)
			require.True(t, ok)
			require.Equal(t, tt.want, got)
		})
	}
}

// Stray files in a log directory are not taken for data.
func TestParseFileLeavesForeignFilesAlone(t *testing.T) {
	for _, name := range []string{
		"",
		".",
		".log",
		"foo.log",
		"123.log",
		".nfs0001",
		".DS_Store",
		"00000000000000000000",
		"00000000000000000000.",
		"00000000000000000000.LOG",
		"00000000000000000000.logs",
		"00000000000000000000.log.bak",
		"00000000000000000000.log.",
		"00000000000000000000.log ",
		"00000000000000000000.log~",
		"00000000000000000000 (copy).log",
		"0000000000000000000.log",   // 19 digits
		"000000000000000000000.log", // 21 digits
		"99999999999999999999.log",  // above int64
		"09223372036854775808.log",  // above int64 by one
		"-0000000000000000001.log",
		"+0000000000000000001.log",
		"0000000000000000000x.log",
		"0000000000000000000٣.log", // a digit to unicode.IsDigit
		"00000000000000000000.deleted",
		"00000000000000000000.log.tmp",
		"00000000000000000000.snapshot.swap",
		"00000000000000000000.snapshot.cleaned",
		"00000000000000000000.log.deleted.deleted",
		"00000000000000000000.log.swap.deleted",
		"00000000000000000000.checkpoint",
		"00000000000000000000-1.checkpoint",
		"00000000000000000000-9999999999.checkpoint",
		"00000000000000000000-0000000007",
		"00000000000000000000-0000000007.checkpoint.part",
		"00000000000000000000-0000000007-.checkpoint.part",
		"00000000000000000000-0000000007-x.checkpoint.part",
		"99999999999999999999-0000000007.checkpoint",
		".lock.tmp",
		".tmp",
		"leader-epoch-checkpoint.bak",
		"dir/00000000000000000000.log",
		strings.Repeat("0", 1<<16) + ".log",
	} {
		got, ok := ParseFile(name)
		require.False(t, ok, "%q", name)
		require.Equal(t, File{Name: name}, got, "%q", name)
	}
}

func TestWhatWasTakenOutIsKnownByItsName(t *testing.T) {
	const log = "00000000000000000010.log"
	for _, name := range []string{
		CutName(log, 591, "eb74010c805b0fc6eb74010c805b0fc6"), AsideName(log, 1), AsideName(log, 2),
		AsideName("00000000000000000010.timeindex", 12),
	} {
		f, ok := CutOf(name)
		require.True(t, ok, name)
		require.True(t, strings.HasPrefix(name, f.Name+"."), name)
		require.EqualValues(t, 10, f.Base, name)
	}
	for name, kind := range map[string]Kind{"leader-epoch-checkpoint": LeaderEpochCheckpoint, "seglog.state": SeglogState} {
		for n := range 3 {
			f, ok := CutOf(AsideName(name, n+1))
			require.True(t, ok, name)
			require.Equal(t, File{Kind: kind, Name: name}, f)
		}
		_, ok := CutOf(CutName(name, 1, "eb74010c805b0fc6"))
		require.False(t, ok, name)
	}
	for _, name := range []string{log, "notes.cut", ".cut", "10.log.cut", "meta.properties.cut", "partition.metadata.cut", log + ".1.2.3.cut", log + ".591.eb74"} {
		_, ok := CutOf(name)
		require.False(t, ok, name)
	}
}

func TestKindsAndStatesSpeak(t *testing.T) {
	seen := map[string]bool{}
	for kind := Log; kind <= SeglogState; kind++ {
		require.NotEqual(t, Unknown.String(), kind.String())
		require.False(t, seen[kind.String()], "%q stands for two kinds", kind)
		seen[kind.String()] = true
		require.Equal(t, kind <= Snapshot, kind.Segment(), "%q", kind)
	}
	require.Equal(t, "unknown", (Spare + 1).String())
	for state := Live; state <= Stray; state++ {
		require.NotEqual(t, "unknown", state.String())
	}
	require.Equal(t, "unknown", (Stray + 1).String())
}

// FuzzParseFile: never panics; what parses builds back to the same name.
func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{
		"", ".lock", "foo.log", "123.log",
		"00000000000000000000.log",
		"00000000000000000042.log.deleted",
		"00000000000000000042.index.cleaned",
		"00000000000000000042.timeindex.swap",
		"09223372036854775807.txnindex",
		"99999999999999999999.log",
		"00000000000000000042.snapshot.tmp",
		"leader-epoch-checkpoint.tmp",
		"bootstrap.checkpoint",
		"00000000000000000042-0000000007.checkpoint",
		"00000000000000000042-0000000007-8125.checkpoint.part",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, ok := ParseFile(name)
		require.Equal(t, name, got.Name)
		require.Equal(t, ok, got.Kind != Unknown)
		switch {
		case got.Kind.Segment():
			require.Equal(t, name, SegmentFileName(got.Kind, got.Base, got.State))
		case got.Kind == KRaftCheckpoint && got.State != Temp: // a temporary name has a random part
			require.Equal(t, name, KRaftCheckpointName(got.Base, got.Epoch)+got.State.Suffix())
		case ok && got.State == Temp:
			require.True(t, strings.HasSuffix(name, TempSuffix) || strings.HasSuffix(name, kraftPartSuffix))
		}
	})
}
