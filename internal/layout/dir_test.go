package layout

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const id = "0123456789abcdef0123456789abcdef"

func TestParseDirSplitsAtTheLastDash(t *testing.T) {
	tests := []struct {
		name string
		want Dir
	}{
		{"test_topic-143", Dir{Topic: "test_topic", Partition: 143}},
		{"a.b-0", Dir{Topic: "a.b"}},
		{"a-b-c-12", Dir{Topic: "a-b-c", Partition: 12}},
		{"-lead-0", Dir{Topic: "-lead"}},
		{"foo--1", Dir{Topic: "foo-", Partition: 1}},
		{"orders.eu-west-3", Dir{Topic: "orders.eu-west", Partition: 3}},
		{"foo-2147483647", Dir{Topic: "foo", Partition: 2147483647}},
		{"x-delete-0", Dir{Topic: "x-delete"}},
		{"__consumer_offsets-49", Dir{Topic: "__consumer_offsets", Partition: 49}},
		{"foo.bar-3." + id + "-delete", Dir{"foo.bar", 3, Deleted, id}},
		{"foo.bar-testtopic-42." + id + "-delete", Dir{"foo.bar-testtopic", 42, Deleted, id}},
		{"foo-1." + id + "-future", Dir{"foo", 1, Future, id}},
		{"foo-1." + id + "-stray", Dir{"foo", 1, Stray, id}},
		{"foo-1." + strings.ToUpper(id) + "-stray", Dir{"foo", 1, Stray, strings.ToUpper(id)}},
		{strings.Repeat("o", 249) + "-5", Dir{Topic: strings.Repeat("o", 249), Partition: 5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseDir(tt.name)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			name, err := got.Name()
			require.NoError(t, err)
			require.Equal(t, tt.name, name)
		})
	}
}

// Each name that is no partition says which rule it breaks.
func TestParseDirRefusesWhatIsNoPartition(t *testing.T) {
	tests := []struct {
		name string
		rule Rule
	}{
		{"", RuleDash},
		{"topic", RuleDash},
		{"lost+found", RuleDash},
		{".DS_Store", RuleDash},
		{"topic-", RulePartition},
		{"topic-x", RulePartition},
		{"foo-x", RulePartition},
		{"foo-1999a", RulePartition},
		{"foo-+3", RulePartition},
		{"foo-007", RulePartition},
		{"foo-2147483648", RulePartition},
		{"foo-99999999999", RulePartition},
		{"remote-log-index-cache", RulePartition},
		{"-0", RuleTopicEmpty},
		{".-0", RuleTopicDots},
		{"..-0", RuleTopicDots},
		{"a b-0", RuleTopicCharacters},
		{"a/b-0", RuleTopicCharacters},
		{"ä-0", RuleTopicCharacters},
		{strings.Repeat("o", 250) + "-5", RuleTopicLength},
		{strings.Repeat("o", 249) + "-1000000", RuleLength},
		{"x-delete", RuleMark},
		{"x-future", RuleMark},
		{"non_kafka_dir-stray", RuleMark},
		{"foo1999.-delete", RuleID},
		{"foo-1.xyz-delete", RuleID},
		{"foo-1." + id + "0-delete", RuleID},
		{"foo-1." + id[1:] + "-delete", RuleID},
		{"foo." + id + "-delete", RuleDash},
		{"foo-." + id + "-delete", RulePartition},
		{"-1999." + id + "-delete", RuleTopicEmpty},
		{strings.Repeat("o", 214) + "-5." + id + "-delete", RuleLength},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseDir(tt.name)
			require.Zero(t, got)
			require.ErrorIs(t, err, ErrName)
			var nameErr *NameError
			require.ErrorAs(t, err, &nameErr)
			require.Equal(t, NameError{tt.name, tt.rule}, *nameErr)
		})
	}
}

func TestDirNameCutsTheTopicOfDoomedDirectories(t *testing.T) {
	long := "n" + strings.Repeat("o", 248)
	for _, state := range []State{Deleted, Stray} {
		name, err := Dir{long, 5, state, id}.Name()
		require.NoError(t, err)
		require.Len(t, name, 255)
		dir, err := ParseDir(name)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(long, dir.Topic), "%q", dir.Topic)
		require.Equal(t, Dir{dir.Topic, 5, state, id}, dir)
	}
	name, err := Dir{long, 5, Deleted, id}.Name()
	require.NoError(t, err)
	require.Equal(t, "n"+strings.Repeat("o", 212)+"-5."+id+"-delete", name)
}

func TestDirNameRefusesWhatCouldNotBeParsedBack(t *testing.T) {
	long := strings.Repeat("o", 249)
	tests := []struct {
		name string
		dir  Dir
		rule Rule
	}{
		{"future name above 255", Dir{long, 5, Future, id}, RuleLength},
		{"live name above 255", Dir{Topic: long, Partition: 1_000_000}, RuleLength},
		{"no topic", Dir{}, RuleTopicEmpty},
		{"a path for a topic", Dir{Topic: "../../etc"}, RuleTopicCharacters},
		{"negative partition", Dir{Topic: "foo", Partition: -1}, RulePartition},
		{"live with an id", Dir{Topic: "foo", ID: id}, RuleID},
		{"deleted without an id", Dir{Topic: "foo", State: Deleted}, RuleID},
		{"id with a slash", Dir{Topic: "foo", State: Stray, ID: "/" + id[1:]}, RuleID},
		{"state of a file", Dir{Topic: "foo", State: Swap, ID: id}, RuleState},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.dir.Name()
			var nameErr *NameError
			require.ErrorAs(t, err, &nameErr)
			require.Equal(t, tt.rule, nameErr.Rule)
		})
	}
}

func TestReservedDirsAreNotTopics(t *testing.T) {
	require.True(t, ReservedDir("__cluster_metadata-0"))
	require.True(t, ReservedDir("remote-log-index-cache"))
	require.False(t, ReservedDir("__consumer_offsets-0"))
}

func TestCheckTopicFollowsKafka(t *testing.T) {
	require.NoError(t, CheckTopic("Orders_2.eu-west"))
	require.NoError(t, CheckTopic("..."))
	require.EqualError(t, CheckTopic("a b"),
		`name "a b": a topic has only ASCII letters, digits, dots, underscores and dashes`)
}

// FuzzParseDir: never panics; what parses builds back to the same name; what
// does not parse is a *NameError for that name.
func FuzzParseDir(f *testing.F) {
	for _, seed := range []string{
		"", "-", "a.b-0", "-lead-0", "foo-x", "x-delete", "lost+found",
		"foo.bar-3." + id + "-delete",
		"foo-1." + id + "-future",
		"foo-1." + id + "-stray",
		strings.Repeat("o", 213) + "-5." + id + "-delete",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		dir, err := ParseDir(name)
		if err != nil {
			var nameErr *NameError
			require.ErrorAs(t, err, &nameErr)
			require.Equal(t, name, nameErr.Name)
			return
		}
		built, err := dir.Name()
		require.NoError(t, err)
		require.Equal(t, name, built)
	})
}
