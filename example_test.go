package seglog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seglog/seglog"
)

func ExampleLog() {
	ctx := context.Background()
	root, _ := os.MkdirTemp("", "seglog-example-")
	defer os.RemoveAll(root)
	dir := filepath.Join(root, "orders-0")

	err := func() error {
		log, err := seglog.Open(dir, seglog.Options{SegmentBytes: 64 << 20})
		if err != nil {
			return err
		}
		defer log.Close()

		at, err := log.Append([]seglog.Record{
			{Key: []byte("order-774"), Value: []byte("created")},
			{Key: []byte("order-774"), Value: []byte("paid")},
		}, nil)
		if err != nil {
			return err
		}

		rec, err := log.Get(at.LastOffset)
		if err != nil {
			return err
		}
		fmt.Printf("%d %s=%s\n", rec.Offset, rec.Key, rec.Value)

		for rec, err := range log.Records(ctx, at.BaseOffset, nil) {
			if err != nil {
				return err
			}
			fmt.Printf("%d %s=%s\n", rec.Offset, rec.Key, rec.Value)
		}
		return nil
	}()
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 order-774=paid
	// 0 order-774=created
	// 1 order-774=paid
}

func ExampleLog_Records_follow() {
	root, _ := os.MkdirTemp("", "seglog-example-")
	defer os.RemoveAll(root)
	log, err := seglog.Open(filepath.Join(root, "events-0"), seglog.Options{Sync: seglog.SyncNever})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for _, word := range []string{"a", "b", "c"} {
			log.Append([]seglog.Record{{Value: []byte(word)}}, nil)
		}
	}()
	for rec, err := range log.Records(ctx, 0, &seglog.IterOptions{Follow: true}) {
		if errors.Is(err, context.Canceled) {
			break
		}
		fmt.Printf("%d %s\n", rec.Offset, rec.Value)
		if rec.Offset == 2 {
			stop()
		}
	}
	// Output:
	// 0 a
	// 1 b
	// 2 c
}

func ExampleLog_OffsetForTime() {
	root, _ := os.MkdirTemp("", "seglog-example-")
	defer os.RemoveAll(root)
	log, err := seglog.Open(filepath.Join(root, "readings-0"), seglog.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()

	noon := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for i := range 5 {
		at := noon.Add(time.Duration(i) * time.Minute)
		log.Append([]seglog.Record{{Timestamp: at.UnixMilli(), Value: []byte("reading")}}, nil)
	}
	at, found, _ := log.OffsetForTime(noon.Add(90 * time.Second).UnixMilli())
	fmt.Println(found, at.Offset, time.UnixMilli(at.Timestamp).UTC().Format(time.TimeOnly))
	_, found, _ = log.OffsetForTime(noon.Add(time.Hour).UnixMilli())
	fmt.Println(found)
	// Output:
	// true 2 12:02:00
	// false
}

// The code a reader sees first must be code that runs.
func TestREADMEShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)<!-- example: ExampleLog -->\n```go\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, block, "README.md has no example")
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	require.Contains(t, flat(string(source)), flat(string(block[1])))
}

// A log directory has many partitions. Each is a Log, opened when it is asked for.
func ExampleDir() {
	path, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(path)
	settings, err := seglog.OptionsFromProperties(seglog.Options{}, map[string]string{"retention.ms": "-1", "segment.bytes": "1048576"})
	if err != nil {
		panic(err)
	}
	dir, err := seglog.OpenDir(path, seglog.DirOptions{Log: settings})
	if err != nil {
		panic(err)
	}
	defer dir.Close()
	for n := range int32(2) {
		log, err := dir.CreatePartition("orders", n, nil)
		if err != nil {
			panic(err)
		}
		if _, err := log.Append([]seglog.Record{{Value: fmt.Append(nil, "first of ", n)}}, nil); err != nil {
			panic(err)
		}
	}
	log, err := dir.Partition("orders", 1)
	if err != nil {
		panic(err)
	}
	record, err := log.Get(0)
	if err != nil {
		panic(err)
	}
	fmt.Println(dir.Topics(), string(record.Value))
	// Output: [orders] first of 1
}
