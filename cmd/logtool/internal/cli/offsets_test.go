package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
	"github.com/seglog/seglog/offsetslog"
)

// offsetsOf writes a log directory with one group.
func offsetsOf(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	dir, err := seglog.OpenDir(path, offsetslog.Configure(seglog.DirOptions{ManualMaintenance: true}))
	require.NoError(t, err)
	store, err := offsetslog.Open(dir, offsetslog.Options{RetentionCheckInterval: -1})
	require.NoError(t, err)
	require.NoError(t, store.Commit(t.Context(), offsetslog.CommitRequest{Group: "billing", Offsets: []offsetslog.Commit{
		{TopicPartition: offsetslog.TopicPartition{Topic: "orders", Partition: 0}, Offset: 5, LeaderEpoch: -1},
		{TopicPartition: offsetslog.TopicPartition{Topic: "orders", Partition: 1}, Offset: 6, LeaderEpoch: -1},
	}}))
	require.NoError(t, store.Close())
	require.NoError(t, dir.Close())
	return path
}

func TestOffsetsAreDeletedWhenAPersonSaysYes(t *testing.T) {
	path := offsetsOf(t)
	for args, question := range map[string]string{
		"billing":          "delete group billing with 2 offsets? [y/N] ",
		"billing orders":   "delete 2 offsets of group billing? [y/N] ",
		"billing orders 1": "delete 1 offset of group billing? [y/N] ",
	} {
		command := append([]string{"offsets", "delete", path}, strings.Fields(args)...)
		for _, answer := range []string{"", "\n", "no\n"} {
			r := runIn(t, Env{Stdin: strings.NewReader(answer), StdinTerminal: true}, command...)
			require.Equal(t, result{"", question + "logtool: not confirmed: nothing was deleted\n", 1}, r)
		}
		r := runIn(t, Env{Stdin: strings.NewReader("y\n"), StdinTerminal: true}, append([]string{"offsets", "delete", offsetsOf(t)}, strings.Fields(args)...)...)
		require.Equal(t, 0, r.status, r.stderr)
		require.Contains(t, r.stdout, "deleted ")
	}
	require.Contains(t, run(t, "offsets", "list", path).stdout, "billing  orders          1       6")
}

// What somebody has stored as the name of a topic is not a path to go to.
func TestOffsetsOfATopicThatIsNoNameHaveNoLog(t *testing.T) {
	path := offsetsOf(t)
	dir := filepath.Join(path, "logs")
	require.NoError(t, os.CopyFS(filepath.Join(dir, offsetslog.Topic+"-49"), os.DirFS(filepath.Join(path, offsetslog.Topic+"-49"))))
	log, err := seglog.Open(filepath.Join(path, "outside-0"), seglog.Options{})
	require.NoError(t, err)
	require.NoError(t, log.Close())
	r := run(t, "offsets", "set", dir, "g", "../outside", "0", "--offset", "0")
	require.Equal(t, 0, r.status, r.stderr)
	r = run(t, "offsets", "list", dir, "--group", "g")
	require.Contains(t, r.stdout, "no such log here")
}

func TestDurationsOfResets(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"36h": 36 * time.Hour, "7d": 7 * 24 * time.Hour, "P1D": 24 * time.Hour, "PT0S": 0, "PT1H30M": 90 * time.Minute,
		"P2DT3H4M5.5S": 51*time.Hour + 4*time.Minute + 5*time.Second + 500*time.Millisecond,
		"pt1m":         time.Minute, "-PT1H": -time.Hour, "PT-1H": -time.Hour, "PT-0.5S": -500 * time.Millisecond, "P-1DT1H": -23 * time.Hour,
	} {
		got, err := parseDuration(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "P", "PT", "P1", "1", "P1H", "PT1D", "P1DT", "PT1.5H", "P1Y", "P999999999999D", "PT1.1234567890S"} {
		_, err := parseDuration(s)
		require.Error(t, err, s)
	}
}

// Row 415
func TestTimesOfResets(t *testing.T) {
	now := time.Date(2026, 9, 2, 0, 0, 0, 0, time.UTC)
	for s, want := range map[string]string{
		"2026-09-01T10:00:00.250":       "2026-09-01T10:00:00.25Z",
		"2026-09-01T10:00:00":           "2026-09-01T10:00:00Z",
		"2026-09-01T10:00:00.000Z":      "2026-09-01T10:00:00Z",
		"2026-09-01T10:00:00.000+02":    "2026-09-01T08:00:00Z",
		"2026-09-01T10:00:00.000+0230":  "2026-09-01T07:30:00Z",
		"2026-09-01T10:00:00.000-02:30": "2026-09-01T12:30:00Z",
		"2026-09-01":                    "2026-09-01T00:00:00Z",
		"-2h":                           "2026-09-01T22:00:00Z",
	} {
		ms, err := parseDatetime(s, now)
		require.NoError(t, err, s)
		require.Equal(t, want, time.UnixMilli(ms).UTC().Format(time.RFC3339Nano), s)
	}
}

// K077: what nobody can decode is shown as it is, with its kind.
func TestOffsetsDumpShowsEveryKindOfRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), offsetslog.Topic+"-0")
	log, err := seglog.Open(dir, seglog.Options{})
	require.NoError(t, err)
	key := func(k offsetslog.Key) []byte { return k.Append(nil) }
	_, err = log.Append([]seglog.Record{
		{Key: key(offsetslog.Key{Type: offsetslog.ConsumerGroupMemberKey, Group: "g", Member: "m"}), Value: []byte{0, 0, 1}},
		{Key: key(offsetslog.Key{Type: offsetslog.ConsumerGroupRegexKey, Group: "g", Regex: "o.*"})},
		{Key: []byte{0, 99, 'x'}, Value: []byte("later")},
		{Key: []byte{0}, Value: []byte("short")},
		{Key: key(offsetslog.Key{Type: offsetslog.OffsetKey, Group: "g", TopicPartition: offsetslog.TopicPartition{Topic: "t"}}), Value: []byte{0, 9}},
	}, nil)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	r := run(t, "offsets", "dump", dir, "-o", "json")
	require.Equal(t, statusDamage, r.status, "two cannot be decoded")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	require.Len(t, lines, 5)
	for i, want := range []string{
		`"key_type":5,"group":"g","member":"m","tombstone":false,"value_base64":"AAAB"}`,
		`"key_type":16,"group":"g","regex":"o.*","tombstone":true}`,
		`"key_type":99,"key_base64":"AGN4","value_base64":"bGF0ZXI="}`,
		`"producer_id":null,"key_base64":"AA==","value_base64":"c2hvcnQ=","error":"key: `,
		`"key_type":1,"group":"g","topic":"t","partition":0,"tombstone":false,"value_base64":"AAk=","error":"offset commit value: `,
	} {
		require.Contains(t, lines[i], want)
	}
	r = run(t, "offsets", "dump", dir)
	require.Equal(t, statusDamage, r.status)
	require.Empty(t, r.stdout)
	require.Contains(t, r.stderr, "offset 3: key: ")
	require.Contains(t, r.stderr, "offset 4: offset commit value: ")
}
